"""Refactorings move no number. After a change that is meant to: ``python tests/golden/rewrite.py``."""

from __future__ import annotations

import json

import pytest

from golden.forecasts import FILE, REQUESTS, figures_of

KEPT = json.loads(FILE.read_text(encoding="utf-8"))


def test_what_is_kept_is_what_is_asked_for():
    assert KEPT.keys() == REQUESTS.keys()


@pytest.mark.parametrize("name", REQUESTS)
def test_a_forecast_is_the_one_that_was_kept(name: str):
    assert figures_of(name) == pytest.approx(KEPT[name], rel=1e-9, abs=0), "see tests/golden/rewrite.py"
