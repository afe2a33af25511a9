"""The plans of a space that fit, memory first: what cannot fit is dropped before it is told apart further.

Three steps, none of which can remove a plan that fits:

1. States (weights, gradients, optimizer state) are part of every peak. Where they alone are too large, no
   micro-batch, schedule or recomputation helps.
2. Memory is computed of what is left, exactly. It does not depend on how axes lie in the network.
3. Plans that fit are told apart by that (``space.MAPPING``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import SCHEDULES
from perfcast.core.plans.table import PlanTable
from perfcast.core.plans.text import EVEN
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint import FootprintColumns, footprint_columns
from perfcast.memory_use.footprint.spread import load_spread
from perfcast.searches.evaluation.evaluate import take_memory
from perfcast.searches.ranking.constraints import refuse
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_cores
from perfcast.searches.space.listing import count_mappings, map_plans
from perfcast.searches.space.placement import lie_evenly
from perfcast.units import format_bytes

EVENLY = "groups that fill the levels of the cluster evenly"
#: Columns on which states depend.
_STATES = (
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "context_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "zero_stage",
    "offload",
    "split",
    "num_shards",
)


@dataclass(frozen=True, eq=False)
class Fitting:
    """Plans that fit.

    Attributes:
        num_plans: Of the space.
        excluded: Plans that memory and the cluster's shape removed, by words.
    """

    plans: PlanTable
    memory: FootprintColumns
    num_plans: int
    excluded: dict[str, int]


def enumerate_fitting(
    model: Transformer,
    cluster: Cluster,
    device: Device,
    training: Training,
    global_batch_size: int,
    sequence_length: int,
    space: Space,
    max_memory_fraction: float = 1.0,
) -> Fitting:
    """All plans of a space that fit and whose groups lie evenly in the cluster.

    Raises:
        PlanError: None is left; the message says which demand excludes the last ones.
    """
    if load_training_profile(training.framework).balances_stages:
        space = replace(space, stage_splits=(EVEN,))  # the framework deals layers out by itself
    cores = enumerate_cores(model, cluster.num_devices, global_batch_size, sequence_length, space)
    most = max_memory_fraction * device.memory_bytes
    words = f"at most {100 * max_memory_fraction:g} % of {format_bytes(device.memory_bytes)} a device"
    least = least_bytes(model, cores, training, sequence_length, device)
    possible = least <= most
    num_plans = int(count_mappings(cores, model, space).sum())
    if not possible.any():
        refuse(words, f"states alone take {format_bytes(float(least.min()))}", num_plans)
    kept = cores.take(possible)
    memory = footprint_columns(model, kept, training, sequence_length, device=device)
    fits = memory.device_bytes <= most
    if not fits.any():
        smallest = format_bytes(float(memory.device_bytes.min()))
        refuse(words, f"the smallest plan takes {smallest}", num_plans)
    plans, core = map_plans(kept.take(fits), model, space)
    lying = lie_evenly(cluster, plans)
    excluded = {words: num_plans - len(plans), EVENLY: int((~lying).sum())}
    if not lying.any():
        refuse(EVENLY, "", len(plans))
    chosen = np.flatnonzero(fits)[core[lying]]
    return Fitting(plans.take(lying), take_memory(memory, chosen), num_plans, excluded)


def least_bytes(
    model: Transformer, plans: PlanTable, training: Training, sequence_length: int, device: Device
) -> Floats:
    """What every plan takes at least, shape [n]: the states of a stage, as the allocator reserves them.

    Of each different way to hold states, its simplest plan is looked at. Where the head counts when layers
    are dealt out, several chunks deal them out otherwise, so the smaller of both is taken.
    """
    stated = np.where(plans.split > 0, plans.virtual_stages_per_rank, 1)
    first, place = different_rows([*(getattr(plans, name) for name in _STATES), stated])
    simple = _simplest(plans.take(first))
    tables = [simple]
    if load_training_profile(training.framework).balances_stages:
        stages = simple.pipeline_parallel
        several = (stages > 1) & (2 * stages <= model.num_layers) & (simple.split == 0)
        tables.append(_with_chunks(simple, np.where(several, 2, simple.virtual_stages_per_rank)))
    found = [
        footprint_columns(model, t, training, sequence_length, device=device).state_bytes for t in tables
    ]
    least: Floats = np.rint(np.min(found, axis=0) * load_spread(training.framework).reserved)
    return least[place]


def _simplest(plans: PlanTable) -> PlanTable:
    """With as many chunks as stated layers ask for."""
    one = np.ones(len(plans), dtype=np.int64)
    simple = replace(
        plans,
        micro_batch_size=one,
        num_micro_batches=one,
        sequence_parallel=0 * one,
        recompute=0 * one,
        recompute_layers=0 * one,
    )
    return _with_chunks(simple, np.where(plans.split > 0, plans.virtual_stages_per_rank, one))


def _with_chunks(plans: PlanTable, chunks: Integers) -> PlanTable:
    interleaved, plain = SCHEDULES.index("interleaved"), SCHEDULES.index("1f1b")
    schedule = np.where(chunks > 1, interleaved, plain)
    return replace(plans, virtual_stages_per_rank=chunks, schedule=schedule)
