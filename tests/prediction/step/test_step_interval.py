"""How sure a training step is: what widens it, by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import CatalogError
from perfcast.prediction.step.interval import (
    PARTS,
    Stall,
    StepParts,
    StepWidths,
    describe_stalls,
    load_step_widths,
    parse_step_widths,
    training_interval,
)

SHARES = ("network", "node", "waiting", "host")
WIDTHS = StepWidths({"whole": 0.3, "waiting": 0.4}, {"whole": 0.3, "new_die": 0.4}, {}, {"GH100": 3})


def parts(die: str = "GH100", **shares: float) -> StepParts:
    return StepParts(0.1, 0.1, *(shares.get(name, 0.0) for name in SHARES), die, several_nodes=False)


def test_what_widens_a_step_adds_up_as_independent_errors():
    low, high = training_interval(parts(waiting=1.0), WIDTHS)
    assert (low, high) == (pytest.approx(math.exp(-0.5)), pytest.approx(math.exp(0.3)))


def test_a_die_of_too_few_sources_is_less_sure():
    widened = math.hypot(0.3, 0.4, 0.1)  # and its prices count whole
    assert training_interval(parts("GB110"), WIDTHS)[1] == pytest.approx(math.exp(widened))
    assert training_interval(parts("GH100"), WIDTHS)[1] == pytest.approx(math.exp(0.3))


def test_stalls_lengthen_the_upper_end_alone_by_micro_batches_and_devices():
    assert Stall(0.5, 1.0).of(128, 8) == pytest.approx(8 * 0.5 * 2)
    plain, stalled = training_interval(parts(), WIDTHS), training_interval(parts(), WIDTHS, 4.0)
    assert stalled == (plain[0], pytest.approx(plain[1] + 4.0))


def test_a_program_that_was_seen_to_stall_says_so_and_a_tuned_one_has_no_such_width():
    plan = Plan(data_parallel=32, pipeline_parallel=4, num_micro_batches=16)
    (said,) = describe_stalls(Training(framework="nanotron"), plan, 2.0)
    assert "stalls of up to" in said
    assert describe_stalls(Training(framework="megatron"), plan, 2.0) == ()
    assert load_step_widths().stall_seconds("megatron", plan) == 0


@given(
    st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(0, 3), st.sampled_from(["GH100", "new"])
)
def test_more_of_an_unsure_part_never_narrows(shares: list[float], more: int, die: str):
    widths = load_step_widths()
    few = training_interval(parts(die, **dict(zip(SHARES, shares, strict=True))), widths)
    shares[more] += 0.2
    many = training_interval(parts(die, **dict(zip(SHARES, shares, strict=True))), widths)
    assert many[0] <= few[0] < 1 < few[1] <= many[1]


def test_an_unknown_part_and_half_a_stall_are_refused(tmp_path: Path):
    figure = '{ value = 1, unit = "1", source = "a" }'
    head = '[sources]\na = "b"\n'
    rest = "[width_above]\n[stall_growth]\n[sources_of_dies]\n"
    path = tmp_path / "constants.toml"
    path.write_text(f"{head}[width_below]\nluck = {figure}\n[stall_seconds]\n{rest}")
    with pytest.raises(CatalogError, match="luck is no part of a step; known: whole"):
        parse_step_widths(path)
    path.write_text(f"{head}[width_below]\n[stall_seconds]\nnanotron_alone = {figure}\n{rest}")
    with pytest.raises(CatalogError, match="stalls of nanotron lack nanotron_"):
        parse_step_widths(path)
    assert set(load_step_widths().above) <= set(PARTS)
