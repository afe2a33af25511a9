"""The memory of the model's own modules under a plan that leaves them whole: captured, tensor by tensor.

Each replica holds what one device of its share of the batch holds. DistributedDataParallel adds buckets of
the gradients' size (Li et al.: PyTorch Distributed, VLDB 2020, section 3.2.3; ``gradient_as_bucket_view`` is
off by default); with ZeRO 1 a replica keeps its part of the optimizer's state (PyTorch:
torch.distributed.optim.ZeroRedundancyOptimizer).
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.device import Forecast
from perfcast.core.forecast.footprint import Footprint, PeakCandidate, PlanMemory, StageFootprint, Term
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.tensor import Category, MemoryFormat
from perfcast.core.training import Training
from perfcast.core.tuning.trained import FULL
from perfcast.errors import PlanError
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.obstacles import plan_obstacles
from perfcast.memory_use.allocator.context import bytes_beside_allocator
from perfcast.memory_use.footprint.spread import CAPTURED, load_spread
from perfcast.prediction.one_device.memory import forecast_memory
from perfcast.prediction.request.memory import MemoryRequest
from perfcast.prediction.request.one_device import Request

_SOURCE = "the captured graph"
_ZERO = "PyTorch: torch.distributed.optim.ZeroRedundancyOptimizer"
_DDP = "Li et al.: PyTorch Distributed, VLDB 2020, section 3.2.3"
#: transformers' name of what a plan calls kernels of attention.
ATTENTION = {"flash": "sdpa", "math": "eager"}
#: Micro-batches after which another one holds no more: the first makes gradients, the second adds to them.
_MOST_MICRO_BATCHES = 2


def leaves_model_whole(plan: Plan) -> bool:
    """Whether every device of a plan has the whole model."""
    return plan.world_size == plan.data_parallel and plan.zero_stage < 2


def workload_of(
    model: str,
    plan: Plan,
    *,
    mode: Mode,
    training: Training | None,
    dtype: str,
    sequence_length: int | None,
    is_compiled: bool = False,
    image_size: int | None = None,
    memory_format: MemoryFormat = "contiguous",
) -> Request:
    """What one replica of a plan runs: its share of the batch.

    Raises:
        PlanError: A training plan that plain PyTorch does not run on one device.
    """
    if training is not None and plan.offload != "none":
        raise PlanError(f"offload={plan.offload}: framework {training.framework} has offload=none only")
    return Request(
        model=model,
        mode=mode,
        batch_size=plan.micro_batch_size * plan.num_micro_batches,
        micro_batch_size=plan.micro_batch_size,
        sequence_length=sequence_length,
        dtype=dtype,
        optimizer="none" if training is None else training.optimizer,
        attention="sdpa" if training is None else ATTENTION[training.attention],
        recompute=plan.recompute,
        compile=is_compiled,
        tuning=FULL if training is None else training.tuning,
        image_size=image_size,
        memory_format=memory_format,
    )


def captured_memory(workload: Request, device: Device, plan: Plan, training: Training | None) -> PlanMemory:
    """What a replica holds while it runs its share of the batch.

    Args:
        workload: Of one replica (``workload_of``).

    Raises:
        PlanError: A plan that plain PyTorch cannot run.
        InputError: A model that cannot be captured.
    """
    _check(plan, training)
    if plan.world_size > 1:
        count = min(workload.num_micro_batches, _MOST_MICRO_BATCHES)
        workload = replace(workload, batch_size=plan.micro_batch_size * count)
    return memory_from_forecast(
        forecast_memory(MemoryRequest(workload=workload, device=device)), device, plan, training
    )


def memory_from_forecast(
    found: Forecast, device: Device, plan: Plan, training: Training | None
) -> PlanMemory:
    """A captured replica's memory as that of the plan.

    Args:
        found: Of one replica, with what the allocator reserves.
    """
    memory, reserved = found.memory, found.memory.reserved
    terms = tuple(term for term in _terms(found, plan, training) if term.num_bytes)
    allocated = sum(term.num_bytes for term in terms)
    low, high = load_spread(CAPTURED).bounds(terms)
    held = allocated if reserved is None else reserved.peak_bytes + allocated - memory.peak_bytes
    where = f"{memory.peak_phase}, {memory.peak_operation}"
    context = 0 if reserved is None else int(bytes_beside_allocator(device, to_table([plan]).num_axes)[0])
    footprint = Footprint(
        stages=(StageFootprint(0, (PeakCandidate(where, terms),)),),
        peak_bytes_low=low,
        peak_bytes_high=high,
        reserved_bytes=held,
        reserved_bytes_low=round(held * low / allocated) if allocated else 0,
        reserved_bytes_high=round(held * high / allocated) if allocated else 0,
        context_bytes=context,
        assumptions=found.assumptions,
    )
    return PlanMemory(
        model=found.model,
        device=found.device,
        device_title=found.device_title,
        mode=found.mode,
        plan=plan,
        training=training,
        dtype=found.dtype,
        sequence_length=found.sequence_length or 1,
        parameter_count=found.parameter_count,
        capacity_bytes=device.memory_bytes,
        footprint=footprint,
        program=found.program,
    )


def _check(plan: Plan, training: Training | None) -> None:
    if training is None:
        return
    obstacles = plan_obstacles(load_training_profile(training.framework).support, plan)
    if obstacles:
        raise PlanError(f"framework {training.framework} cannot run this plan: {'; '.join(obstacles)}")


def _terms(found: Forecast, plan: Plan, training: Training | None) -> tuple[Term, ...]:
    """What is held at the peak, by what it is, the most bytes first; what data parallelism adds last."""
    held = sorted(found.memory.bytes_by_category.items(), key=lambda item: -item[1])
    terms = tuple(_term(category, num_bytes, plan) for category, num_bytes in held)
    if plan.data_parallel == 1 or found.mode != "train":
        return terms
    buckets = 4 * found.parameter_count
    if training is not None and not training.tuning.is_full:
        buckets = sum(s.num_bytes for s in found.graph.storages if s.category == Category.GRADIENT)
    return (*terms, Term("reduction buckets", Category.GRADIENT, buckets, "4 bytes a parameter", _DDP))


def _term(category: str, num_bytes: int, plan: Plan) -> Term:
    """Of one category; the optimizer's state is cut by ZeRO."""
    name = category.replace("_", " ")
    if category != Category.OPTIMIZER_STATE or not plan.zero_stage:
        return Term(name, category, num_bytes, "tensor by tensor", _SOURCE)
    shards = plan.shard_size
    return Term(name, category, num_bytes // shards, f"tensor by tensor / {shards}", _ZERO)
