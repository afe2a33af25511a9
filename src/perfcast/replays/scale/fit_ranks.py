"""From what a rank recorded to what it plays among the ranks that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfcast.replays.program.program import ReplayProgram
from perfcast.replays.ranks.context import RankContext
from perfcast.replays.request import RankOptions
from perfcast.replays.scale.emulate import emulated, recorded_seconds, with_fastest
from perfcast.replays.scale.world import scaled, splits_sent, with_splits


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
    num_ranks = context.world_size if context is not None else 1
    rank = context.rank if context is not None else program.rank
    is_recorded_size = context is None or ranks.is_emulated
    wanted = ranks.world_size or (program.world_size if is_recorded_size else num_ranks)
    gather: Callable[[Any], list[Any]] = context.gather if context is not None else lambda value: [value]
    program = scaled(program, wanted, rank if rank < wanted else 0)
    if ranks.is_emulated or context is None:
        program = with_fastest(program, gather(recorded_seconds(program)))
        unknown_seconds = None if ranks.is_emulated else 0.0
        num_present = num_ranks if context is not None else 0
        program = emulated(program, num_present, ranks.cluster, unknown_seconds=unknown_seconds)
    if context is not None and (is_replicated or ranks.is_rebalanced):
        sent = dict(enumerate(gather(splits_sent(program))))
        program = with_splits(program, sent, is_rebalanced=ranks.is_rebalanced)
    return program
