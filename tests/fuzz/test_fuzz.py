"""Every door of perfcast answers or refuses by one clear message, whatever it is given.

A few inputs of each target; ``make fuzz`` draws many, and what it finds is kept in ``regressions/``.
"""

from __future__ import annotations

from functools import partial

import pytest

from cases import cases
from fuzz.engines import with_hypothesis
from fuzz.listing import regressions, targets
from fuzz.oracle import MAX_FILE, check, given_to, prepare

ALL = list(targets().values())
FOUND = [(one, file) for one in ALL for file in regressions(one)]


@pytest.fixture(autouse=True)
def _limits(monkeypatch):
    monkeypatch.setenv("PERFCAST_CACHE", "off")
    monkeypatch.setenv("PERFCAST_MAX_FILE", MAX_FILE)


@pytest.mark.parametrize("target", ALL, ids=[one.name for one in ALL])
def test_the_first_input_of_a_door_is_answered(target):
    target.run(given_to(target, target.seeds()[0]))


@pytest.mark.parametrize("target", ALL, ids=[one.name for one in ALL])
def test_inputs_are_answered_or_refused(target):
    prepare(target)
    number = cases(target.usual, share=target.share)
    with_hypothesis(target, number, partial(check, target), same=True)


@pytest.mark.parametrize(("target", "file"), FOUND, ids=[f"{one.name}/{file.name}" for one, file in FOUND])
def test_what_was_found_once_stays_mended(target, file):
    check(target, file.read_bytes())


def test_no_folder_of_regressions_is_without_target():
    from pathlib import Path

    folder = Path(__file__).parent / "regressions"
    held = {str(file.parent.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert held <= set(targets())
