"""Refactorings move none of the answers of ``golden.plans``; see ``golden.rewrite``."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.ask import differences, load
from golden.plans import CASES

KEPT = load("plans")


def test_what_is_kept_is_what_is_asked_for():
    assert KEPT.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_the_one_that_was_kept(name: str, golden_inputs: Path):
    assert not list(differences(KEPT[name], CASES[name].answer(golden_inputs))), "see tests/golden/rewrite.py"
