"""What is thought of a fit: by its error on what was left out, its R² and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.fit_quality import describe_fit, judge_fit, spread_of_fit
from perfcast.cost.model import UNKNOWN_SPREAD


@pytest.mark.parametrize(
    ("error", "r_squared", "largest_ratio", "wanted"),
    [
        (0.05, 0.99, 1.1, "good"),
        (0.05, 0.18, 1.1, "good"),  # times that hardly differ
        (0.15, 0.18, 1.1, "doubtful"),
        (0.31, 0.97, 1.1, "doubtful"),
        (0.05, 0.99, 3.2, "doubtful"),
        (1.00, 0.90, 1.1, "doubtful"),
        (5.70, 0.90, 1.1, "refused"),
        (0.12, 0.56, 4914.0, "doubtful"),  # one disturbed time says nothing against the others
    ],
)
def test_a_fit_is_judged_by_its_error_its_r_squared_and_its_interval(
    error: float, r_squared: float, largest_ratio: float, wanted: str
):
    assert judge_fit(error, r_squared, spread_of_fit(error, largest_ratio)) == wanted


@given(error=st.floats(0, 100), more=st.floats(0, 10), ratio=st.floats(1, 100))
def test_a_worse_fit_is_never_thought_better_of_and_never_has_a_narrower_interval(error, more, ratio):
    order = ["good", "doubtful", "refused"]
    spreads = [spread_of_fit(e, ratio) for e in (error, error + more)]
    assert 1.0 <= spreads[0] <= spreads[1]
    judged = [judge_fit(e, 0.9, s) for e, s in zip((error, error + more), spreads, strict=True)]
    assert order.index(judged[0]) <= order.index(judged[1])


def test_the_interval_holds_95_of_100_normal_errors():
    errors = np.random.default_rng(0).normal(0.0, 0.2, 100_000)
    spread = spread_of_fit(float(np.abs(errors).mean()))
    assert np.mean(1.0 + errors <= spread) == pytest.approx(0.95, abs=0.003)


def test_an_error_of_570_percent_is_worse_than_no_measurement():
    assert spread_of_fit(5.7) > UNKNOWN_SPREAD
    assert describe_fit(5.7, 0.18, spread_of_fit(5.7)) == (
        "off by 570 % on what was left out of the fit, R² 0.18, times up to 12.7 of the estimate"
    )
