"""What JSON holds of a replay beside its recording; what is not known is null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from perfcast.replays.judge.fidelity import Fidelity, Pair, Quartiles
from perfcast.replays.judge.utilisation import Utilisation
from perfcast.report.answers import Answer, finite_or_none, view


@dataclass(frozen=True, kw_only=True)
class QuartilesData:
    """Of a step over the repetitions; null where none was measured.

    Attributes:
        low: Lower quartile; seconds.
        median: Median; seconds.
        high: Upper quartile; seconds.
    """

    low: float | None
    median: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class PairData:
    """A figure of both sides.

    Attributes:
        label: What; no unit.
        recorded: In the recording; null where not known; unit of the list.
        replayed: In the replay; null where not known; unit of the list.
        relative_error: (replayed - recorded) / recorded; fraction.
    """

    label: str
    recorded: float | None
    replayed: float | None
    relative_error: float | None


@dataclass(frozen=True, kw_only=True)
class RepetitionsData:
    """Of every repetition.

    Attributes:
        wall_seconds: Of a step in each repetition; seconds.
        processor_seconds: Of a step in each repetition; seconds.
    """

    wall_seconds: tuple[float, ...]
    processor_seconds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class CollectiveData:
    """A collective of a repetition.

    Attributes:
        name: Kind of collective; no unit.
        seconds: Median; seconds.
        bus_bytes_per_second: By the median; bytes/second.
        is_asynchronous: Whether the caller went on meanwhile.
        is_emulated: Whether it only took its time.
    """

    name: str
    seconds: float | None
    bus_bytes_per_second: float | None
    is_asynchronous: bool
    is_emulated: bool


@dataclass(frozen=True, kw_only=True)
class LeftOutData:
    """What is not played.

    Attributes:
        operator: Name; no unit.
        reason: Why; no unit.
        count: Calls; count.
        seconds: Recorded in a step; seconds.
        is_harmless: Whether nothing is lost by it.
    """

    operator: str
    reason: str
    count: int
    seconds: float
    is_harmless: bool


@dataclass(frozen=True, kw_only=True)
class UtilisationData:
    """What the machine tells; null where it does not.

    Attributes:
        process: Processors kept busy by the replay; count.
        processors: Share of all processors that were busy; 0 to 1.
        device: Share of time in which the device computed; 0 to 1.
        device_memory: Share of time in which its memory was read or written; 0 to 1.
        processor_watts: Power of processor packages; watts.
        device_watts: Power of the device; watts.
    """

    process: float | None
    processors: float | None
    device: float | None
    device_memory: float | None
    processor_watts: float | None
    device_watts: float | None


@dataclass(frozen=True, kw_only=True)
class RankData:
    """One rank.

    Attributes:
        source: File that was replayed; no unit.
        source_hash: SHA-256 of its bytes after decompression; no unit.
        selection: What of it was taken, in words; no unit.
        rank: Number of the rank; no unit.
        world_size: Ranks; count.
        num_steps: Steps in one repetition; count.
        num_calls: Calls in one repetition; count.
        num_repetitions: Measured; count.
        is_interrupted: Whether fewer were measured than asked for.
        host_gaps: How the host's own time was played; no unit.
        added_gap_seconds: Host kept busy in a step beside the replay's own time; seconds.
        preparation: When given tensors were made; no unit.
        num_recorded: Calls of the recorded steps: played, not playable, and not asked for; count.
        operation_coverage: Share of the recorded calls that are played; 0 to 1.
        time_coverage: Share of the recorded calls' recorded time; 0 to 1; null without a timeline.
        wall_seconds: Of a step, by the clock on the wall.
        processor_seconds: Of a step, of the process.
        repetitions: Of every repetition.
        step: Processor and wall time of a step without recording; seconds.
        kinds: Time by kind of work in a step, watched; seconds.
        launches: Of a step; count.
        memory_bytes: Peak; bytes.
        collectives: Of a repetition, in order.
        left_out: What is not played.
        num_stand_ins: Tensors that do not come out as recorded; count.
        utilisation: What the machine tells; null where it does not.
        notes: What is not known; no unit.
    """

    source: str
    source_hash: str
    selection: dict[str, str]
    rank: int
    world_size: int
    num_steps: int
    num_calls: int
    num_repetitions: int
    is_interrupted: bool
    host_gaps: Literal["off", "recorded", "scaled"]
    added_gap_seconds: float
    preparation: Literal["ahead", "lazily"]
    num_recorded: int
    operation_coverage: float
    time_coverage: float | None
    wall_seconds: QuartilesData
    processor_seconds: QuartilesData
    repetitions: RepetitionsData
    step: tuple[PairData, ...]
    kinds: tuple[PairData, ...]
    launches: PairData
    memory_bytes: PairData
    collectives: tuple[CollectiveData, ...]
    left_out: tuple[LeftOutData, ...]
    num_stand_ins: int
    utilisation: UtilisationData
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ReplayData(Answer):
    """A replay beside its recording.

    Attributes:
        ranks: One entry a rank.
    """

    table: ClassVar[str] = "ranks[rank].kinds"

    ranks: tuple[RankData, ...]


def data_of(ranks: Sequence[Fidelity]) -> ReplayData:
    """Everything that was found; one entry a rank."""
    return ReplayData(ranks=tuple(rank_data(fidelity) for fidelity in ranks))


def rank_data(fidelity: Fidelity) -> RankData:
    """One rank."""
    program, played = fidelity.program, fidelity.played
    steps, num_steps = played.steps, fidelity.program.num_steps
    return view(
        RankData,
        program,
        num_calls=len(program.calls),
        num_repetitions=len(steps.wall_seconds),
        is_interrupted=steps.is_interrupted,
        host_gaps=fidelity.host_gaps,
        added_gap_seconds=played.added_gap_seconds / num_steps,
        preparation=played.preparation.value,
        num_recorded=fidelity.num_recorded,
        operation_coverage=fidelity.operation_coverage,
        time_coverage=finite_or_none(fidelity.time_coverage),
        wall_seconds=_quartiles(fidelity.wall),
        processor_seconds=_quartiles(fidelity.processor),
        repetitions=RepetitionsData(
            wall_seconds=tuple(one / num_steps for one in steps.wall_seconds),
            processor_seconds=tuple(one / num_steps for one in steps.processor_seconds),
        ),
        step=tuple(_pair(pair) for pair in fidelity.step),
        kinds=tuple(_pair(pair) for pair in fidelity.kinds),
        launches=_pair(fidelity.launches),
        memory_bytes=_pair(fidelity.memory),
        collectives=tuple(
            view(
                CollectiveData,
                one,
                seconds=finite_or_none(one.median_seconds),
                bus_bytes_per_second=finite_or_none(one.bus_bytes_per_second),
            )
            for one in fidelity.collectives
        ),
        left_out=tuple(view(LeftOutData, one) for one in fidelity.left_out),
        num_stand_ins=fidelity.num_replaced,
        utilisation=_utilisation(fidelity.utilisation),
        notes=fidelity.notes,
    )


def _quartiles(found: Quartiles) -> QuartilesData:
    return QuartilesData(
        low=finite_or_none(found.low),
        median=finite_or_none(found.median),
        high=finite_or_none(found.high),
    )


def _pair(pair: Pair) -> PairData:
    return PairData(
        label=pair.label,
        recorded=finite_or_none(pair.recorded),
        replayed=finite_or_none(pair.replayed),
        relative_error=finite_or_none(pair.relative_error),
    )


def _utilisation(used: Utilisation) -> UtilisationData:
    return UtilisationData(
        process=finite_or_none(used.process),
        processors=finite_or_none(used.processors),
        device=finite_or_none(used.device),
        device_memory=finite_or_none(used.device_memory),
        processor_watts=finite_or_none(used.processor_watts),
        device_watts=finite_or_none(used.device_watts),
    )
