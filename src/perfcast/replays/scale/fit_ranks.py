"""From what a rank recorded to what it plays among the ranks that are there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from perfcast.errors import TraceError
from perfcast.replays.program.program import ReplayProgram
from perfcast.replays.ranks.context import RankContext
from perfcast.replays.request import RankOptions
from perfcast.replays.scale.emulate import emulated, recorded_seconds, with_fastest
from perfcast.replays.scale.world import scaled, splits_sent, with_splits

#: Yields what all ranks have to know of this one, is sent what all of them yielded, returns the program.
_Fitting: TypeAlias = "Generator[Any, list[Any], ReplayProgram]"


def fit_to_ranks(
    program: ReplayProgram, context: RankContext | None, ranks: RankOptions, *, is_replicated: bool = False
) -> ReplayProgram:
    """The program as this rank plays it; all ranks call this together.

    Args:
        context: This process among the others; ``None`` where it is alone.
        is_replicated: Several ranks play one trace: each all-to-all receives what the others send.

    Raises:
        TraceError: The ranks' programs do not fit together, or a time is not known.
        PlanError: A group that does not fit the cluster.
    """
    gather: Callable[[Any], list[Any]] = context.gather if context is not None else lambda value: [value]
    place = None if context is None else (context.rank, context.world_size)
    fitting = _fitting(program, place, ranks, is_replicated=is_replicated)
    try:
        told = next(fitting)
        while True:
            told = fitting.send(gather(told))
    except StopIteration as end:
        found: ReplayProgram = end.value
        return found


def fit_together(
    programs: Sequence[ReplayProgram], num_ranks: int, ranks: RankOptions
) -> tuple[ReplayProgram, ...]:
    """What each of ``num_ranks`` ranks plays, which take the programs in turns, made in this process.

    Raises:
        TraceError, PlanError: As ``fit_to_ranks``.
    """
    is_replicated = len(programs) < num_ranks
    own = [programs[rank % len(programs)] for rank in range(num_ranks)]
    fittings = [
        _fitting(program, (rank, num_ranks), ranks, is_replicated=is_replicated)
        for rank, program in enumerate(own)
    ]
    told = [_next(fitting, None) for fitting in fittings]
    while not isinstance(told[0], ReplayProgram):
        told = [_next(fitting, list(told)) for fitting in fittings]
    return tuple(told)


def _next(fitting: _Fitting, answers: list[Any] | None) -> Any:
    """What a rank tells next, or its program."""
    try:
        return next(fitting) if answers is None else fitting.send(answers)
    except StopIteration as end:
        return end.value


def _fitting(
    program: ReplayProgram, place: tuple[int, int] | None, ranks: RankOptions, *, is_replicated: bool
) -> _Fitting:
    """``place`` is the rank and how many there are; ``None`` where it is alone."""
    rank, num_ranks = place or (program.rank, 1)
    if place is not None and not ranks.is_emulated and (ranks.world_size or num_ranks) != num_ranks:
        raise TraceError(
            f"{num_ranks} processes are not the {ranks.world_size} ranks of --world-size: play all of them "
            f"(--ranks {ranks.world_size}), or let those that are not there take their time "
            f"(--emulate [CLUSTER]:{ranks.world_size} in its place)"
        )
    is_recorded_size = place is None or ranks.is_emulated
    wanted = ranks.world_size or (program.world_size if is_recorded_size else num_ranks)
    program = scaled(program, wanted, rank if rank < wanted else 0)
    if ranks.is_emulated or place is None:
        program = with_fastest(program, (yield recorded_seconds(program)))
        unknown_seconds = None if ranks.is_emulated else 0.0
        num_present = num_ranks if place is not None else 0
        program = emulated(program, num_present, ranks.cluster, unknown_seconds=unknown_seconds)
    if place is not None and (is_replicated or ranks.is_rebalanced):
        sent = dict(enumerate((yield splits_sent(program))))
        program = with_splits(program, sent, is_rebalanced=ranks.is_rebalanced)
    return program
