"""The best plan of a space."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.training import Training
from perfcast.errors import InputError, ModelError, PlanError, UnknownNameError
from perfcast.prediction.step.predict import predict_plan
from perfcast.searches.prices_file import PriceList
from perfcast.searches.ranking.kinds import KIND, TIE, simplicity
from perfcast.searches.ranking.objectives import OBJECTIVES
from perfcast.searches.request import SearchRequest
from perfcast.searches.resolve import ignore_progress
from perfcast.searches.search import search_plans
from perfcast.searches.space.definition import Space
from perfcast.units import HOUR

MODEL = Transformer(
    num_layers=4, hidden_size=512, num_attention_heads=8, num_kv_heads=8, head_size=64,
    ffn_hidden_size=2048, vocab_size=8000,
)  # fmt: skip
FEW = Space(
    zero_stages=(0, 1), recomputes=("none",), schedules=("1f1b", "zero_bubble"), offloads=("none",),
    fixed={"cp": 1, "sp": 0, "mbs": 1},
)  # fmt: skip
BATCH, LENGTH = 16, 256


def kind_of(plan):
    return tuple(getattr(plan, name) for name in KIND)


def found(objective="time", **changes):
    asked = {
        "global_batch_size": BATCH, "sequence_length": LENGTH, "space": FEW, "cost_model": "roofline",
        "objective": objective, "top": 4, **changes,
    }  # fmt: skip
    cluster = load_cluster(asked.pop("cluster", "dgx-h100:8"))
    device, on_progress = asked.pop("device", None), asked.pop("on_progress", ignore_progress)
    price = asked.pop("dollars_per_device_hour", None)
    asked["prices"] = None if price is None else PriceList("the test", {cluster.device: price})
    asked["cost_models"] = {cluster.device: asked.pop("cost_model")}
    request = SearchRequest(**{"model": MODEL, "clusters": (cluster.name,), **asked})
    return search_plans(request, cluster, device=device, on_progress=on_progress)


@cache
def whole(**changes):
    """The space that most tests look at, searched once."""
    return found(**changes)


def test_the_winner_is_the_fastest_of_all_valid_plans_played_one_by_one():
    result = found(space=replace(FEW, fixed={**FEW.fixed, "tp": 2}))
    plans = result.evaluation.plans
    assert 4 < len(plans) < 40
    steps = [
        predict_plan(
            MODEL, "dgx-h100:8", plans.plan(at), training=Training(framework="megatron"),
            sequence_length=LENGTH, cost_model="roofline", recommendations=False, memory=False,
        ).step_seconds
        for at in range(len(plans))
    ]  # fmt: skip
    weighed = [
        *(plan.step_seconds for plan in result.ranked),
        *(v.plan.step_seconds for v in result.variants),
    ]
    assert min(weighed) == pytest.approx(min(steps), rel=1e-9)
    assert result.winner.step_seconds <= (1 + TIE) * min(steps)


def test_each_kind_is_ranked_once_with_all_that_was_played_of_it():
    result = whole()
    kinds = [kind_of(one.plan) for one in result.ranked]
    assert len(set(kinds)) == len(kinds)
    assert all(kind_of(one.plan.plan) == kinds[one.of] for one in result.variants)
    plans = {*(one.plan for one in result.ranked), *(one.plan.plan for one in result.variants)}
    assert len(plans) == len(result.ranked) + len(result.variants) <= result.num_simulated


def test_the_plan_that_stands_for_its_kind_is_the_simplest_that_costs_the_same():
    result = whole()
    for place, one in enumerate(result.ranked):
        for other in result.alike(place):
            assert other.step_seconds >= one.step_seconds * (1 - TIE)
            if other.step_seconds < one.step_seconds:
                assert simplicity(other.plan) > simplicity(one.plan)


def test_a_result_counts_its_plans_and_names_its_parts():
    result = whole()
    assert result.num_plans == result.num_valid + sum(result.excluded.values())
    assert result.num_valid == len(result.evaluation)
    assert len(result.ranked) == 4 <= result.num_simulated <= result.num_valid
    assert result.seconds_by_part.keys() >= {"memory", "evaluate", "simulate", "separate", "front"}
    assert (result.num_devices, result.num_steps, result.model) == (8, None, "transformer")
    assert any("simulated event by event" in note for note in result.assumptions)


def test_every_ranked_plan_has_all_figures():
    result = found(dollars_per_device_hour=HOUR)
    for plan in result.ranked:
        assert plan.method == "simulated"
        assert plan.step_seconds_low <= plan.step_seconds <= plan.step_seconds_high
        assert sum(plan.seconds_by_cause.values()) == pytest.approx(plan.step_seconds)
        assert plan.num_tokens == BATCH * LENGTH
        assert 0 < plan.mfu < 1
        assert plan.headroom_bytes == plan.capacity_bytes - plan.device_bytes >= 0
        # A dollar a second and device: dollars of a token are device-seconds of a token.
        assert plan.dollars_per_token == pytest.approx(8 * plan.step_seconds / plan.num_tokens)
        assert plan.joules_per_token is not None
        assert plan.plan.world_size == 8


def test_without_simulation_the_formulas_rank():
    result = whole(num_simulated=0)
    assert {plan.method for plan in result.ranked} == {"closed_form"}
    assert (result.num_simulated, result.separations) == (0, ())
    best = result.evaluation.step_seconds.min()
    assert result.winner.step_seconds == pytest.approx(best, rel=1e-12)


def test_no_more_plans_are_simulated_than_asked_for_and_the_others_follow_by_formula():
    result = found(num_simulated=2)
    assert result.num_simulated == 2
    assert [plan.method for plan in result.ranked] == ["simulated"] * 2 + ["closed_form"] * 2


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name != "devices"])
def test_every_objective_ranks_by_its_own_values(objective):
    result = found(objective, tokens=1e6, dollars_per_device_hour=2.0)
    values = [plan.value for plan in result.ranked]
    assert values == sorted(values, reverse=OBJECTIVES[objective].larger_is_better)
    simulated = result.num_simulated
    assert simulated >= len(values)


def test_no_plan_of_the_front_is_beaten_in_time_energy_and_memory_at_once():
    result = whole(num_simulated=0)
    costs = np.array([(p.step_seconds, p.joules_per_token, p.device_bytes) for p in result.front])
    for one in costs:
        assert not ((costs <= one).all(axis=1) & (costs < one).any(axis=1)).any()
    assert result.front[0].step_seconds == pytest.approx(result.winner.step_seconds)


def test_demands_remove_plans_and_are_counted():
    free = whole(num_simulated=0)
    middle = float(np.median(free.evaluation.step_seconds))
    steps = 10
    result = found(num_simulated=0, tokens=steps * BATCH * LENGTH, deadline_seconds=steps * middle)
    assert result.num_steps == steps
    assert (result.evaluation.step_seconds <= middle).all()
    assert sum(result.excluded.values()) + result.num_valid == result.num_plans
    fewer = found(num_simulated=0, min_mfu=float(np.median(free.evaluation.mfu)))
    assert 0 < fewer.num_valid < free.num_valid


def test_a_plan_that_misses_the_deadline_only_when_simulated_is_dropped_and_counted():
    free = whole()
    # The slowest plan whose events take longer than its formula, as a deadline between the two.
    all_kinds = found(top=200)
    simulated = {plan.plan: plan.step_seconds for plan in all_kinds.ranked}
    simulated |= {one.plan.plan: one.plan.step_seconds for one in all_kinds.variants}
    evaluation = free.evaluation
    late = [
        (seconds, simulated[plan])
        for at, seconds in enumerate(evaluation.step_seconds.tolist())
        if (plan := evaluation.plans.plan(at)) in simulated and simulated[plan] > seconds * (1 + 1e-6)
    ]
    if not late:
        pytest.skip("events and formulas agree on all plans")
    formula, events = max(late)
    tokens, limit = BATCH * LENGTH, (formula + events) / 2
    result = found(top=200, tokens=tokens, deadline_seconds=limit)
    assert all(plan.step_seconds <= limit for plan in result.ranked)
    assert any(words.endswith(", simulated") and count for words, count in result.excluded.items())
    assert result.num_plans == result.num_valid + sum(result.excluded.values())


def test_a_search_by_several_processes_finds_the_same():
    one, two = whole(), found(num_processes=2)
    assert [p.plan for p in one.ranked] == [p.plan for p in two.ranked]
    assert [p.step_seconds for p in one.ranked] == [p.step_seconds for p in two.ranked]


IMPOSSIBLE = {
    "memory": ({"max_memory_fraction": 1e-6}, r"'at most 0\.0001 % of .*' excludes all"),
    "an MFU": ({"min_mfu": 0.999}, "'an MFU of at least 99.9 %' excludes"),
    "a deadline": ({"tokens": 1e9, "deadline_seconds": 1e-3}, "'trained in .*' excludes .*the fastest plan"),
    "a degree": ({"space": replace(FEW, fixed={"tp": 3})}, "no plan for 8 devices"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_the_demand_that_excludes_everything_is_named(name):
    changes, message = IMPOSSIBLE[name]
    with pytest.raises(PlanError, match=message):
        found(**changes)


WRONG = {
    "an unknown objective": ({"objective": "speed"}, UnknownNameError, "unknown objective 'speed'"),
    "an unknown cluster": ({"cluster": "dgx-h10:8"}, UnknownNameError, "unknown cluster 'dgx-h10'"),
    "no batch": ({"global_batch_size": 0}, InputError, "a global batch of 0 sequences"),
    "no length": ({"sequence_length": None}, ModelError, "states no sequence length"),
    "a NaN price": ({"dollars_per_device_hour": float("nan")}, InputError, "a price of nan dollars"),
    "a deadline alone": ({"deadline_seconds": 1.0}, InputError, "needs the tokens"),
    "dollars without a price": ({"objective": "dollars-per-token"}, InputError, "needs --prices"),
    "no process": ({"num_processes": 0}, InputError, "0 processes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_asked_is_refused(name):
    changes, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        found(**changes)
