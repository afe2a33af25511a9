"""One rank of several that play together: what its process does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from perfcast.replays.communication.play import CollectiveRunner
from perfcast.replays.judge.host_gaps import GapSource
from perfcast.replays.play.memory_bound import bound_memory
from perfcast.replays.play.modules import load_module
from perfcast.replays.play.session import NO_GAPS, Played, find_gaps, play_program
from perfcast.replays.program.program import ReplayProgram
from perfcast.replays.ranks.context import RankContext
from perfcast.replays.request import PlayOptions, ReplayRequest
from perfcast.replays.scale.fit_ranks import fit_to_ranks


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """What a rank plays.

    Attributes:
        gaps: Where the program's gaps are from; ``None`` where the host is not kept busy in between.
        label_seconds: What the profiler costs for each event, without and with an execution trace.
        is_replicated: Several ranks play one trace.
    """

    request: ReplayRequest
    program: ReplayProgram
    gaps: GapSource | None
    label_seconds: Mapping[bool, float]
    is_replicated: bool


def play_rank(task: RankTask, context: RankContext) -> tuple[ReplayProgram, Played]:
    """Play a rank's program with the others; the program as it fits these ranks, and what came of it.

    Raises:
        TraceError: It cannot run here, or does not fit the other ranks' programs.
    """
    request = task.request
    if request.module:
        load_module(request.module)
    program = fit_to_ranks(task.program, context, request.ranks, is_replicated=task.is_replicated)
    bound_memory(program)
    options = _options(request.play, context.rank)
    collective_runner = CollectiveRunner(program, context, is_blocking=request.ranks.is_blocking)
    gaps = NO_GAPS
    if task.gaps is not None:
        gaps = find_gaps(
            program,
            options,
            source=task.gaps,
            label_seconds=task.label_seconds[task.gaps.is_observed],
            is_scaled=request.host_gaps == "scaled",
            collective_runner=collective_runner,
        )
    collective_runner.forget()
    context.barrier()
    played = play_program(
        program,
        options,
        gaps=gaps,
        collective_runner=collective_runner,
        label_seconds=task.label_seconds.get(False, 0.0),
    )
    return program, played


def _options(options: PlayOptions, rank: int) -> PlayOptions:
    """All ranks play equally often; each writes a timeline of its own."""
    path = Path(options.profile_path)
    own = str(path.with_name(f"rank{rank}.{path.name}")) if options.profile_path else ""
    return replace(options, max_seconds=inf, profile_path=own)
