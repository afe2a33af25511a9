"""Times of the different layers of a step, each part played once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perfcast.core.operation import Operation
from perfcast.core.work import Call, Layer, StepWork, Stream
from perfcast.errors import PlanError
from perfcast.simulate.combine import beside_each_other
from perfcast.simulate.layer import NO_TIME, OWN_WORK, CallsTime, time_calls


@dataclass(frozen=True, slots=True)
class SideTime:
    """Calls beside the passes: a gather of weights or a gradient reduction.

    Attributes:
        seconds: On the data stream.
        compute_seconds: Of the copies that they need on the compute stream.
        host_seconds: For which the host issues them.
    """

    seconds: float = 0.0
    compute_seconds: float = 0.0
    host_seconds: float = 0.0


NO_SIDE = SideTime()


@dataclass(frozen=True)
class LayerTime:
    """One layer of one micro-batch.

    Attributes:
        backward: Whole; ``input_gradient`` and ``weight_gradient`` are its two parts run apart.
    """

    name: str
    forward: CallsTime
    backward: CallsTime
    input_gradient: CallsTime
    weight_gradient: CallsTime
    gather: SideTime
    gather_again: SideTime
    gradient_reduction: SideTime


@dataclass(frozen=True)
class PartTimes:
    """All layers and optimizers of a step, and the message between stages.

    Attributes:
        optimizers: Of each stage.
        boundary_seconds: Of one message to a neighbour.
        slowdown: Factors of compute and of communication while both run.
    """

    layers: tuple[LayerTime, ...]
    optimizers: tuple[CallsTime, ...]
    boundary_seconds: float
    launch_seconds: float
    slowdown: tuple[float, float]

    @cached_property
    def has_gathers(self) -> bool:
        """Whether any layer collects its weights."""
        return any(layer.gather.seconds or layer.gather_again.seconds for layer in self.layers)

    @cached_property
    def has_reductions(self) -> bool:
        """Whether any layer reduces its gradients."""
        return any(layer.gradient_reduction.seconds for layer in self.layers)


class _Pricer:
    """Seconds of calls. An operation is hashed once for every object, not for every call."""

    def __init__(self, seconds: Mapping[Operation, float]) -> None:
        self._seconds = seconds
        self._by_identity: dict[int, float] = {}

    def __call__(self, operation: Operation) -> float:
        key = id(operation)
        found = self._by_identity.get(key)
        if found is None:
            try:
                found = self._by_identity[key] = self._seconds[operation]
            except KeyError:
                raise PlanError(f"no price for {operation.name} of this step") from None
        return found


@dataclass(frozen=True, eq=False)
class _Player:
    """Plays calls; what was played before with the same seconds is not played again.

    Attributes:
        played: By the calls' identity and all that decides their times.
    """

    price: _Pricer
    launch_seconds: float
    slowdown: tuple[float, float]
    played: dict[object, CallsTime]

    def __call__(self, calls: Sequence[Call], of: Sequence[Call] | None = None, part: str = "") -> CallsTime:
        """Time of calls.

        Args:
            of: Calls that outlive this one, of which these are a part.
            part: Which part.
        """
        durations = [self.price(call.operation) * call.num_runs for call in calls]
        key = (id(calls if of is None else of), part, self.launch_seconds, self.slowdown, *durations)
        found = self.played.get(key)
        if found is None:
            found = time_calls(calls, durations, launch_seconds=self.launch_seconds, slowdown=self.slowdown)
            self.played[key] = found
        return found


def time_parts(
    work: StepWork,
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
    splits_backward: bool | None = None,
    played: dict[object, CallsTime] | None = None,
) -> PartTimes:
    """Play every part of every different layer once.

    Args:
        seconds: Of one run of each operation.
        launch_seconds: Between two launches of the host.
        slowdown: Factors of compute and of communication while both run, at least 1.
        splits_backward: Whether gradients of weights are needed apart; None: as the schedule does.
        played: Parts of the same calls in other steps, by calls and seconds; those of this one are added. It
            must not outlive the work.

    Raises:
        PlanError: An operation without a price; factors below 1.
    """
    if min(slowdown) < 1 or launch_seconds < 0:
        raise PlanError(f"slowdowns of {slowdown} and {launch_seconds} s a launch: at least 1 and 0")
    price = _Pricer(seconds)
    timed = _Player(price, launch_seconds, slowdown, {} if played is None else played)

    def beside(calls: Sequence[Call], of: Sequence[Call]) -> SideTime:
        if not calls:
            return NO_SIDE
        own = sum(price(c.operation) * c.num_runs for c in calls if c.stream is Stream.COMPUTE)
        rest = apart([c.stream is not Stream.COMPUTE for c in calls], calls)
        host = launch_seconds * sum(c.count * c.num_launches for c in calls)
        return SideTime(timed(rest, of, "beside").seconds, own, host)

    splits = splits_backward
    if splits is None:
        splits = work.plan.schedule in ("zero_bubble", "dualpipe")

    def layer_time(layer: Layer) -> LayerTime:
        parts = (NO_TIME, NO_TIME)
        if splits:
            is_weight = [call.is_weight_gradient for call in layer.backward]
            parts = (
                timed(apart([not flag for flag in is_weight], layer.backward), layer.backward, "inputs"),
                timed(apart(is_weight, layer.backward), layer.backward, "weights"),
            )
        return LayerTime(
            layer.name,
            *passes_of(layer, timed(layer.forward), timed(layer.backward), slowdown),
            *parts,
            beside(layer.gather, layer.gather),
            beside(layer.gather_again, layer.gather_again),
            beside([behind(call, ()) for call in layer.gradient_reduction], layer.gradient_reduction),
        )

    different: dict[int, CallsTime] = {}
    for stage in work.stages:
        if id(stage.optimizer) not in different:
            different[id(stage.optimizer)] = _of_optimizer(timed(stage.optimizer))
    optimizers = tuple(different[id(stage.optimizer)] for stage in work.stages)
    return PartTimes(
        tuple(layer_time(layer) for layer in work.layers),
        optimizers,
        price(work.boundary) if work.boundary is not None else 0.0,
        launch_seconds,
        slowdown,
    )


def passes_of(
    layer: Layer, forward: CallsTime, backward: CallsTime, slowdown: tuple[float, float]
) -> tuple[CallsTime, CallsTime]:
    """A layer's forward and backward as they run beside those of other micro-batches."""
    return beside_each_other(forward, backward, slowdown) if layer.overlaps_passes else (forward, backward)


def _of_optimizer(time: CallsTime) -> CallsTime:
    """All its own work counts as the optimizer's."""
    causes = {c: s for c, s in time.seconds_by_cause.items() if c not in OWN_WORK}
    return replace(
        time, seconds_by_cause={"optimizer": time.compute_seconds, **causes} if time.seconds else {}
    )


def apart(is_kept: Sequence[bool], calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls that are kept, waiting for each other as they did; what is not kept is done before."""
    number: dict[int, int] = {}
    kept: list[Call] = []
    for at, call in enumerate(calls):
        if is_kept[at]:
            number[at] = len(kept)
            after = tuple(number[other] for other in call.after if other in number)
            kept.append(behind(call, after))
    return tuple(kept)


def behind(call: Call, after: tuple[int, ...]) -> Call:
    """A call that waits for others than before (``dataclasses.replace`` takes several times as long)."""
    if call.after == after:
        return call
    return Call(
        call.operation,
        call.stream,
        after,
        call.module,
        call.count,
        call.share,
        call.num_launches,
        call.is_recomputed,
        call.is_weight_gradient,
        call.host_waits,
    )
