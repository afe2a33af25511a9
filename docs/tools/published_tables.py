"""Tables of published systems in pages, each between ``<!-- published: NAME -->`` and ``<!-- end -->``.

python docs/tools/published_tables.py     # part of make docs-figures

NAME is a system, or a module of one that has a table of its own ('neusight.multi_node'), and its table is
what ``python -m perfcast.published.NAME`` prints without data; 'systems' is its list.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from perfcast.published.comparison import Comparison
from perfcast.published.systems import SYSTEMS, compare_system

DOCS = Path(__file__).resolve().parents[1]
PAGES = (DOCS / "accuracy.md", DOCS / "published.md")
_PLACE = re.compile(r"(<!-- published: (?P<name>[\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table_of(name: str) -> str:
    """A table as Markdown."""
    if name == "systems":
        lines = ["| Command | System | Where it stands |", "|---|---|---|"]
        lines += [
            f"| `perfcast published {key}` | {one.title} | {one.state} |" for key, one in SYSTEMS.items()
        ]
    else:
        lines = ["| | published | ours | difference |", "|---|---|---|---|"]
        lines += [f"| {one.what} | {' | '.join(one.texts)} |" for one in _compared(name).figures]
    return "\n".join(lines) + "\n"


def _compared(name: str) -> Comparison:
    if name in SYSTEMS:
        return compare_system(name)
    found: Comparison = import_module(f"perfcast.published.{name}").compare(None)
    return found


def written(page: str) -> str:
    """A page with its tables anew."""
    return _PLACE.sub(lambda match: f"{match[1]}{table_of(match['name'])}{match[3]}", page)


def main() -> None:
    """Write the pages."""
    for place in PAGES:
        place.write_text(written(place.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
