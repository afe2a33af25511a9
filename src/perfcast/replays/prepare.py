"""From the recordings of a request to the program of each rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfcast.errors import TraceError
from perfcast.replays.build.build import build_program, hash_of
from perfcast.replays.build.sources import RankSource, read_sources
from perfcast.replays.fill.fill import recorded_folder
from perfcast.replays.judge.host_gaps import GapSource, with_host_gaps
from perfcast.replays.judge.profiling import label_seconds
from perfcast.replays.play.limits import ReplayLimits
from perfcast.replays.play.modules import load_module
from perfcast.replays.program.combine import concatenate
from perfcast.replays.program.program import ReplayProgram
from perfcast.replays.request import ReplayRequest
from perfcast.replays.scale.batch import scale_batch


@dataclass(frozen=True)
class Prepared:
    """A rank's program with what its recording tells of it.

    Attributes:
        gaps: Where the program's gaps are from; ``None`` without a timeline.
        label_seconds: What the profiler costs for each event, without (False) and with (True) an execution
            trace; empty without a timeline.
    """

    program: ReplayProgram
    source: RankSource
    gaps: GapSource | None
    label_seconds: Mapping[bool, float]

    @property
    def is_whole(self) -> bool:
        """Whether all of the recorded steps is played as it was."""
        selection = self.program.selection
        return not set(selection) - {"mode", "device"} and selection.get("mode") == "all"

    @property
    def gap_source(self) -> GapSource:
        """Where gaps are from; with processor seconds where all is played, and where it was recorded.

        Raises:
            TraceError: No timeline tells gaps.
        """
        linked, seconds = self.source.linked, self.source.plain_processor_seconds
        if self.gaps is None or linked is None:
            raise TraceError("host gaps need a timeline of the same run: --timeline, or a recorded folder")
        is_on_processor = all(buffer.device == "cpu" for buffer in self.program.buffers)
        if seconds and self.is_whole and is_on_processor and linked.platform == "cpu":
            return replace(self.gaps, processor_seconds=seconds * self.program.num_steps)
        return self.gaps


def prepare(request: ReplayRequest) -> tuple[Prepared, ...]:
    """The programs of all recorded ranks in order; of several recordings, one after the other.

    Raises:
        TraceError: A trace that cannot be read or played, or traces that do not fit together.
        InputError: Programs of several ranks that cannot follow each other.
    """
    limits = _limits(request)
    return tuple(_prepared(request, one, limits) for one in _recorded_ranks(request))


def prepare_rank(request: ReplayRequest, rank: int, num_ranks: int) -> tuple[Prepared, bool]:
    """What one of several ranks plays, which take programs in turns; and whether others play the same.

    Raises:
        TraceError, InputError: As ``prepare``.
    """
    limits, recorded = _limits(request), _recorded_ranks(replace(request, num_ranks=num_ranks))
    return _prepared(request, recorded[rank % len(recorded)], limits), len(recorded) < num_ranks


@dataclass(frozen=True)
class _RecordedRank:
    """What a rank plays one after the other; ``rank`` where it is another than it was recorded as."""

    sources: tuple[RankSource, ...]
    rank: int | None = None


def _recorded_ranks(request: ReplayRequest) -> list[_RecordedRank]:
    by_trace = [read_sources(path, request.timeline, max_bytes=request.max_bytes) for path in request.traces]
    if len({len(sources) for sources in by_trace}) > 1:
        counts = ", ".join(
            f"'{path}' has {len(sources)}" for path, sources in zip(request.traces, by_trace, strict=True)
        )
        raise TraceError(
            f"the TRACEs are of different numbers of ranks ({counts}): those that follow each other need as "
            "many, so give one rank's file of each, or replay them apart"
        )
    if request.num_ranks == len(by_trace) > 1 and len(by_trace[0]) == 1:
        return [_RecordedRank(sources, rank) for rank, sources in enumerate(by_trace)]
    return [_RecordedRank(sources) for sources in zip(*by_trace, strict=True)]


def _limits(request: ReplayRequest) -> ReplayLimits:
    """The request's limits, with the namespaces of the user's module, which is run here."""
    if not request.module:
        return request.limits
    return request.limits.with_namespaces(load_module(request.module))


def _prepared(request: ReplayRequest, recorded: _RecordedRank, limits: ReplayLimits) -> Prepared:
    parts = [_built(request, source, limits) for source in recorded.sources]
    program = concatenate([part.program for part in parts])
    if recorded.rank is not None:
        program = replace(program, rank=recorded.rank)
    if request.batch is not None:
        program = scale_batch(program, *request.batch)
    return replace(parts[0], program=program)


def _built(request: ReplayRequest, source: RankSource, limits: ReplayLimits) -> Prepared:
    """The program of one source, with gaps and times where a timeline is at hand."""
    trace = source.execution_trace
    program = build_program(
        trace,
        timeline=source.linked,
        selection=request.selection,
        device=request.device,
        limits=limits,
        fills=replace(request.fills, folder=request.fills.folder or recorded_folder(source.path)),
        runs_kernels=request.runs_kernels,
        source_hash=hash_of(source.path),
    )
    if source.linked is None:
        return Prepared(program, source, None, {})
    costs = {is_observed: label_seconds(is_observed=is_observed) for is_observed in (False, True)}
    program, gaps = with_host_gaps(program, trace, source.linked, source.timeline, label_seconds=costs)
    return Prepared(program, source, gaps, costs)
