"""The enumeration holds every valid plan once, and no other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import ORDERS, Plan
from perfcast.core.plans.table import COLUMNS, PlanTable, join
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError, UnknownNameError
from perfcast.prediction.names import resolve_device
from perfcast.searches.evaluation.evaluate import evaluate_plans
from perfcast.searches.space.definition import MAPPING, Space
from perfcast.searches.space.degrees import divisors
from perfcast.searches.space.enumeration import enumerate_plans
from perfcast.searches.space.listing import count_mappings, list_cores, map_plans
from perfcast.simulate.schedule import stage_actions
from perfcast.workload.blocks import build_step_work

LENGTH, BATCH = 512, 12
SMALL = Transformer(
    num_layers=6, hidden_size=128, num_attention_heads=6, num_kv_heads=2, head_size=32, ffn_hidden_size=384,
    vocab_size=1024, is_gated=True, norm="rmsnorm", has_linear_bias=False,
)  # fmt: skip
WITH_EXPERTS = replace(
    SMALL, num_kv_heads=6, ties_embeddings=False,
    experts=Experts(num_experts=4, experts_per_token=2, ffn_hidden_size=96, num_dense_layers=1),
)  # fmt: skip
MEGATRON = Training(framework="megatron")
#: One choice of everything that is no degree.
DEGREES_ALONE = Space(
    zero_stages=(0,), recomputes=("none",), schedules=("1f1b", "interleaved"), offloads=("none",),
    orders=ORDERS[:1], overlaps_gradients=(1,), stage_splits=("even",), least_context_tokens=64,
    fixed={"sp": 0},
)  # fmt: skip


def degrees_of(plan: Plan) -> tuple[int, ...]:
    return (
        plan.data_parallel, plan.tensor_parallel, plan.pipeline_parallel, plan.context_parallel,
        plan.expert_parallel, plan.tensor_parallel_of_experts, plan.virtual_stages_per_rank,
        plan.micro_batch_size, plan.num_micro_batches,
    )  # fmt: skip


def plans_of(table: PlanTable) -> list[Plan]:
    return [table.plan(at) for at in range(len(table))]


def is_valid(model: Transformer, plan: Plan) -> bool:
    try:
        build_step_work(model, plan, MEGATRON, LENGTH)
        check_schedule(plan)
    except PlanError:
        return False
    return True


def check_schedule(plan: Plan) -> None:
    stage_actions(plan.schedule, plan.pipeline_parallel, plan.num_micro_batches, plan.virtual_stages_per_rank)


def every_degree(model: Transformer, num_devices: int) -> set[tuple[int, ...]]:
    """All combinations of whole numbers, divisors or not, that a plan and the blocks accept."""
    numbers, found = range(1, num_devices + 1), set()
    for dp, tp, pp, cp in product(numbers, repeat=4):
        if dp * tp * pp * cp != num_devices:
            continue
        experts = product(range(1, 5), (1, tp)) if model.experts else [(1, tp)]
        for (ep, etp), vp, size in product(experts, range(1, 9), range(1, BATCH + 1)):
            if BATCH % (dp * size):
                continue
            if vp > 1 and (model.num_layers % (pp * vp) or pp == 1):
                continue  # virtual stages are searched where the layers fill them evenly
            try:
                plan = Plan(
                    data_parallel=dp, tensor_parallel=tp, pipeline_parallel=pp, context_parallel=cp,
                    expert_parallel=ep, expert_tensor_parallel=etp, virtual_stages_per_rank=vp,
                    schedule="interleaved" if vp > 1 else "1f1b", micro_batch_size=size,
                    num_micro_batches=BATCH // (dp * size),
                )  # fmt: skip
            except PlanError:
                continue
            if is_valid(model, plan):
                found.add(degrees_of(plan))
    return found


@pytest.mark.parametrize(
    ("model", "num_devices"), [(SMALL, 6), (SMALL, 8), (SMALL, 12), (WITH_EXPERTS, 4), (WITH_EXPERTS, 6)]
)
def test_every_valid_combination_of_degrees_is_there_once(model: Transformer, num_devices: int):
    table = enumerate_plans(model, num_devices, BATCH, LENGTH, DEGREES_ALONE)
    found = [degrees_of(plan) for plan in plans_of(table)]
    assert len(set(found)) == len(found)
    assert set(found) == every_degree(model, num_devices)


@pytest.mark.parametrize("model", [SMALL, WITH_EXPERTS])
def test_every_plan_is_accepted_by_the_blocks(model: Transformer):
    space = Space(
        orders=ORDERS[::2], context_communications=("ring", "ulysses", "all_gather"), overlaps_tensor=(0, 1),
        overlaps_experts=(0, 1), recompute_layers=(0, 2), least_context_tokens=64,
    )  # fmt: skip
    table = enumerate_plans(model, 8, 8, LENGTH, space)
    for at in np.random.default_rng(0).choice(len(table), 150, replace=False).tolist():
        plan = table.plan(at)
        check_schedule(plan)
        assert plan.world_size == 8
        assert plan.global_batch_size == 8
        assert is_valid(model, plan), plan


@pytest.mark.parametrize("model", [SMALL, WITH_EXPERTS])
def test_no_plan_is_there_twice(model: Transformer):
    space = Space(
        orders=ORDERS[::2], context_communications=("ring", "ulysses"), overlaps_tensor=(0, 1),
        overlaps_experts=(0, 1), recompute_layers=(0, 1, 3), least_context_tokens=64,
        offloads=("none", "optimizer"),
    )  # fmt: skip
    table = enumerate_plans(model, 4, 4, LENGTH, space)
    rows = np.stack([getattr(table, name) for name in COLUMNS], axis=1)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_choices_that_change_nothing_stand_once():
    alone = enumerate_plans(SMALL, 1, 4, LENGTH, Space(overlaps_tensor=(0, 1), orders=ORDERS))
    for name in ("order", "zero_stage", "schedule", *MAPPING):
        assert len(np.unique(getattr(alone, name))) == 1, name


def distinct_figures(plans: PlanTable) -> set[tuple[float, ...]]:
    cluster = load_cluster("dgx-h100:16")
    found = evaluate_plans(
        SMALL, cluster, plans, MEGATRON, LENGTH, device=resolve_device(cluster.device), cost_model=Roofline()
    )
    columns = (found.step_seconds, found.peak_bytes, *found.seconds_by_cause.values())
    return {tuple(f"{value:.9e}" for value in row) for row in zip(*columns, strict=True)}


def test_orders_that_are_left_out_have_the_figures_of_one_that_stays():
    """All axes of several members in the same places are the same plan: nothing distinct is lost."""
    space = Space(
        orders=ORDERS, zero_stages=(0, 1), recomputes=("none",), schedules=("1f1b",), offloads=("none",),
        overlaps_gradients=(1, 0), overlaps_weights=(1, 0), stage_splits=("even",), least_context_tokens=64,
        largest_micro_batch=1,
    )  # fmt: skip
    cores = list_cores(SMALL, 16, 16, LENGTH, space)
    plans, core = map_plans(cores, SMALL, space)
    counts = count_mappings(cores, SMALL, space)
    np.testing.assert_array_equal(np.bincount(core, minlength=len(cores)), counts)
    choices = product(range(len(ORDERS)), (0, 1), (0, 1))
    every = join(
        [
            replace(
                cores, order=np.full(len(cores), order), overlaps_gradients=np.full(len(cores), gradients),
                overlaps_weights=np.full(len(cores), weights),
            )
            for order, gradients, weights in choices
        ]
    )  # fmt: skip
    assert len(every) > 2 * len(plans)
    assert distinct_figures(every) == distinct_figures(plans)


@pytest.mark.parametrize(
    ("key", "column", "value"),
    [
        ("tp", "tensor_parallel", 2),
        ("pp", "pipeline_parallel", 2),
        ("dp", "data_parallel", 2),
        ("mbs", "micro_batch_size", 2),
        ("vp", "virtual_stages_per_rank", 3),
        ("zero", "zero_stage", 3),
        ("sp", "sequence_parallel", 1),
        ("reshard", "reshard_after_forward", 0),
    ],
)
def test_a_fixed_value_leaves_the_plans_that_have_it(key: str, column: str, value: int):
    space = Space(stage_splits=("even",))
    whole = enumerate_plans(SMALL, 8, 8, LENGTH, space)
    fixed = enumerate_plans(SMALL, 8, 8, LENGTH, replace(space, fixed={key: value}))
    assert set(plans_of(fixed)) == set(plans_of(whole.take(getattr(whole, column) == value)))


def test_a_fixed_choice_holds_whatever_is_tried_by_default():
    for key, value, name in (
        ("order", ORDERS[-1], "order"),
        ("overlap_tensor", 1, "overlaps_tensor"),
        ("schedule", "gpipe", "schedule"),
    ):
        table = enumerate_plans(SMALL, 8, 8, LENGTH, Space(schedules=("1f1b",), fixed={key: value}))
        assert {getattr(plan, name) for plan in plans_of(table)} == {value}


def test_a_fixed_way_of_context_parallelism_is_of_plans_that_cut_sequences():
    table = enumerate_plans(SMALL, 8, 8, LENGTH, Space(least_context_tokens=64, fixed={"cp_type": "ulysses"}))
    words = {(plan.context_parallel > 1, plan.context_communication) for plan in plans_of(table)}
    assert words == {(True, "ulysses"), (False, "ring")}


def test_fixed_layers_are_recomputed_in_every_plan_and_never_more_than_a_part_has():
    table = enumerate_plans(SMALL, 8, 8, LENGTH, Space(fixed={"recompute_layers": 2}))
    for plan in plans_of(table):
        assert (plan.recompute, plan.recompute_layers) == ("full", 2)
        assert plan.pipeline_parallel * plan.virtual_stages_per_rank <= 4


def test_stated_layers_of_stages_are_those_of_every_plan():
    table = enumerate_plans(SMALL, 8, 8, LENGTH, Space(fixed={"stages": (4, 2)}))
    assert {plan.stage_layers for plan in plans_of(table)} == {(4, 2)}
    assert set(table.pipeline_parallel.tolist()) == {2}


def test_a_bound_gives_way_to_a_fixed_value():
    space = Space(largest_micro_batch=1, largest_tensor_parallel=1)
    assert set(enumerate_plans(SMALL, 2, 8, LENGTH, space).micro_batch_size.tolist()) == {1}
    fixed = replace(space, fixed={"mbs": 4, "tp": 2})
    table = enumerate_plans(SMALL, 2, 8, LENGTH, fixed)
    assert set(table.micro_batch_size.tolist()) == {4}
    assert set(table.tensor_parallel.tolist()) == {2}


def test_an_unknown_key_is_refused_with_close_ones():
    with pytest.raises(UnknownNameError, match=r"'recompute_layer'.*Did you mean recompute_layers"):
        enumerate_plans(SMALL, 8, 8, LENGTH, Space(fixed={"recompute_layer": 1}))


def test_divisors_are_all_of_them():
    for number in range(1, 200):
        assert divisors(number) == [n for n in range(1, number + 1) if number % n == 0]


def test_shards_over_some_replicas_are_fewer_than_all_and_divide_them():
    table = enumerate_plans(SMALL, 8, 8, LENGTH, Space(num_shards=(0, 2, 4, 8)))
    for plan in plans_of(table.take(table.num_shards > 0)):
        assert plan.zero_stage
        assert plan.num_shards < plan.num_dense_replicas
    fixed = enumerate_plans(SMALL, 8, 8, LENGTH, Space(fixed={"shards": 4}))
    assert set(plans_of(fixed)) == set(plans_of(table.take(table.num_shards == 4)))
    assert len(fixed)
