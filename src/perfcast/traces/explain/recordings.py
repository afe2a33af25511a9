"""A recording explained: where time went, why the device waited, what was critical, and how ranks differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.garbage import garbage_collection_paused
from perfcast.errors import TraceError
from perfcast.traces.critical_path.path import CriticalPath, find_critical_path
from perfcast.traces.events import NONE, Step, Trace
from perfcast.traces.explain.breakdown import Breakdown, CollectiveShare, break_down
from perfcast.traces.explain.imbalance import Imbalance, compare_ranks, share_collectives
from perfcast.traces.explain.work import Analysed, analyse
from perfcast.traces.timeline.build import build_program
from perfcast.traces.timeline.program import HostPiece, Overhead
from perfcast.traces.timeline.structure import find_structure


@dataclass(frozen=True, slots=True)
class OverheadShare:
    """Host time of one kind (T1 to T5) in a rank's window, without waiting."""

    overhead: Overhead
    seconds: float
    count: int

    @property
    def mean_seconds(self) -> float:
        """Seconds of one such piece."""
        return self.seconds / self.count if self.count else 0.0


@dataclass(frozen=True)
class RankExplanation:
    """One rank: its breakdown, its critical path and its host's overheads."""

    breakdown: Breakdown
    critical_path: CriticalPath
    overheads: tuple[OverheadShare, ...]


@dataclass(frozen=True)
class Explanation:
    """All ranks, what they exchanged, and how they differ; ``notes`` say what the recordings do not."""

    ranks: tuple[RankExplanation, ...]
    collectives: tuple[CollectiveShare, ...]
    imbalance: Imbalance
    notes: tuple[str, ...]

    @property
    def breakdowns(self) -> tuple[Breakdown, ...]:
        """Breakdowns of all ranks."""
        return tuple(rank.breakdown for rank in self.ranks)

    @property
    def mean_step_seconds(self) -> float:
        """Mean over the marked steps, on the rank that takes longest; the window where none are marked."""
        return max((_step(b) for b in self.breakdowns), default=0.0)

    @property
    def slowest_rank(self) -> int:
        """The rank that takes longest for a step."""
        return max(self.breakdowns, key=_step).rank


def _step(breakdown: Breakdown) -> float:
    steps = breakdown.step_seconds
    return sum(s for _, s in steps) / len(steps) if steps else breakdown.window_seconds


def explain(traces: Sequence[Trace]) -> Explanation:
    """Explain recordings of one or more ranks of one program.

    Raises:
        TraceError: No recording, or one without any event of a host or a device.
    """
    if not traces:
        raise TraceError("nothing to explain: no recording was given")
    with garbage_collection_paused():
        ranks = tuple(_explain_rank(analyse(trace)) for trace in traces)
    breakdowns = [rank.breakdown for rank in ranks]
    return Explanation(ranks, share_collectives(breakdowns), compare_ranks(breakdowns), _notes(traces, ranks))


def _explain_rank(analysed: Analysed) -> RankExplanation:
    trace, low = analysed.trace, analysed.low
    high = max((step.end_seconds for step in trace.steps), default=analysed.high)
    steps = trace.steps or (Step(0, NONE, low, high),)
    structure = find_structure(trace, analysed.links, low, high)
    path = find_critical_path(trace, analysed.links, low, high, structure)
    pieces: Sequence[HostPiece] = ()
    if structure.chains:
        pieces = build_program(trace, analysed.links, steps, structure).pieces
    return RankExplanation(break_down(analysed), path, _overheads(pieces))


def _overheads(pieces: Sequence[HostPiece]) -> tuple[OverheadShare, ...]:
    sums = {overhead: [0.0, 0] for overhead in Overhead}
    for piece in pieces:
        if piece.chain == 0 and piece.seconds > 0:
            sums[piece.overhead][0] += piece.seconds
            sums[piece.overhead][1] += 1
    return tuple(OverheadShare(o, seconds, int(count)) for o, (seconds, count) in sums.items() if count)


def _notes(traces: Sequence[Trace], ranks: Sequence[RankExplanation]) -> tuple[str, ...]:
    notes: list[str] = []
    recorded, world = len(traces), max(trace.world_size for trace in traces)
    if 1 < world != recorded:
        notes.append(
            f"{recorded} of {world} ranks: what they waited for the others is not known, so their time "
            "counts as transfer and their bandwidth is too low"
        )
    on_device = [rank for rank in ranks if rank.breakdown.on_device]
    if on_device and not all(rank.critical_path.has_synchronizations for rank in on_device):
        notes.append(
            "no synchronisation events were recorded (enable_cuda_sync_events): what streams and hosts "
            "waited for is inferred from the clock"
        )
    if not any(rank.breakdown.step_seconds for rank in ranks):
        notes.append("no marked steps (torch.profiler's step()): the whole recording is one window")
    if not any(rank.breakdown.modules for rank in ranks):
        notes.append("no modules were recorded (with_modules or with_stack)")
    return tuple(dict.fromkeys([*notes, *(w for rank in ranks for w in rank.breakdown.warnings)]))
