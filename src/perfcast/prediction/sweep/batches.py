"""Inference under a plan over batch sizes and contexts: time to first token, per output token, throughput.

A replica's sequences travel through its stages in as many micro-batches as there are stages, event by event
(``simulate.inference``). Each point is what ``perfcast predict`` answers of the same plan and batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from perfcast.core.forecast.fit import Fit, fit_of
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision
from perfcast.core.program import StepProgram
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.frameworks.precision import serving_precision
from perfcast.memory_use.footprint import estimate_serving_footprint
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.plan.captured_memory import leaves_model_whole
from perfcast.prediction.plan.smallest import powers_up_to
from perfcast.prediction.plan.smallest_serving import RULE, choose_smallest_serving_plan
from perfcast.prediction.program import choose_program
from perfcast.prediction.request.batches import BatchesRequest
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.predict import predict_step
from perfcast.prediction.step.resolve import check_devices
from perfcast.units import MEGA

#: No search for the fewest devices goes beyond.
_MOST_DEVICES = 1024
#: No search for the largest batch goes beyond.
_MOST_SEQUENCES = round(MEGA)


@dataclass(frozen=True, slots=True)
class Phase:
    """Prefill or decode of one batch.

    Attributes:
        seconds, seconds_low, seconds_high: Prefill: until all prompts' first tokens are there; decode: one
            token of every sequence. 90 % interval.
        tokens_per_second: Of all devices, of tokens read or written.
        forecast: As ``perfcast predict`` gives it.
    """

    seconds: float
    seconds_low: float
    seconds_high: float
    tokens_per_second: float
    forecast: PlanForecast


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """One batch size and context.

    Attributes:
        batch_size: Sequences that are answered at once, over all devices.
        context_length: Tokens of each prompt, and of the cache when a token is written.
        prefill, decode: None where it was not asked for, or where ``skipped`` says why there is none.
        memory_bytes: Of the device that needs most.
        fits: Whether its memory holds that.
    """

    batch_size: int
    context_length: int
    prefill: Phase | None
    decode: Phase | None
    memory_bytes: int
    fits: bool
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class BatchesForecast:
    """Inference of one model under one plan.

    Attributes:
        largest_batches: Contexts, and the most sequences of each that all devices' memory holds.
    """

    model: str
    cluster: str
    device: str
    num_devices: int
    plan: Plan
    dtype: str
    program: StepProgram
    cost_model: str
    capacity_bytes: int
    points: tuple[BatchPoint, ...]
    largest_batches: tuple[tuple[int, int], ...]
    assumptions: tuple[str, ...]
    defaults: tuple[str, ...] = ()

    @property
    def fits(self) -> tuple[Fit, ...]:
        """Whether the memory holds each point that has a forecast."""
        return tuple(
            fit_of(
                point.memory_bytes,
                self.capacity_bytes,
                of=f"{point.batch_size:,} sequences of {point.context_length:,} tokens",
            )
            for point in self.points
            if not point.skipped
        )


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A request, its names resolved."""

    request: BatchesRequest
    model: NamedModel
    device: Device
    cost_model: CostModel
    program: StepProgram
    dtype: str
    plan: Plan
    defaults: tuple[str, ...] = ()


def sweep_batches(
    request: BatchesRequest, on_point: Callable[[int, int], None] | None = None
) -> BatchesForecast:
    """Every batch size with every context.

    Args:
        on_point: Called with batch and context before each.

    Raises:
        InputError: An unknown name, a plan that model or cluster cannot follow; no plan fits.
    """
    setting, notes = _resolve(request)
    plan, cluster, device = setting.plan, request.cluster, setting.device
    check_devices(plan, cluster)
    points = []
    for context in request.context_lengths:
        for batch in request.batches_of(plan):
            if on_point is not None:
                on_point(batch, context)
            points.append(_point(setting, batch, context))
    return BatchesForecast(
        model=setting.model.name,
        cluster=cluster.name,
        device=device.name,
        num_devices=cluster.num_devices,
        plan=plan,
        dtype=setting.dtype,
        program=setting.program,
        cost_model=setting.cost_model.name,
        capacity_bytes=device.memory_bytes,
        points=tuple(points),
        largest_batches=tuple((length, largest_batch(setting, length)) for length in request.context_lengths),
        assumptions=(*notes, *_assumptions(points)),
        defaults=setting.defaults,
    )


def _resolve(request: BatchesRequest) -> tuple[_Resolved, tuple[str, ...]]:
    """Names to data, the plan chosen where none is asked for, and how it was, in words.

    Raises:
        InputError: An unknown name; no plan fits.
    """
    device, model = resolve_device(request.cluster.device), read_model(request.model)
    length = request.context_lengths[0]
    chosen = choose_defaults(model, "decode", device, dtype=request.dtype, sequence_length=length)
    plan = request.plan or Plan()
    program = choose_program(model, "decode", plan, framework=request.framework, is_local=device.is_cpu)
    cost_model = resolve_cost_model(request.cost_model, device, program.framework)
    found = _Resolved(request, model, device, cost_model, program, chosen.dtype, plan, chosen.notes)
    if request.plan is not None:
        return found, ()
    plan, rule = _smallest_plan(found)
    return replace(found, plan=plan), (rule,)


def on_fewest_devices(request: BatchesRequest, cluster_of: Callable[[int], Cluster]) -> BatchesRequest:
    """The request on the fewest of 1, 2, 4, … devices that hold all batches; else that hold the smallest.

    Args:
        cluster_of: Devices → the cluster.

    Raises:
        PlanError: None of the numbers that the cluster may have holds any.
    """
    second: BatchesRequest | None = None
    reason: PlanError | None = None
    for count in powers_up_to(_MOST_DEVICES):
        try:
            sized = replace(request, cluster=cluster_of(count))
            _, (rule,) = _resolve(sized)
        except PlanError as error:
            reason = reason or error
            continue
        if rule == RULE:
            return sized
        second = second or sized
    if second is not None:
        return second
    assert reason is not None  # each number of devices was refused
    raise reason


def _smallest_plan(setting: _Resolved) -> tuple[Plan, str]:
    """The plan that cuts the model least of those that hold the batches, and the rule of that.

    Raises:
        PlanError: None fits.
    """
    request, longest = setting.request, max(setting.request.context_lengths)

    def needs(plan: Plan) -> tuple[int, int]:
        batches = [split_batch(plan, batch) for batch in request.batches_of(plan)]
        held = [_memory_bytes(setting, split, longest) for split in batches]
        return max(held), min(held)

    return choose_smallest_serving_plan(
        setting.model.sizes,
        request.cluster.num_devices,
        request.cluster.levels[0].size,
        setting.device.memory_bytes,
        needs,
    )


def split_batch(plan: Plan, batch_size: int) -> Plan:
    """The plan with so many sequences, over all replicas: a micro-batch for each stage, if there are enough.

    Raises:
        PlanError: They do not divide.
    """
    replicas = plan.data_parallel
    if batch_size % replicas:
        raise PlanError(f"batch size {batch_size} is no multiple of dp={replicas}")
    share = batch_size // replicas
    count = min(plan.pipeline_parallel, share)
    return replace(plan, micro_batch_size=math.ceil(share / count), num_micro_batches=count)


def _point(setting: _Resolved, batch: int, context: int) -> BatchPoint:
    try:
        plan = split_batch(setting.plan, batch)
        phases = {mode: _phase(setting, plan, batch, context, mode) for mode in setting.request.modes}
        held = _held_by(phases.values()) or _memory_bytes(setting, plan, context)
    except PlanError as error:
        return BatchPoint(batch, context, None, None, 0, False, str(error))
    fits = held <= setting.device.memory_bytes
    return BatchPoint(batch, context, phases.get("prefill"), phases.get("decode"), held, fits)


def _held_by(phases: Iterable[Phase]) -> int:
    """What forecasts say themselves: those of the model's own modules; 0 where none does."""
    memories = [phase.forecast.memory for phase in phases]
    return max((memory.footprint.device_bytes for memory in memories if memory is not None), default=0)


def _phase(setting: _Resolved, plan: Plan, batch: int, context: int, mode: Mode) -> Phase:
    """A batch's way through the stages."""
    request = setting.request
    forecast = predict_step(
        PlanRequest(
            model=setting.model,
            cluster=request.cluster,
            plan=plan,
            mode=mode,
            dtype=setting.dtype,
            kv_cache_dtype=request.kv_cache_dtype,
            framework=setting.program.framework,
            sequence_length=context,
            cost_model=setting.cost_model,
            recommendations=False,
            memory=setting.program.is_captured and leaves_model_whole(plan),
        )
    )
    seconds, low, high = forecast.step_seconds, forecast.step_seconds_low, forecast.step_seconds_high
    tokens = batch * context if mode == "prefill" else batch
    return Phase(seconds, low, high, tokens / seconds, forecast)


def _memory_bytes(setting: _Resolved, plan: Plan, context: int) -> int:
    request = setting.request
    precision = serving_precision(setting.dtype, setting.program.framework, request.kv_cache_dtype)
    framework, device = setting.program.framework, setting.device
    return held_bytes(setting.model.sizes, plan, precision, context, request.modes, device, framework)


def held_bytes(
    sizes: Transformer,
    plan: Plan,
    precision: Precision,
    context: int,
    modes: Sequence[Mode],
    device: Device,
    framework: str,
) -> int:
    """Of the device that needs most: the larger of what prompts and what answers take."""
    return max(
        estimate_serving_footprint(
            sizes,
            plan,
            precision,
            context,
            is_decode=mode == "decode",
            device=device,
            framework=framework,
        ).device_bytes
        for mode in modes
    )


def largest_batch(setting: _Resolved, context: int) -> int:
    """Most sequences of a context that all devices' memory holds; 0 where not even one does."""
    plan = setting.plan

    def fits(share: int) -> bool:
        try:
            split = split_batch(plan, share * plan.data_parallel)
            return _memory_bytes(setting, split, context) <= setting.device.memory_bytes
        except PlanError:
            return False

    low, high = 0, 1
    while high <= _MOST_SEQUENCES and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * plan.data_parallel


def _assumptions(points: Sequence[BatchPoint]) -> tuple[str, ...]:
    """What all forecasts assume, and how batches travel."""
    phases = [phase for point in points for phase in (point.prefill, point.decode) if phase is not None]
    each = [phase.forecast.assumptions for phase in phases]
    shared: dict[str, None] = {}
    for assumptions in each:
        shared.update(dict.fromkeys(assumptions))
    notes = [note for note in shared if all(note in p.forecast.assumptions for p in phases)]
    decode = [p.decode.forecast.assumptions for p in points if p.decode is not None]
    notes += [n for n in shared if n not in notes and decode and all(n in other for other in decode)]
    return (
        "all prompts of a batch arrive at once; nothing queues ('perfcast serving' forecasts a load)",
        "a token's time is at the full context",
        *notes,
    )
