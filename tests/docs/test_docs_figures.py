"""The page of figures on shipped rows is what its command writes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from figures import INTRODUCTION, PAGE, SUITES, section_of, sections_of, table_of  # noqa: E402

from perfcast.cli.validate import _FITTED_ANEW, _MEASURED_HERE, _SUITES  # noqa: E402


def test_every_suite_of_measured_tables_has_its_section():
    assert set(SUITES) == set(_SUITES) - {*_MEASURED_HERE, *_FITTED_ANEW}
    assert list(sections_of(PAGE.read_text("utf-8"))) == list(SUITES)
    assert PAGE.read_text("utf-8").startswith(INTRODUCTION)


@pytest.mark.parametrize("suite", ["memory", "collectives"])
def test_a_section_is_what_the_suite_says_of_the_shipped_rows(suite: str):
    assert sections_of(PAGE.read_text("utf-8"))[suite].rstrip("\n") == section_of(suite).rstrip("\n")


def test_a_group_without_rows_has_no_table():
    assert table_of([{"group": "all", "value": "all", "n": 0}], "all") == []
