"""The documentation's pages are of what there is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

import perfcast

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "tools"))

from catalog_tables import catalog_table, counts  # noqa: E402
from commands import describe_command, leaf_commands  # noqa: E402
from site_hooks import describe_function, describe_names, notebook_page  # noqa: E402

PAGES = sorted(path for path in DOCS.rglob("*.md") if "tools" not in path.parts)


def test_every_command_has_its_options_on_the_page_of_its_verb():
    missing = [
        words
        for words in leaf_commands()
        if f"<!-- options: {words} -->" not in (DOCS / "verbs" / f"{words.split()[0]}.md").read_text("utf-8")
    ]
    assert not missing


def test_options_are_those_of_the_help():
    text = describe_command("predict")
    assert "| `--devices` | `INTEGER` | `1` | Number of devices. |" in text
    assert "Sentinel" not in text


def test_a_command_that_does_not_exist_stops_the_build():
    with pytest.raises(KeyError, match="no command 'perfcast forecast'"):
        describe_command("forecast")


@pytest.mark.parametrize("subject", ["models", "devices", "processors", "clusters"])
def test_a_table_of_the_catalog_has_a_line_for_each(subject: str):
    assert catalog_table(subject).count("\n| `") == counts()[subject]


def test_public_names_are_those_of_the_package():
    text = describe_names("perfcast")
    assert all(f"{kind} perfcast." in text for kind in ("###", ":::"))
    assert "### perfcast.trace.explain" in text
    assert "__version__" not in text


def test_a_verb_has_its_keywords():
    lines = describe_function("perfcast.predict", perfcast.predict).splitlines()
    assert lines[0] == "### perfcast.predict"
    assert any(line.startswith("| `batch_size` | `int` | Sequences or samples") for line in lines)


def test_a_notebook_becomes_its_cells_and_what_they_answered():
    cells = [
        {"cell_type": "markdown", "source": ["# A title\n"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]},
    ]
    assert notebook_page({"cells": cells}) == "# A title\n\n\n```python\n1 + 1\n```\n\n```text\n2\n```"


def test_counts_on_pages_are_those_of_the_catalog():
    known = counts()
    texts = {path: path.read_text("utf-8") for path in (ROOT / "README.md", *PAGES)}
    counted = r"(\d[\d,]*) (models|devices|processors|clusters)"
    for path, text in texts.items():
        for phrase in re.finditer(rf"(?:{counted}(?:, | and )?)+(?= in the catalog)", text):
            for number, subject in re.findall(counted, phrase[0]):
                assert int(number.replace(",", "")) == known[subject], f"{path.name}: {number} {subject}"


def test_pages_are_in_the_navigation_and_load_nothing_from_elsewhere():
    text = (ROOT / "mkdocs.yml").read_text("utf-8").replace("!!python/name:", "")
    settings = yaml.safe_load(text)
    listed = set(re.findall(r"[\w/-]+\.md", str(settings["nav"])))
    notebooks = {f"notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")}
    assert listed == {path.relative_to(DOCS).as_posix() for path in PAGES} | notebooks
    assert settings["theme"]["font"] is False
