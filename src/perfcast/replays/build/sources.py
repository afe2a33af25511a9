"""What a replay is made from: an execution trace, and timelines of the same program where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfcast.errors import TraceError
from perfcast.traces.events import Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.execution_trace.reader import read_execution_traces
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES
from perfcast.traces.kineto.reader import read_kineto
from perfcast.traces.record.launch import RankRecording, ranks_in


@dataclass(frozen=True)
class RankSource:
    """One rank of a recording.

    ``linked`` is the timeline recorded with the execution trace, ``timeline`` one of the same program
    recorded without. ``plain_...`` are the step's seconds when nothing was recorded; ``None``: not known.
    """

    path: Path
    execution_trace: ExecutionTrace
    linked: Trace | None = None
    timeline: Trace | None = None
    plain_processor_seconds: float | None = None
    plain_wall_seconds: float | None = None


def read_sources(
    path: str | Path, timeline: str | Path | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> tuple[RankSource, ...]:
    """The ranks of an execution trace, an archive of several, or the folder that a recording wrote.

    An execution trace that a recording wrote comes with what that wrote beside it, as its folder does.

    Raises:
        TraceError: The file cannot be read, or the folder holds no execution trace.
    """
    path = Path(path)
    if path.is_dir():
        if timeline is not None:
            raise TraceError(f"'{path}' is a folder with timelines of its own: leave --timeline out")
        return _recorded(path, max_bytes)
    beside = _beside(path) if timeline is None else None
    if beside is not None:
        return (_rank_source(beside, max_bytes),)
    traces = read_execution_traces([path], max_bytes=max_bytes)
    linked = None if timeline is None else read_kineto(timeline, max_bytes=max_bytes)
    if linked is not None and len(traces) > 1:
        raise TraceError(f"'{path}' holds {len(traces)} execution traces, --timeline is of one")
    return tuple(RankSource(path, trace, linked) for trace in traces)


def _beside(path: Path) -> RankRecording | None:
    """The rank of a recording whose execution trace this is; ``None`` where none says so."""
    if not list(path.parent.glob("*.record.json")):
        return None
    wanted = path.resolve()
    ranks = (rank for rank in ranks_in(path.parent) if "et" in rank.files)
    return next((rank for rank in ranks if rank.files["et"].resolve() == wanted), None)


def _recorded(folder: Path, max_bytes: int) -> tuple[RankSource, ...]:
    ranks = [rank for rank in ranks_in(folder) if "et" in rank.files]
    if not ranks:
        raise TraceError(f"'{folder}' holds no execution trace; 'perfcast trace record' writes one")
    return tuple(_rank_source(rank, max_bytes) for rank in ranks)


def _rank_source(rank: RankRecording, max_bytes: int) -> RankSource:
    def timeline(kind: str) -> Trace | None:
        return read_kineto(rank.files[kind], max_bytes=max_bytes) if kind in rank.files else None

    path = rank.files["et"]
    return RankSource(
        path=path,
        execution_trace=read_execution_traces([path], max_bytes=max_bytes)[0],
        linked=timeline("linked"),
        timeline=timeline("kineto"),
        plain_processor_seconds=rank.plain_step_seconds,
        plain_wall_seconds=rank.plain_step_wall_seconds,
    )
