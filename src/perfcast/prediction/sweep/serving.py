"""Inference under a plan over batch sizes and contexts: time to first token, per output token, throughput.

A replica's sequences travel through its stages in as many micro-batches as there are stages, event by event
(``simulate.inference``). Each point is what ``perfcast predict`` answers of the same plan and batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfcast.core.forecast.fit import Fit, fit_of
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision
from perfcast.core.program import StepProgram
from perfcast.core.transformer import Transformer
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.frameworks.precision import serving_precision
from perfcast.memory.footprint import estimate_serving_footprint
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.program import choose_program
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.request.serving import ServingRequest
from perfcast.prediction.step.predict import predict_step
from perfcast.prediction.step.resolve import check_devices
from perfcast.units import MEGA

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
class ServingPoint:
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
class ServingForecast:
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
    points: tuple[ServingPoint, ...]
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

    request: ServingRequest
    model: NamedModel
    device: Device
    cost_model: CostModel
    program: StepProgram
    dtype: str


def serving_sweep(
    request: ServingRequest, on_point: Callable[[int, int], None] | None = None
) -> ServingForecast:
    """Every batch size with every context.

    Args:
        on_point: Called with batch and context before each.

    Raises:
        InputError: An unknown name, a plan that model or cluster cannot follow.
    """
    plan, cluster = request.plan, request.cluster
    check_devices(plan, cluster)
    device = resolve_device(cluster.device)
    model = read_model(request.model)
    chosen = choose_defaults(
        model, "decode", device, dtype=request.dtype, sequence_length=request.context_lengths[0]
    )
    program = choose_program(model, "decode", plan, framework=request.framework, is_local=device.is_cpu)
    cost_model = resolve_cost_model(request.cost_model, device, program.framework)
    setting = _Resolved(request, model, device, cost_model, program, chosen.dtype)
    points = []
    for context in request.context_lengths:
        for batch in request.batch_sizes:
            if on_point is not None:
                on_point(batch, context)
            points.append(_point(setting, batch, context))
    return ServingForecast(
        model=setting.model.name,
        cluster=cluster.name,
        device=device.name,
        num_devices=cluster.num_devices,
        plan=plan,
        dtype=setting.dtype,
        program=program,
        cost_model=setting.cost_model.name,
        capacity_bytes=device.memory_bytes,
        points=tuple(points),
        largest_batches=tuple((length, largest_batch(setting, length)) for length in request.context_lengths),
        assumptions=_assumptions(points),
        defaults=chosen.notes,
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


def _point(setting: _Resolved, batch: int, context: int) -> ServingPoint:
    try:
        plan = split_batch(setting.request.plan, batch)
        held = _memory_bytes(setting, plan, context)
        phases = {mode: _phase(setting, plan, batch, context, mode) for mode in setting.request.modes}
    except PlanError as error:
        return ServingPoint(batch, context, None, None, 0, False, str(error))
    fits = held <= setting.device.memory_bytes
    return ServingPoint(batch, context, phases.get("prefill"), phases.get("decode"), held, fits)


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
            memory=False,
        )
    )
    seconds, low, high = forecast.step_seconds, forecast.step_seconds_low, forecast.step_seconds_high
    tokens = batch * context if mode == "prefill" else batch
    return Phase(seconds, low, high, tokens / seconds, forecast)


def _memory_bytes(setting: _Resolved, plan: Plan, context: int) -> int:
    request = setting.request
    precision = serving_precision(setting.dtype, setting.program.framework, request.kv_cache_dtype)
    return held_bytes(setting.model.sizes, plan, precision, context, request.modes, setting.device)


def held_bytes(
    sizes: Transformer, plan: Plan, precision: Precision, context: int, modes: Sequence[Mode], device: Device
) -> int:
    """Of the device that needs most: the larger of what prompts and what answers take."""
    return max(
        estimate_serving_footprint(
            sizes, plan, precision, context, is_decode=mode == "decode", device=device
        ).device_bytes
        for mode in modes
    )


def largest_batch(setting: _Resolved, context: int) -> int:
    """Most sequences of a context that all devices' memory holds; 0 where not even one does."""
    plan = setting.request.plan

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


def _assumptions(points: Sequence[ServingPoint]) -> tuple[str, ...]:
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
        "all prompts of a batch arrive at once; nothing queues",
        "a token's time is at the full context",
        *notes,
    )
