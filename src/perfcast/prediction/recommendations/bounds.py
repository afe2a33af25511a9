"""What would help, and by how much: each bound of a step relaxed in turn, everything else unchanged.

A relaxed step is timed again by the method that timed the step itself, so that what hides behind something
else saves nothing; a step of many events by the closed form, as a share of the closed form's own step.

    network      an axis' communication takes no time
    host         kernels are issued at no cost
    bubble       no stage waits for another: the busiest stage's own time is the step
    balance      a micro-batch takes the mean of all stages' times on each of them
    recompute    what the forward did is kept, whatever memory that takes
    arithmetic, memory    a device of twice the peak rate, or twice the bandwidth
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from perfcast.core.forecast.plan import RankTime, StepTime, StragglerEffect
from perfcast.core.forecast.recommendation import BoundRecommendation
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.work import Calls, Layer, StepWork, Stream
from perfcast.prediction.step.priced import PricedStep
from perfcast.prediction.step.prices import seconds_on
from perfcast.prediction.step.timer import Seconds, Timer, Variant

_AXES = {
    Stream.TENSOR: "tensor-parallel communication takes no time",
    Stream.CONTEXT: "context-parallel communication takes no time",
    Stream.EXPERT: "expert-parallel communication takes no time",
    Stream.DATA: "data-parallel communication takes no time",
    Stream.PIPELINE: "sends between stages take no time",
    Stream.COPY: "copies to and from the host take no time",
}
_NOT_BUSY = ("bubble", "straggler")
_COMPUTE = ("compute", "recompute")
_OF_MICRO_BATCHES = (*_COMPUTE, "tensor", "context", "expert", "host")
#: Savings below this share of the step say nothing.
_LEAST_SHARE = 1e-4
#: Of a simulation that is run again for every bound.
_MOST_EVENTS = 10_000


def find_bound_recommendations(
    priced: PricedStep, base: StepTime, stragglers: StragglerEffect | None = None
) -> tuple[BoundRecommendation, ...]:
    """Every bound that costs time, the most first.

    Args:
        base: The step as it is.
        stragglers: What differing ranks make of it; their recommendation is that of the mean step.
    """
    timer, whole = priced.planned.step.timer, base
    if base.num_events > _MOST_EVENTS:
        timer = replace(timer, method="closed_form")
        whole = timer.time(priced.planned.work, priced.prices.seconds)
    before = base.step_seconds
    found = []
    if stragglers is not None:
        saved = stragglers.mean_seconds - before
        found.append(
            BoundRecommendation(
                "all ranks are equally fast (of the mean step with stragglers)", before, saved
            )
        )
    for name, seconds in _relaxed(priced, timer, whole):
        relaxed = before * seconds / whole.step_seconds
        if before - relaxed > _LEAST_SHARE * before:
            found.append(BoundRecommendation(name, relaxed, before - relaxed))
    return tuple(sorted(found, key=lambda recommendation: -recommendation.saved_seconds))


def _relaxed(priced: PricedStep, timer: Timer, base: StepTime) -> Iterator[tuple[str, float]]:
    """Names and step times."""
    variants = dict(_variants(priced, timer, base))
    timed = [one for one in variants.values() if one is not None]
    times = timer.time_all(timed, dict(priced.played_parts))
    seconds = iter([time.step_seconds for time in times])
    for name, variant in variants.items():
        yield name, max(map(busy_seconds, base.ranks)) if variant is None else next(seconds)


def _variants(priced: PricedStep, timer: Timer, base: StepTime) -> Iterator[tuple[str, Variant | None]]:
    """Names and relaxed steps; None of the one whose time the base itself tells."""
    step, work, seconds = priced.planned.step, priced.planned.work, priced.prices.seconds
    by_stream = operations_by_stream(work)
    collectives = {stream: by_stream[stream] for stream in _AXES if by_stream.get(stream)}
    for stream, operations in collectives.items():
        yield _AXES[stream], Variant(work, _without(seconds, operations))
    if len(collectives) > 1:
        everything = [o for operations in collectives.values() for o in operations]
        yield "all communication takes no time", Variant(work, _without(seconds, everything))
    if timer.launch_seconds:
        yield "the host is never late", Variant(work, seconds, launch_seconds=0.0)
    if len(work.stages) > 1:
        yield "no stage waits for another (no bubble)", None
        even = Variant(work, seconds, stage_slowdowns=balancing_slowdowns(base))
        yield "all stages take equally long", even
    if any(call.is_recomputed for layer in work.layers for call in layer.backward):
        yield "nothing is computed twice", Variant(without_recomputation(work), seconds)
    for name, device in _better_devices(step.device):
        relaxed = seconds_on(device, priced.prices, step.cluster, step.cost_model, step.training)
        yield name, Variant(work, relaxed)


def balancing_slowdowns(base: StepTime) -> list[float]:
    """Of each stage, the factor on its compute with which micro-batches take equally long on all."""
    ranks = sorted(base.ranks, key=lambda rank: rank.stage)

    def total(rank: RankTime, causes: Sequence[str]) -> float:
        return sum(rank.seconds_by_cause.get(cause, 0.0) for cause in causes)

    works = [total(rank, _OF_MICRO_BATCHES) for rank in ranks]
    mean = sum(works) / len(works)
    computes = [total(rank, _COMPUTE) for rank in ranks]
    return [
        max(1 + (mean - work) / compute, 0.0) if compute else 1.0
        for work, compute in zip(works, computes, strict=True)
    ]


def busy_seconds(rank: RankTime) -> float:
    """What a rank does or waits for on its own account."""
    return sum(seconds for cause, seconds in rank.seconds_by_cause.items() if cause not in _NOT_BUSY)


def operations_by_stream(work: StepWork) -> dict[Stream, tuple[Operation, ...]]:
    """Different operations of each stream that has any, in a fixed order."""
    found: dict[Stream, dict[Operation, None]] = {}
    parts = [calls for layer in work.layers for calls in layer.parts()]
    for calls in (*parts, *(stage.optimizer for stage in work.stages)):
        for call in calls:
            found.setdefault(call.stream, {})[call.operation] = None
    if work.boundary is not None:
        found.setdefault(Stream.PIPELINE, {})[work.boundary] = None
    return {stream: tuple(operations) for stream, operations in found.items()}


def _without(seconds: Seconds, operations: Sequence[Operation]) -> Seconds:
    return MappingProxyType({**seconds, **dict.fromkeys(operations, 0.0)})


def without_recomputation(work: StepWork) -> StepWork:
    """The same step in which recomputed calls run zero times; they keep their places and order."""

    def kept(calls: Calls) -> Calls:
        return tuple(replace(call, count=0, num_launches=0) if call.is_recomputed else call for call in calls)

    def relaxed(layer: Layer) -> Layer:
        return replace(layer, backward=kept(layer.backward))

    return replace(work, layers=tuple(map(relaxed, work.layers)), recompute_flops=0)


def _better_devices(device: Device) -> Iterator[tuple[str, Device]]:
    def doubled(rates: Mapping[object, float]) -> Mapping[object, float]:
        return MappingProxyType({key: 2 * rate for key, rate in rates.items()})

    yield (
        "a device of twice the peak arithmetic",
        replace(
            device,
            vector_flops_per_second=doubled(device.vector_flops_per_second),  # type: ignore[arg-type]
            matrix_flops_per_second=doubled(device.matrix_flops_per_second),  # type: ignore[arg-type]
        ),
    )
    yield (
        "a device of twice the memory bandwidth",
        replace(device, memory_bytes_per_second=2 * device.memory_bytes_per_second),
    )
