"""The page on accuracy, read as the documentation writes it."""

from __future__ import annotations

from perfcast.report.document import Command, Note, Section, Table, list_tables
from perfcast.report.documents.accuracy import accuracy_document, parse_page

PAGE = """# Accuracy

Percent, unless said otherwise. More is
said [here](x.md).

## Kernels in `fp32`

Words **before**.

| Device | n | error |
|---|---|---:|
| H100 | 1,000 | 8.8 |
| A \\| B | – |

```bash
perfcast validate kernels
```

### Attention

| n |
|---|
| 3 |
"""


def test_headings_paragraphs_tables_and_commands_are_parted():
    document = parse_page(PAGE)
    assert (document.title, document.lead) == ("Accuracy", "Percent, unless said otherwise.")
    section, caveat = document.blocks
    assert caveat == Note("More is said here.")
    assert isinstance(section, Section)
    assert section.title == "Kernels in fp32"
    note, table, command, inner = section.blocks
    assert note == Note("Words before.")
    assert isinstance(table, Table)
    assert [column.heading for column in table.columns] == ["Device", "n", "error"]
    assert table.rows == (("H100", "1,000", "8.8"), ("A | B", "–", ""))
    assert command == Command("perfcast validate kernels")
    assert isinstance(inner, Section)
    assert inner.title == "Attention"
    assert [len(table.rows) for table in list_tables(document)] == [2, 1]


def test_the_documentation_s_page_is_read_whole():
    document = accuracy_document()
    text = "\n".join(str(table.rows) for table in list_tables(document))
    assert len(list_tables(document)) > 30
    assert "peak memory" in text
    assert "](" not in text
    assert "**" not in text
