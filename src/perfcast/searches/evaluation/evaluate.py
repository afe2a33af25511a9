"""Step time and memory of many plans at once, equal to the closed form of each.

Every different operation of all plans is priced once, every different layer is played once; what remains is
array arithmetic over plans (``simulate.closed_form``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.formats import arithmetic_of
from perfcast.core.garbage import garbage_collection_paused
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plans.table import PlanTable, join
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import FootprintColumns, footprint_columns
from perfcast.prediction.step.constants import StepConstants, load_step_constants
from perfcast.searches.evaluation.in_parts import evaluate_in_parts
from perfcast.workload.blocks.experts.routing import kept_share
from perfcast.workload.blocks.step.flops import flops_per_sequence
from perfcast.workload.plan_columns.layers import Setting

_COLUMNS = ("step_seconds", "peak_bytes", "device_bytes", "fits", "tokens_per_second", "mfu")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Of n plans of one model on one cluster; columns have shape [n].

    Attributes:
        seconds_by_cause: Mean over all ranks, by ``CAUSES``; they add up to the step.
        peak_bytes: Allocated on the worst rank; ``device_bytes`` with what the allocator and driver hold.
        num_tokens: Of a step.
        num_operations: Different ones that were priced.
    """

    plans: PlanTable
    step_seconds: Floats
    seconds_by_cause: dict[str, Floats]
    peak_bytes: Floats
    device_bytes: Floats
    fits: Flags
    tokens_per_second: Floats
    mfu: Floats
    num_tokens: int
    num_operations: int

    def __len__(self) -> int:
        return len(self.step_seconds)

    def take(self, index: Flags | Integers) -> Evaluation:
        """The plans that ``index`` selects."""
        columns = {name: getattr(self, name)[index] for name in _COLUMNS}
        causes = {cause: seconds[index] for cause, seconds in self.seconds_by_cause.items()}
        return replace(self, plans=self.plans.take(index), seconds_by_cause=causes, **columns)


def evaluate_plans(
    model: Transformer,
    cluster: Cluster,
    plans: PlanTable,
    training: Training,
    sequence_length: int,
    *,
    device: Device,
    cost_model: CostModel,
    constants: StepConstants | None = None,
    max_memory_fraction: float = 1.0,
    memory: FootprintColumns | None = None,
    num_processes: int = 1,
) -> Evaluation:
    """Time and memory of every plan of a table.

    Args:
        constants: Of the step as a whole; the shipped ones by default.
        max_memory_fraction: Of the device's memory that a plan may take.
        memory: Of the plans, where it is known already.
        num_processes: That share the work; the result is the same.

    Raises:
        PlanError: Plans that do not take the whole cluster, cannot cut the model, or whose schedule does not
            exist for their numbers.
    """
    world = plans.ranks_per_stage * plans.pipeline_parallel
    if (world != cluster.num_devices).any():
        wrong = int(world[world != cluster.num_devices][0])
        raise PlanError(f"a plan for {wrong} devices, but {cluster.name} has {cluster.num_devices}")
    if memory is None:
        memory = footprint_columns(model, plans, training, sequence_length, device=device)
    with garbage_collection_paused():
        steps, num_operations = evaluate_in_parts(
            Setting(model, cluster, training, sequence_length),
            plans,
            device,
            cost_model,
            constants or load_step_constants(),
            num_processes,
        )
    batch = plans.micro_batch_size * plans.num_micro_batches * plans.data_parallel
    peak = device.peak_flops_per_second(arithmetic_of(training.dtype), matrix_units=True)
    kept = kept_share(plans.plan(0)) if len(plans) else 1.0
    flops = batch * float(flops_per_sequence(model, sequence_length, kept, training.tuning))
    return Evaluation(
        plans,
        steps.step_seconds,
        dict(zip(CAUSES, steps.seconds_by_cause, strict=True)),
        memory.peak_bytes,
        memory.device_bytes,
        memory.device_bytes <= max_memory_fraction * device.memory_bytes,
        batch * sequence_length / steps.step_seconds,
        flops / (steps.step_seconds * peak * cluster.num_devices),
        int(batch[0]) * sequence_length,
        num_operations,
    )


def take_memory(memory: FootprintColumns, index: Flags | Integers) -> FootprintColumns:
    """The plans that ``index`` selects."""
    return FootprintColumns(*(getattr(memory, f.name)[index] for f in fields(memory)))


def join_evaluations(first: Evaluation, second: Evaluation) -> Evaluation:
    """All plans of both, those of the first first."""
    both = (first, second)
    causes = {
        cause: np.concatenate([one.seconds_by_cause[cause] for one in both])
        for cause in first.seconds_by_cause
    }
    columns = {name: np.concatenate([getattr(one, name) for one in both]) for name in _COLUMNS}
    return Evaluation(
        plans=join([first.plans, second.plans]),
        seconds_by_cause=causes,
        num_tokens=first.num_tokens,
        num_operations=max(one.num_operations for one in both),
        **columns,
    )
