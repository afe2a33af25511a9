"""From what a rank recorded to what it plays among the ranks that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfcast.core.cluster import Cluster
from perfcast.replay.program.program import ReplayProgram
from perfcast.replay.ranks.context import RankContext
from perfcast.replay.scale.emulate import emulated, recorded_seconds, with_fastest
from perfcast.replay.scale.world import scaled, splits_sent, with_splits


def fit_to_ranks(
    program: ReplayProgram,
    context: RankContext | None,
    *,
    world_size: int | None = None,
    cluster: Cluster | None = None,
    is_emulated: bool = False,
    is_replicated: bool = False,
    is_rebalanced: bool = False,
) -> ReplayProgram:
    """The program as this rank plays it; all ranks call this together.

    Args:
        context: This process among the others; ``None`` where it is alone.
        world_size: Of what is played; ``None``: as many as there are, or as recorded where it is alone
            or others are emulated.
        cluster: Whose forecast emulated collectives take; ``None`` takes the recorded times.
        is_emulated: Collectives with ranks that are not there only take time; otherwise they are an error.
            A process that is alone, without asking for it, takes no time for those whose own is not known.
        is_replicated: Several ranks play one trace: each all-to-all receives what the others send.
        is_rebalanced: Every rank sends and receives the same in all-to-alls.

    Raises:
        TraceError: The ranks' programs do not fit together, or a time is not known.
        PlanError: A group that does not fit the cluster.
    """
    num_ranks = context.world_size if context is not None else 1
    rank = context.rank if context is not None else program.rank
    wanted = world_size or (program.world_size if context is None or is_emulated else num_ranks)
    gather: Callable[[Any], list[Any]] = context.gather if context is not None else lambda value: [value]
    program = scaled(program, wanted, rank if rank < wanted else 0)
    if is_emulated or context is None:
        program = with_fastest(program, gather(recorded_seconds(program)))
        unknown_seconds = None if is_emulated else 0.0
        program = emulated(
            program, num_ranks if context is not None else 0, cluster, unknown_seconds=unknown_seconds
        )
    if context is not None and (is_replicated or is_rebalanced):
        sent = dict(enumerate(gather(splits_sent(program))))
        program = with_splits(program, sent, is_rebalanced=is_rebalanced)
    return program
