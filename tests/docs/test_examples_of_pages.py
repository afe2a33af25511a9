"""What pages show is what their examples print; ``python docs/tools/examples.py --write`` writes it anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from examples import Example, as_shown, examples_of, pages, run_example, same  # noqa: E402

COMMANDS = [example for page in pages() for example in examples_of(page) if example.is_command]
WITH_PROGRAMS = [page for page in pages() if any(not example.is_command for example in examples_of(page))]


@pytest.mark.parametrize("example", COMMANDS, ids=lambda example: example.name)
def test_a_command_prints_what_its_page_shows(example: Example):
    check(example, run_example(example, {}))


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=lambda page: page.name)
def test_the_programs_of_a_page_print_what_it_shows(page: Path):
    names: dict[str, object] = {}
    for example in examples_of(page):
        if not example.is_command:
            check(example, run_example(example, names))


def check(example: Example, printed: str) -> None:
    if example.shown is not None:
        shown = as_shown(example, printed)
        assert same(example.shown, shown), shown


def test_only_the_beginning_is_compared_where_a_page_says_so():
    shown = Example(ROOT / "README.md", "", True, "first\n…\n", 0, 0)
    assert as_shown(shown, "first\nsecond\n") == "first\n…\n"


def test_lines_between_are_left_out_where_a_page_says_so():
    shown = Example(ROOT / "README.md", "", True, "first\n…\nthird\nx\n…\n", 0, 0)
    assert as_shown(shown, "first\nsecond\nthird\nfourth\nfifth\n") == "first\n…\nthird\nfourth\n…\n"
    at_end = Example(ROOT / "README.md", "", True, "first\n…\nthird\n", 0, 0)
    assert as_shown(at_end, "first\nsecond\nthird\n") == "first\n…\nthird\n"


def test_the_time_that_a_machine_took_is_not_compared():
    assert same("weighed 12 plans in 3.1 s", "weighed 12 plans in 14 s")
    assert not same("weighed 12 plans in 3.1 s", "weighed 13 plans in 3.1 s")
