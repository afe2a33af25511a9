"""Tables of published systems in pages are what their commands print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from perfcast.published.systems import SYSTEMS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from published_tables import PAGES, written  # noqa: E402


@pytest.mark.parametrize("place", PAGES, ids=lambda place: place.stem)
def test_a_page_holds_the_tables_that_its_command_writes(place: Path):
    page = place.read_text("utf-8")
    assert "<!-- published: " in page
    assert written(page) == page, "run make docs-figures"


def test_every_system_has_its_row_on_the_page_of_published_systems():
    page = (ROOT / "docs" / "published.md").read_text("utf-8")
    assert re.findall(r"^\| `perfcast published (\w+)`", page, re.MULTILINE) == list(SYSTEMS)
