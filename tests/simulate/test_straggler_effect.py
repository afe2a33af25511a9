"""Ranks of different speed: the recursion against the simulation, and what must hold of its draws."""

import numpy as np
import pytest
from small_steps import REDUCE, SECONDS, SEND, UPDATE, small_layer, small_step

from perfcast.core.plan import Plan
from perfcast.core.work import Call, Stream
from perfcast.errors import InputError, PlanError
from perfcast.simulate.closed_form.step import closed_form_step
from perfcast.simulate.schedule import Action, Pass
from perfcast.simulate.schedule.order import order_steps
from perfcast.simulate.stragglers import Slowdowns, parse_slowdowns, ranks_in_step, straggler_effect
from perfcast.simulate.training import simulate_step

PRICES = {**SECONDS, SEND: 0.25}
CLIPPED = (Call(REDUCE, Stream.TENSOR), Call(UPDATE, after=(0,)))
SCHEDULES = (
    ("gpipe", 3, 5, 1), ("1f1b", 3, 5, 1), ("interleaved", 2, 4, 2), ("zero_bubble", 3, 5, 1),
    ("dualpipe", 2, 6, 1), ("1f1b", 1, 4, 1),
)  # fmt: skip


@pytest.mark.parametrize(("schedule", "num_stages", "count", "virtual"), SCHEDULES)
def test_equally_fast_ranks_take_the_closed_form(schedule, num_stages, count, virtual):
    work = small_step(num_stages, count, 2, virtual=virtual, schedule=schedule, optimizer=CLIPPED)
    effect = straggler_effect(work, PRICES, Slowdowns(), num_draws=3)
    expected = closed_form_step(work, PRICES).step_seconds
    assert effect.p99_seconds == pytest.approx(expected)
    assert effect.mean_seconds == pytest.approx(expected)


@pytest.mark.parametrize(("schedule", "num_stages", "count", "virtual"), SCHEDULES)
@pytest.mark.parametrize("blocks", [False, True])
def test_ranks_that_are_all_slower_are_the_simulation_of_slower_stages(
    schedule, num_stages, count, virtual, blocks
):
    work = small_step(
        num_stages, count, 2, virtual=virtual, schedule=schedule, overlaps_boundary=not blocks,
        layer=small_layer(reduces=True),
    )  # fmt: skip
    everyone = straggler_effect(work, PRICES, Slowdowns(share=1.0, factor=1.5), num_draws=1)
    expected = simulate_step(work, PRICES, rank_slowdowns=[1.5] * num_stages).step_seconds
    assert everyone.mean_seconds == pytest.approx(expected, rel=0.03)


def test_more_ranks_and_wider_distributions_are_slower():
    def mean(sigma: float, replicas: int) -> float:
        work = small_step(2, 4, layer=small_layer(scatters=True), data_parallel=replicas)
        return straggler_effect(work, PRICES, Slowdowns(sigma), num_draws=200).mean_seconds

    assert mean(0.0, 4) < mean(0.02, 4) < mean(0.1, 4) < mean(0.1, 64)


def test_a_group_of_two_waits_for_the_slower():
    work = small_step(tensor_parallel=2)
    effect = straggler_effect(work, SECONDS, Slowdowns(share=0.5, factor=2.0), num_draws=4000)
    # Both fast in a quarter of the draws: 3 s, else 6 s.
    assert effect.mean_seconds == pytest.approx(0.25 * 3 + 0.75 * 6, rel=0.03)
    assert (effect.p50_seconds, effect.p99_seconds) == (6.0, 6.0)


def test_the_expectation_of_one_rank_is_that_of_its_distribution():
    effect = straggler_effect(small_step(), SECONDS, Slowdowns(0.1), num_draws=20_000, seed=1)
    assert effect.mean_seconds == pytest.approx(3 * np.exp(0.1**2 / 2), rel=0.005)
    assert effect.p95_seconds == pytest.approx(3 * np.exp(1.645 * 0.1), rel=0.01)


def test_the_same_seed_draws_the_same_steps():
    work = small_step(2, 4, data_parallel=3)
    first, second, other = (
        straggler_effect(work, PRICES, Slowdowns(0.1), num_draws=20, seed=seed) for seed in (3, 3, 4)
    )
    assert first == second
    assert first != other


def test_batches_of_draws_are_the_same_draws(monkeypatch: pytest.MonkeyPatch):
    work = small_step(2, 4, data_parallel=3)
    whole = straggler_effect(work, PRICES, Slowdowns(share=1.0, factor=1.2), num_draws=7)
    monkeypatch.setattr("perfcast.simulate.stragglers._MOST_NUMBERS", 1)
    assert straggler_effect(work, PRICES, Slowdowns(share=1.0, factor=1.2), num_draws=7) == whole


@pytest.mark.parametrize(
    ("plan", "gathers", "ranks"),
    [
        (Plan(data_parallel=8), False, 1),
        (Plan(data_parallel=8, tensor_parallel=2, context_parallel=2), False, 4),
        (Plan(data_parallel=8, tensor_parallel=2, expert_parallel=8), False, 8),
        (Plan(data_parallel=8, tensor_parallel=2, zero_stage=3), True, 16),
        (Plan(data_parallel=8, tensor_parallel=2, zero_stage=3, num_shards=4), True, 8),
    ],
)
def test_ranks_that_exchange_within_layers_keep_step(plan: Plan, gathers: bool, ranks: int):
    assert ranks_in_step(plan, gathers) == ranks


def test_distributions_are_read_from_words():
    assert parse_slowdowns("lognormal:0.02") == Slowdowns(0.02)
    assert parse_slowdowns("share:0.01:1.3") == Slowdowns(share=0.01, factor=1.3)
    both = parse_slowdowns("lognormal:0.02 + share:0.01:1.3")
    assert both.words == "lognormal with sigma 0.02, 0.01 of the ranks 1.3 times slower"


@pytest.mark.parametrize("text", ["", "normal:1", "lognormal", "share:0.1", "lognormal:x", "share:2:1.5"])
def test_other_words_are_refused(text: str):
    with pytest.raises(InputError):
        parse_slowdowns(text)


def test_no_draws_are_refused():
    with pytest.raises(InputError, match="at least 1"):
        straggler_effect(small_step(), SECONDS, Slowdowns(), num_draws=0)


def test_stages_that_wait_for_what_is_never_sent_are_named():
    rows = ((Action(Pass.BACKWARD, 0),), (Action(Pass.FORWARD, 0),))
    with pytest.raises(PlanError, match="stage 0 waits"):
        order_steps("1f1b", rows, 1)
