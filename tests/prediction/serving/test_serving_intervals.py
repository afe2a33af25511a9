"""Intervals of figures: those of the steps and of the form, joined."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.forecast.serving import Between
from perfcast.errors import CatalogError
from perfcast.prediction.serving.constants import (
    SPREADS,
    Spread,
    load_serving_constants,
    parse_serving_constants,
)
from perfcast.prediction.serving.figures import Figures, Quantiles
from perfcast.prediction.serving.intervals import inverse, joined, spread_of_stream

NONE = Spread(1.0, 1.0, "none")


def test_without_a_spread_of_the_form_the_interval_is_that_of_the_steps():
    found = joined(2.0, (1.5, 3.0), NONE)
    assert (found.low, found.high) == (pytest.approx(1.5), pytest.approx(3.0))


def test_two_factors_join_as_the_root_of_summed_squares():
    found = joined(1.0, (0.8, 1.2), Spread(0.8, 1.3, "s"))
    assert found.low == pytest.approx(math.exp(-math.sqrt(2) * math.log(1 / 0.8)))
    assert found.high == pytest.approx(math.exp(math.hypot(math.log(1.2), math.log(1.3))))


@given(value=st.floats(1e-6, 1e6), first=st.floats(0.1, 10), second=st.floats(0.1, 10), low=st.floats(0.1, 1))
def test_an_interval_holds_its_figure(value, first, second, low):
    found = joined(value, (first * value, second * value), Spread(low, 1 / low, "s"))
    assert found.low <= found.value <= found.high


def test_nothing_stays_nothing():
    assert joined(0.0, (0.0, 0.0), NONE) == Between(0.0, 0.0, 0.0)
    assert inverse(Between(0.0, 0.0, 1.0), 5.0) == Between(0.0, 0.0, 0.0)


def test_what_one_token_costs_falls_as_the_rate_rises():
    assert inverse(Between(2.0, 1.0, 4.0), 8.0) == Between(4.0, 2.0, 8.0)


def figures(idle: float, answered: float) -> Figures:
    zero = Quantiles(0.0, 0.0, 0.0, 0.0)
    return Figures(
        time_to_first_token=zero,
        time_per_output_token=zero,
        end_to_end=zero,
        requests_per_second=answered,
        output_tokens_per_second=1.0,
        input_tokens_per_second=1.0,
        mean_batch=1.0,
        bound_by={"queue": idle, "memory": 1.0 - idle},
    )


def test_a_stream_is_answered_as_it_comes_where_engines_have_time_left():
    wide = Spread(0.7, 1.5, "s")
    idle = spread_of_stream(wide, figures(0.5, 2.0), 2.0)
    assert (idle.low, idle.high) == (1.0, 1.0)
    busy = spread_of_stream(wide, figures(0.0, 2.0), 2.4)
    assert (busy.low, busy.high) == (pytest.approx(0.7), pytest.approx(1.2))
    assert spread_of_stream(wide, figures(0.1, 2.0), 9.0).high == 1.5


#: Of deployments in one pool, and in two.
TABLES = ("spread", "spread_of_two_pools")


def test_shipped_spreads_are_stated_for_all_figures():
    constants = load_serving_constants()
    assert set(constants.spreads_of(1)) == set(constants.spreads_of(2)) == set(SPREADS)


def test_a_file_of_constants_is_whole_and_its_spreads_hold_one(tmp_path: Path):
    path = tmp_path / "constants.toml"
    path.write_text('[sources]\ns = "x"\n', encoding="utf-8")
    with pytest.raises(CatalogError, match=r"\[spread\] has time_to_first_token"):
        parse_serving_constants(path)
    rows = "".join(
        f'[{table}.{name}]\nlow = {{ value = 1.2, unit = "1", source = "s" }}\n'
        f'high = {{ value = 1.4, unit = "1", source = "s" }}\n'
        for table in TABLES
        for name in SPREADS
    )
    path.write_text(f'[sources]\ns = "x"\n{rows}', encoding="utf-8")
    with pytest.raises(CatalogError, match=r"from 1.2 to 1.4 does not hold 1"):
        parse_serving_constants(path)


def test_seconds_of_requests_are_stated_by_framework(tmp_path: Path):
    path = tmp_path / "constants.toml"
    rows = "".join(
        f'[{table}.{name}]\nlow = {{ value = 0.5, unit = "1", source = "s" }}\n'
        f'high = {{ value = 2, unit = "1", source = "s" }}\n'
        for table in TABLES
        for name in SPREADS
    )
    ends = '[request_seconds]\nvllm = { value = 0.02, unit = "s", source = "s" }\n'
    path.write_text(f'[sources]\ns = "x"\n{rows}{ends}', encoding="utf-8")
    found = parse_serving_constants(path)
    assert (found.request_seconds["vllm"], found.request_seconds["sglang"]) == (0.02, 0.0)
    path.write_text(f'[sources]\ns = "x"\n{rows}{ends.replace("vllm", "fsdp")}', encoding="utf-8")
    with pytest.raises(CatalogError, match="fsdp does not serve; known: sglang, trtllm, vllm"):
        parse_serving_constants(path)
