"""What JSON holds of recordings, of trace files, and of how they fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from perfcast.report.answers import Answer, view
from perfcast.traces.link.report import LinkReport
from perfcast.traces.record.launch import Recording
from perfcast.traces.summary import TraceSummary


@dataclass(frozen=True, kw_only=True)
class RecordedRankData:
    """What one process recorded.

    Attributes:
        rank: Of the process.
        world_size: Ranks of the program.
        files: By kind: the timeline of all steps, timeline and execution trace of one more.
        num_steps: That were recorded.
        step_seconds: Median step with a timeline, by the process's clock; null where there is none.
        step_wall_seconds: The same by the wall's clock.
        plain_step_seconds: Median step without a timeline, by the process's clock; null where there is none.
        plain_step_wall_seconds: The same by the wall's clock.
        execution_trace_step_seconds: The step with the execution trace; null where there is none.
        steps_by: What counted the steps.
        problem: What went wrong; empty where nothing did.
        slow_down: How much longer a step with a timeline took: 0.05 is 5 %; null where not measured.
        wall_slow_down: The same by the wall's clock.
    """

    rank: int
    world_size: int
    files: Mapping[str, Path]
    num_steps: int
    step_seconds: float | None
    step_wall_seconds: float | None
    plain_step_seconds: float | None
    plain_step_wall_seconds: float | None
    execution_trace_step_seconds: float | None
    steps_by: str
    problem: str
    slow_down: float | None
    wall_slow_down: float | None


@dataclass(frozen=True, kw_only=True)
class RecordingData(Answer):
    """What was recorded, and the slow-down of each rank.

    Attributes:
        exit_code: Of the program.
        is_interrupted: Whether it was stopped from outside.
        ranks: Each of them.
    """

    table: ClassVar[str] = "ranks"

    exit_code: int
    is_interrupted: bool
    ranks: tuple[RecordedRankData, ...]


@dataclass(frozen=True, kw_only=True)
class TraceFilesData(Answer):
    """What trace files are and hold.

    Attributes:
        files: Each of them.
    """

    table: ClassVar[str] = "files"

    files: tuple[TraceSummary, ...]


@dataclass(frozen=True, kw_only=True)
class TraceLinksData(Answer):
    """How execution traces and timelines fit together.

    Attributes:
        ranks: Each pair of files.
    """

    table: ClassVar[str] = "ranks"

    ranks: tuple[LinkReport, ...]


def recording_data(recording: Recording) -> RecordingData:
    """What was recorded."""
    ranks = tuple(view(RecordedRankData, rank) for rank in recording.ranks)
    return view(RecordingData, recording, ranks=ranks)


def files_data(summaries: Sequence[TraceSummary]) -> TraceFilesData:
    """What files are and hold."""
    return TraceFilesData(files=tuple(summaries))


def links_data(reports: Sequence[LinkReport]) -> TraceLinksData:
    """How execution traces and timelines fit together."""
    return TraceLinksData(ranks=tuple(reports))
