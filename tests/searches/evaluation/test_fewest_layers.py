"""Looking for the fewest layers to compute again finds what trying every number finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.memory_use.footprint import footprint_columns
from perfcast.prediction.names import resolve_device
from perfcast.searches.evaluation.evaluate import Evaluation, evaluate_plans
from perfcast.searches.evaluation.fewest_layers import Weigher, fewest_layers, with_fewest_layers
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_plans
from perfcast.searches.space.fitting import enumerate_fitting

LENGTH, BATCH, MARGIN = 1024, 32, 0.05
MODEL = Transformer(
    num_layers=12, hidden_size=1024, num_attention_heads=16, num_kv_heads=16, head_size=64,
    ffn_hidden_size=4096, vocab_size=8192, is_gated=True, norm="rmsnorm", has_linear_bias=False,
)  # fmt: skip
CLUSTER, TRAINING = load_cluster("dgx-h100:4"), Training(framework="megatron")
DEVICE = resolve_device(CLUSTER.device)
EVERY = tuple(range(MODEL.num_layers))


def memory_of(plans):
    return footprint_columns(MODEL, plans, TRAINING, LENGTH, device=DEVICE)


def evaluate(plans, memory=None):
    return evaluate_plans(
        MODEL, CLUSTER, plans, TRAINING, LENGTH, device=DEVICE, cost_model=Roofline(), memory=memory
    )


def weigher(fraction: float) -> Weigher:
    return Weigher(MODEL.num_layers, fraction * DEVICE.memory_bytes, memory_of, evaluate)


def fitting(space: Space, fraction: float) -> Evaluation:
    found = enumerate_fitting(MODEL, CLUSTER, DEVICE, TRAINING, BATCH, LENGTH, space, fraction)
    return evaluate(found.plans, found.memory)


def fraction_for(quantile: float, space: Space) -> float:
    """Of the device's memory, what so many of the plans that compute nothing again fit into."""
    none = replace(space, recomputes=("none",))
    plans = enumerate_plans(MODEL, 4, BATCH, LENGTH, none)
    return float(np.quantile(memory_of(plans).device_bytes, quantile)) / DEVICE.memory_bytes


def other_dimensions(plan: Plan) -> Plan:
    return replace(plan, recompute="full", recompute_layers=None)


@pytest.mark.parametrize("schedules", [("1f1b", "interleaved"), ("zero_bubble", "dualpipe", "gpipe")])
@pytest.mark.parametrize("quantile", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("fixed", [{}, {"recompute": "full", "offload": "optimizer"}])
def test_what_is_found_is_what_trying_every_number_of_layers_finds(schedules, quantile, fixed):
    space = Space(
        schedules=schedules, offloads=("none",), zero_stages=(0, 1), orders=("tp-cp-dp-pp",), fixed=fixed,
        overlaps_gradients=(1,), least_context_tokens=512, largest_virtual_stages=3,
    )  # fmt: skip
    fraction = fraction_for(quantile, space)
    base = fitting(space, fraction)
    found = with_fewest_layers(weigher(fraction), space, base, MARGIN)
    every = fitting(replace(space, recompute_layers=EVERY), fraction)
    assert (found.device_bytes <= fraction * DEVICE.memory_bytes).all()
    assert found.step_seconds.min() == pytest.approx(every.step_seconds.min(), rel=1e-12)
    limit = (1 + MARGIN) * base.step_seconds.min()
    fastest: dict[Plan, float] = {}
    for at in range(len(found)):
        key = other_dimensions(found.plans.plan(at))
        fastest[key] = min(fastest.get(key, np.inf), found.step_seconds[at])
    for at in np.flatnonzero((every.plans.recompute_layers > 0) & (every.step_seconds <= limit)).tolist():
        plan = every.plans.plan(at)
        assert fastest[other_dimensions(plan)] <= every.step_seconds[at] * (1 + 1e-12), plan


def test_more_layers_take_more_time_and_less_memory():
    space = Space(
        zero_stages=(1,), orders=("tp-cp-dp-pp",), overlaps_gradients=(1,), largest_micro_batch=1,
        recompute_layers=EVERY, fixed={"recompute": "full", "sp": 0}, least_context_tokens=512,
        offloads=("none",), largest_virtual_stages=2,
    )  # fmt: skip
    plans = enumerate_plans(MODEL, 4, BATCH, LENGTH, space)
    found = evaluate(plans)
    by_plan: dict[Plan, list[int]] = {}
    for at in range(len(plans)):
        by_plan.setdefault(other_dimensions(plans.plan(at)), []).append(at)
    assert max(map(len, by_plan.values())) == MODEL.num_layers
    for places in by_plan.values():
        layers = plans.recompute_layers[places]
        order = np.array(places)[np.argsort(np.where(layers == 0, MODEL.num_layers, layers))]
        assert (np.diff(found.step_seconds[order]) > 0).all()
        assert (np.diff(found.peak_bytes[order]) <= 0).all()


def test_all_layers_take_at_most_half_as_long_once_more_as_none():
    space = Space(
        offloads=("none", "optimizer", "parameters"), recomputes=("none", "full"), largest_micro_batch=4
    )
    plans = enumerate_plans(MODEL, 4, BATCH, LENGTH, space)
    found = evaluate(plans)
    seconds: dict[Plan, dict[str, float]] = {}
    for at in range(len(plans)):
        plan = plans.plan(at)
        seconds.setdefault(replace(plan, recompute="none"), {})[plan.recompute] = found.step_seconds[at]
    assert all(both["none"] <= both["full"] <= 1.5 * both["none"] for both in seconds.values())


def test_the_fewest_layers_fit_and_one_fewer_does_not():
    space = Space(offloads=("none",), orders=("tp-cp-dp-pp",), overlaps_gradients=(1,))
    fraction = fraction_for(0.1, space)
    base = fitting(replace(space, recomputes=("full",)), fraction)
    weigh = weigher(fraction)
    found = fewest_layers(weigh, base.plans)
    assert len(found) > 50
    assert weigh.fits(found).all()
    fewer = found.take(found.recompute_layers > 1)
    assert len(fewer) > 20
    assert not weigh.fits(replace(fewer, recompute_layers=fewer.recompute_layers - 1)).any()


def test_nothing_is_looked_for_where_the_user_says_how_many():
    for space in (Space(recompute_layers=(0,)), Space(fixed={"recompute_layers": 2})):
        base = fitting(replace(space, offloads=("none",), zero_stages=(1,)), 1.0)
        assert with_fewest_layers(weigher(1.0), space, base, MARGIN) is base
