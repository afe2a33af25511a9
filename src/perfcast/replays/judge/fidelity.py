"""How well a replay behaves like what was recorded: one beside the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from perfcast.replays.communication.play import CollectiveLatency
from perfcast.replays.judge.utilisation import Utilisation
from perfcast.replays.play.session import Played
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram
from perfcast.traces.explain.kernel_kinds import operator_kind

_NAN = float("nan")


@dataclass(frozen=True)
class Quartiles:
    """Quartiles of the seconds of a step; NaN where nothing was measured."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Pair:
    """A figure of the recording and of the replay; NaN where not known."""

    label: str
    recorded: float
    replayed: float

    @property
    def relative_error(self) -> float:
        """(replayed − recorded) / recorded; NaN where one is not known or the recorded one is 0."""
        return (self.replayed - self.recorded) / self.recorded if self.recorded else _NAN


@dataclass(frozen=True)
class LeftOut:
    """Calls of one operator that are not played, and why. ``is_harmless``: nothing is lost by it."""

    operator: str
    reason: str
    count: int
    seconds: float
    is_harmless: bool


@dataclass(frozen=True)
class Fidelity:
    """A replay beside its recording. Seconds are of one step.

    Attributes:
        num_recorded: Calls of the recorded steps: what is played, what cannot be, what was not asked for.
        operation_coverage: Share of these that are played.
        time_coverage: Share of their recorded host time; NaN without a timeline.
        step: Processor and wall seconds without recording, as far as the recording tells.
        kinds: Seconds by kind of work: of kernels on a device, else of calls on the host, both watched.
        replaced: Tensors that did not come out as recorded, so that others stood in for them.
    """

    program: ReplayProgram
    played: Played
    num_recorded: int
    operation_coverage: float
    time_coverage: float
    wall: Quartiles
    processor: Quartiles
    step: tuple[Pair, ...]
    kinds: tuple[Pair, ...]
    launches: Pair
    memory: Pair
    collectives: tuple[CollectiveLatency, ...]
    left_out: tuple[LeftOut, ...]
    num_replaced: int
    utilisation: Utilisation
    host_gaps: str
    notes: tuple[str, ...] = ()


def judge(
    program: ReplayProgram,
    played: Played,
    *,
    plain_processor_seconds: float | None = None,
    plain_wall_seconds: float | None = None,
    recorded_kernels: dict[str, float] | None = None,
    recorded_launches: float = _NAN,
    host_gaps: str = "off",
    is_as_recorded: bool = True,
    notes: Sequence[str] = (),
) -> Fidelity:
    """Put a replay beside its recording.

    Args:
        plain_processor_seconds: Of a step of the original without any recording; ``None``: not known.
        recorded_kernels: Seconds of kernels by kind in a step of the recording; ``None``: it has none.
        recorded_launches: Of a step; NaN: not known.
        is_as_recorded: Whether it is played among as many ranks as were recorded; of others no time of the
            recording is set beside it.
    """
    failures = played.rehearsal.failures
    calls = [(i, call) for i, call in enumerate(program.calls) if call.kind is not CallKind.IDLE]
    run = [call for i, call in calls if i not in failures]
    left_out = _left_out(program, [(program.calls[i], reason) for i, reason in failures.items()])
    lost = sum(one.count for one in left_out if not one.is_harmless)
    wall, processor = (
        _quartiles(seconds, program.num_steps)
        for seconds in (played.steps.wall_seconds, played.steps.processor_seconds)
    )
    pairs = (
        Pair("processor time", _or_nan(plain_processor_seconds), processor.median),
        Pair("wall time", _or_nan(plain_wall_seconds), wall.median),
    )
    return Fidelity(
        program,
        played,
        num_recorded=len(run) + lost + program.num_unselected,
        operation_coverage=len(run) / max(len(run) + lost + program.num_unselected, 1),
        time_coverage=_time_coverage(program, run, left_out),
        wall=wall,
        processor=processor,
        step=pairs,
        kinds=_kinds(program, played, recorded_kernels, is_as_recorded=is_as_recorded),
        launches=Pair("launches", recorded_launches, played.num_launches / program.num_steps or _NAN),
        memory=Pair("memory", float(program.peak_bytes), float(played.peak_bytes or _NAN)),
        collectives=played.collectives,
        left_out=left_out,
        num_replaced=len(played.rehearsal.replaced),
        utilisation=played.utilisation,
        host_gaps=host_gaps,
        notes=tuple(notes),
    )


def _or_nan(value: float | None) -> float:
    return _NAN if value is None else value


def _quartiles(seconds: Sequence[float], num_steps: int) -> Quartiles:
    own = [one / num_steps for one in seconds]
    if not own:
        return Quartiles(_NAN, _NAN, _NAN)
    if len(own) == 1:
        return Quartiles(own[0], own[0], own[0])
    return Quartiles(*quantiles(own, n=4, method="inclusive"))


def _left_out(program: ReplayProgram, failed: Iterable[tuple[ReplayCall, str]]) -> tuple[LeftOut, ...]:
    """By operator and reason, those that cost most first."""
    every = [(one.operator, one.reason, one.recorded_seconds, one.is_harmless) for one in program.skipped]
    every += [(call.name, reason, call.recorded_seconds, False) for call, reason in failed]
    sums: dict[tuple[str, str, bool], list[float]] = {}
    for operator, reason, seconds, is_harmless in every:
        entry = sums.setdefault((operator, reason, is_harmless), [0, 0.0])
        entry[0] += 1
        entry[1] += 0.0 if math.isnan(seconds) else seconds
    found = [
        LeftOut(operator, reason, int(count), seconds / program.num_steps, is_harmless)
        for (operator, reason, is_harmless), (count, seconds) in sums.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.is_harmless, -one.seconds, -one.count)))


def _time_coverage(program: ReplayProgram, run: Sequence[ReplayCall], left_out: Sequence[LeftOut]) -> float:
    known = [call.recorded_seconds for call in run if not math.isnan(call.recorded_seconds)]
    lost = sum(one.seconds for one in left_out if not one.is_harmless) * program.num_steps
    lost += program.unselected_seconds
    return sum(known) / (sum(known) + lost) if known and sum(known) > 0 else _NAN


def _kinds(
    program: ReplayProgram,
    played: Played,
    recorded_kernels: dict[str, float] | None,
    *,
    is_as_recorded: bool,
) -> tuple[Pair, ...]:
    """Side by side, the kinds that take most first."""
    if played.kernel_seconds:
        recorded = recorded_kernels or {}
        replayed = {kind: seconds / program.num_steps for kind, seconds in played.kernel_seconds.items()}
    else:
        recorded, replayed = {}, {}
        for call, seconds in zip(program.calls, played.times.seconds, strict=True):
            kind = operator_kind(call.operator).value
            if call.kind is CallKind.IDLE or math.isnan(seconds):
                continue
            replayed[kind] = replayed.get(kind, 0.0) + seconds / program.num_steps
            if is_as_recorded and not math.isnan(call.recorded_seconds):
                recorded[kind] = recorded.get(kind, 0.0) + call.recorded_seconds / program.num_steps
    found = [
        Pair(kind, recorded.get(kind, _NAN), replayed.get(kind, _NAN)) for kind in {*recorded, *replayed}
    ]
    return tuple(sorted(found, key=lambda pair: -_most(pair)))


def _most(pair: Pair) -> float:
    return max((v for v in (pair.recorded, pair.replayed) if not math.isnan(v)), default=0.0)
