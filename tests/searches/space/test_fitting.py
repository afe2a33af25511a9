"""Memory comes first, and removes nothing that fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable
from perfcast.core.plans.text import EVEN
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint, footprint_columns
from perfcast.prediction.names import resolve_device
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_cores, enumerate_plans
from perfcast.searches.space.fitting import EVENLY, enumerate_fitting, least_bytes

LENGTH, BATCH = 512, 16
#: A head of some three layers, and layers that divide over few numbers of stages.
MODEL = Transformer(
    num_layers=6, hidden_size=512, num_attention_heads=8, num_kv_heads=8, head_size=64, ffn_hidden_size=1024,
    vocab_size=16384, is_gated=True, norm="rmsnorm", has_linear_bias=False, ties_embeddings=False,
)  # fmt: skip
CLUSTER = load_cluster("dgx-h100:8")
DEVICE = resolve_device(CLUSTER.device)
SPACE = Space(orders=("tp-cp-dp-pp", "tp-cp-pp-dp"))


def plans_of(table: PlanTable) -> set[Plan]:
    return {table.plan(at) for at in range(len(table))}


def fitting_alone(training: Training, space: Space, fraction: float) -> set[Plan]:
    """Every plan of the space whose own footprint fits."""
    whole = enumerate_plans(MODEL, 8, BATCH, LENGTH, space)
    most = fraction * DEVICE.memory_bytes
    found = set()
    held: dict[Plan, bool] = {}
    for plan in plans_of(whole):
        same = replace(plan, order=SPACE.orders[0], overlaps_gradients=True)
        if same not in held:
            footprint = estimate_footprint(MODEL, same, training, LENGTH, device=DEVICE)
            held[same] = footprint.device_bytes <= most
        if held[same]:
            found.add(plan)
    return found


@pytest.mark.parametrize("framework", ["megatron", "nanotron"])
@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.95])
def test_plans_that_fit_are_all_that_fit(framework: str, quantile: float):
    training = Training(framework=framework)
    splits = (EVEN,) if framework == "nanotron" else SPACE.stage_splits
    space = replace(
        SPACE, stage_splits=splits, zero_stages=(0, 1), offloads=("none", "optimizer"),
        recomputes=("none", "full"), schedules=("1f1b", "interleaved", "dualpipe"), largest_micro_batch=2,
        fixed={"sp": 0},
    )  # fmt: skip
    cores = enumerate_cores(MODEL, 8, BATCH, LENGTH, space)
    taken = footprint_columns(MODEL, cores, training, LENGTH, device=DEVICE).device_bytes
    fraction = float(np.quantile(taken, quantile)) / DEVICE.memory_bytes
    found = enumerate_fitting(MODEL, CLUSTER, DEVICE, training, BATCH, LENGTH, space, fraction)
    assert plans_of(found.plans) == fitting_alone(training, space, fraction)
    assert found.num_plans == len(found.plans) + sum(found.excluded.values())


@pytest.mark.parametrize("framework", ["megatron", "nanotron", "deepspeed", "fsdp"])
def test_states_alone_are_never_more_than_the_whole(framework: str):
    training = Training(framework=framework)
    cores = enumerate_cores(MODEL, 8, BATCH, LENGTH, Space(fixed={"pp": 4}))
    least = least_bytes(MODEL, cores, training, LENGTH, DEVICE)
    whole = footprint_columns(MODEL, cores, training, LENGTH, device=DEVICE).device_bytes
    assert (least <= whole).all()


def test_memory_that_no_plan_fits_into_is_refused_with_the_smallest_plan():
    with pytest.raises(PlanError, match=r"'at most 1 % of 80.0 GiB a device' excludes all .* plans"):
        enumerate_fitting(
            MODEL, CLUSTER, DEVICE, Training(framework="megatron"), BATCH, LENGTH, Space(), 0.01
        )


def test_groups_that_fill_a_level_unevenly_are_left_out_and_counted():
    whole = load_cluster("dgx-h100:16")
    inner, outer = whole.levels
    shape = replace(whole, levels=(replace(inner, size=3), replace(outer, size=2)))
    model = replace(MODEL, num_attention_heads=6, num_kv_heads=6, ffn_hidden_size=1536)
    found = enumerate_fitting(model, shape, DEVICE, Training(framework="megatron"), 12, LENGTH, Space(), 1.0)
    assert found.excluded[EVENLY] > 0
    every = enumerate_plans(model, 6, 12, LENGTH, Space())
    assert len(every) == len(found.plans) + sum(found.excluded.values())
    assert 2 not in {plan.tensor_parallel for plan in plans_of(found.plans) if plan.data_parallel == 3}
