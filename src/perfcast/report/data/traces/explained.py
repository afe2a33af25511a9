"""What JSON holds of an explained recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.report.answers import Answer, view
from perfcast.traces.critical_path.path import CriticalPath, PathStretch
from perfcast.traces.explain.breakdown import TimeShare
from perfcast.traces.explain.compare import Change, Comparison
from perfcast.traces.explain.imbalance import RankLoad
from perfcast.traces.explain.recordings import Explanation, RankExplanation

#: Rows of a table of shares, and stretches of a path, that are written; what is left out is counted.
MAX_SHARES, MAX_STRETCHES = 500, 5000


@dataclass(frozen=True, kw_only=True)
class StepData:
    """A marked step on the host.

    Attributes:
        number: Number of the mark; no unit.
        seconds: Time; seconds.
    """

    number: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class DeviceTimeData:
    """Where the device's time went.

    Attributes:
        window_seconds: The window; seconds.
        communication_seconds: Collectives, union; seconds.
        overlap_seconds: Of them beside computing; seconds.
        compute_seconds: Computing; seconds.
        exposed_communication_seconds: Collectives alone; seconds.
        copy_seconds: Copies and fills alone; seconds.
        host_wait_seconds: Idle until the next launch; seconds.
        kernel_wait_seconds: Idle from a launch to its kernel; seconds.
        other_wait_seconds: Idle for another cause; seconds.
        busy_seconds: Any work; seconds.
        idle_seconds: No work; seconds.
        host_bound_share: host_wait_seconds over window_seconds; a fraction.
    """

    window_seconds: float
    communication_seconds: float
    overlap_seconds: float
    compute_seconds: float
    exposed_communication_seconds: float
    copy_seconds: float
    host_wait_seconds: float
    kernel_wait_seconds: float
    other_wait_seconds: float
    busy_seconds: float
    idle_seconds: float
    host_bound_share: float


@dataclass(frozen=True, kw_only=True)
class ShareData:
    """Work of one label.

    Attributes:
        label: What it is; empty where it is not known; no unit.
        seconds: Time; seconds.
        count: How often; a count.
        kind: Kind of operation, for kernels; no unit.
    """

    label: str
    seconds: float
    count: int
    kind: str


@dataclass(frozen=True, kw_only=True)
class SharesData:
    """A table of shares, the largest first.

    Attributes:
        rows: Its first 500 rows.
        num_rows: All rows; a count.
    """

    rows: tuple[ShareData, ...]
    num_rows: int


@dataclass(frozen=True, kw_only=True)
class OverheadData:
    """One kind of host time.

    Attributes:
        overhead: T1 between operators, T2 before a first launch, T3 after the last, T4 launches, T5
            between launches; no unit.
        seconds: Time; seconds.
        count: How often; a count.
    """

    overhead: str
    seconds: float
    count: int


@dataclass(frozen=True, kw_only=True)
class StretchData:
    """An edge of the path.

    Attributes:
        begin_event: Event at whose start or end it begins; an index.
        end_event: Event at whose start or end it ends; an index.
        event: Event that the time belongs to, -1 for none; an index.
        name: Name of that event; no unit.
        kind: What the edge is; no unit.
        bound_by: What the time went to; no unit.
        start_seconds: When it begins, from the first event; seconds.
        seconds: How long; seconds.
    """

    begin_event: int
    end_event: int
    event: int
    name: str
    kind: str
    bound_by: str
    start_seconds: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PathData:
    """The critical path.

    Attributes:
        seconds: Its length; seconds.
        seconds_by_bound: What it was spent on; seconds.
        has_synchronizations: Whether the recording says what streams waited for.
        num_stretches: All edges; a count.
        stretches: Its first 5000 edges, in order of time.
    """

    seconds: float
    seconds_by_bound: dict[str, float]
    has_synchronizations: bool
    num_stretches: int
    stretches: tuple[StretchData, ...]


@dataclass(frozen=True, kw_only=True)
class RankData:
    """One recorded rank.

    Attributes:
        source: File; no unit.
        rank: Rank; a count.
        world_size: Ranks of the program; a count.
        platform: cuda, rocm or cpu; no unit.
        device: Device by its name in the recording; empty for a processor; no unit.
        on_device: Whether kernels were recorded; else operators stand for them.
        window_seconds: What the figures are of; seconds.
        steps: Marked steps.
        host_seconds: While an operator or call ran on some thread; seconds.
        num_launches: Device works with their launches; a count.
        device_time: Where the device's time went.
        kinds: A table of shares, the largest first.
        phases: A table of shares, the largest first.
        modules: A table of shares, the largest first.
        ranges: A table of shares, the largest first.
        operators: A table of shares, the largest first.
        kernels: A table of shares, the largest first.
        streams: A table of shares, the largest first.
        overheads: Host time by kind, without waiting.
        critical_path: The critical path.
    """

    source: str
    rank: int
    world_size: int
    platform: str
    device: str
    on_device: bool
    window_seconds: float
    steps: tuple[StepData, ...]
    host_seconds: float
    num_launches: int
    device_time: DeviceTimeData
    kinds: SharesData
    phases: SharesData
    modules: SharesData
    ranges: SharesData
    operators: SharesData
    kernels: SharesData
    streams: SharesData
    overheads: tuple[OverheadData, ...]
    critical_path: PathData


@dataclass(frozen=True, kw_only=True)
class CollectiveData:
    """Collectives of one name, size and group, of all recorded ranks.

    Attributes:
        name: Collective; no unit.
        dtype: Element type; no unit.
        message_bytes: Full buffer, 0 where not recorded; bytes.
        group: Communicator; no unit.
        group_size: Ranks of it; a count.
        count: How often; a count.
        seconds: Time, waiting included; seconds.
        transfer_seconds: Time on the rank that came last to each; seconds.
        bus_bytes: What crosses the slowest link; bytes.
        bus_bytes_per_second: While transferring, 0 where not known; bytes/s.
    """

    name: str
    dtype: str
    message_bytes: int
    group: str
    group_size: int
    count: int
    seconds: float
    transfer_seconds: float
    bus_bytes: float
    bus_bytes_per_second: float


@dataclass(frozen=True, kw_only=True)
class ImbalanceData:
    """How ranks differ.

    Attributes:
        ranks: Each rank.
        num_matched_collectives: Collectives that all recorded members have; a count.
        compute_imbalance: (longest − mean) / mean of computing; a fraction.
        embedding_imbalance: (longest − mean) of embedding work over the median step; a fraction.
    """

    ranks: tuple[RankLoad, ...]
    num_matched_collectives: int
    compute_imbalance: float
    embedding_imbalance: float


@dataclass(frozen=True, kw_only=True)
class ChangeData:
    """One label in both recordings, a step of the mean rank.

    Attributes:
        label: What it is; no unit.
        before_seconds: Before; seconds.
        after_seconds: After; seconds.
        before_count: How often before; a count.
        after_count: How often after; a count.
        seconds: After minus before; seconds.
        ratio: After over before; null where it did not run before; a ratio.
    """

    label: str
    before_seconds: float
    after_seconds: float
    before_count: float
    after_count: float
    seconds: float
    ratio: float | None


@dataclass(frozen=True, kw_only=True)
class ComparisonData:
    """Changes since another recording, the largest first.

    Attributes:
        before_step_seconds: Step before; seconds.
        after_step_seconds: Step after; seconds.
        parts: By parts.
        kinds: By kinds.
        phases: By phases.
        operators: By operators.
        kernels: By kernels.
        modules: By modules.
        overheads: By overheads.
    """

    before_step_seconds: float
    after_step_seconds: float
    parts: tuple[ChangeData, ...]
    kinds: tuple[ChangeData, ...]
    phases: tuple[ChangeData, ...]
    operators: tuple[ChangeData, ...]
    kernels: tuple[ChangeData, ...]
    modules: tuple[ChangeData, ...]
    overheads: tuple[ChangeData, ...]


@dataclass(frozen=True, kw_only=True)
class ExplanationData(Answer):
    """Where the time of recorded steps went.

    Attributes:
        step_seconds: Mean marked step of the rank that takes longest; seconds.
        ranks: Recorded ranks.
        collectives: What they exchanged.
        imbalance: How ranks differ.
        comparison: Changes since another recording; null without one.
        notes: What the recordings do not say.
    """

    table: ClassVar[str] = "ranks[rank].operators.rows"

    step_seconds: float
    ranks: tuple[RankData, ...]
    collectives: tuple[CollectiveData, ...]
    imbalance: ImbalanceData
    comparison: ComparisonData | None
    notes: tuple[str, ...]


def data_of(explanation: Explanation, comparison: Comparison | None = None) -> ExplanationData:
    """Everything that was found."""
    imbalance = explanation.imbalance
    return ExplanationData(
        step_seconds=explanation.mean_step_seconds,
        ranks=tuple(_rank(rank) for rank in explanation.ranks),
        collectives=tuple(view(CollectiveData, item) for item in explanation.collectives),
        imbalance=view(ImbalanceData, imbalance, num_matched_collectives=imbalance.num_matched),
        comparison=None if comparison is None else _comparison(comparison),
        notes=explanation.notes,
    )


def _rank(rank: RankExplanation) -> RankData:
    own = rank.breakdown
    return view(
        RankData,
        own,
        steps=tuple(StepData(number=number, seconds=seconds) for number, seconds in own.step_seconds),
        device_time=view(DeviceTimeData, own.device_time),
        kinds=_shares(own.kinds),
        phases=_shares(own.phases),
        modules=_shares(own.modules),
        ranges=_shares(own.ranges),
        operators=_shares(own.operators),
        kernels=_shares(own.kernels),
        streams=_shares(own.streams),
        overheads=tuple(view(OverheadData, one, overhead=one.overhead.value) for one in rank.overheads),
        critical_path=_path(rank.critical_path),
    )


def _shares(shares: tuple[TimeShare, ...]) -> SharesData:
    rows = tuple(view(ShareData, share) for share in shares[:MAX_SHARES])
    return SharesData(rows=rows, num_rows=len(shares))


def _path(path: CriticalPath) -> PathData:
    return view(
        PathData,
        path,
        num_stretches=len(path.stretches),
        stretches=tuple(_stretch(stretch) for stretch in path.stretches[:MAX_STRETCHES]),
    )


def _stretch(stretch: PathStretch) -> StretchData:
    return view(
        StretchData,
        stretch,
        begin_event=stretch.begin_row,
        end_event=stretch.end_row,
        event=stretch.row,
        kind=stretch.kind.value,
        bound_by=stretch.bound_by.value,
    )


def _comparison(comparison: Comparison) -> ComparisonData:
    return view(
        ComparisonData,
        comparison,
        parts=_changes(comparison.parts),
        kinds=_changes(comparison.kinds),
        phases=_changes(comparison.phases),
        operators=_changes(comparison.operators),
        kernels=_changes(comparison.kernels),
        modules=_changes(comparison.modules),
        overheads=_changes(comparison.overheads),
    )


def _changes(changes: tuple[Change, ...]) -> tuple[ChangeData, ...]:
    return tuple(view(ChangeData, change) for change in changes[:MAX_SHARES])
