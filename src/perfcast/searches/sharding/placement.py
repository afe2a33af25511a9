"""A placement as the search handles it: an option of every table, and the ranks of its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.lookup import ShardingKind, TablePlacement
from perfcast.errors import PlanError
from perfcast.searches.sharding.options import MEMORY, ShardOptions, pieces_of
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.searches.sharding.step import PhaseSeconds, time_states


@dataclass(frozen=True)
class Placed:
    """T tables on ranks.

    Attributes:
        options: Index into ``ShardOptions`` for each table.
        ranks: Of each table's pieces; of a data-parallel table empty, since it lies everywhere.
    """

    options: tuple[int, ...]
    ranks: tuple[tuple[int, ...], ...]

    def with_table(self, table: int, option: int, ranks: tuple[int, ...]) -> Placed:
        """The same with one table elsewhere."""
        options, places = list(self.options), list(self.ranks)
        options[table], places[table] = option, ranks
        return Placed(tuple(options), tuple(places))


def state_of(placed: Placed, options: ShardOptions, num_ranks: int) -> tuple[Floats, float]:
    """What lies on every rank, shape [n, F + 3], and the bytes of gradients to be reduced."""
    chosen = list(placed.options)
    pieces = count_pieces(placed, num_ranks)
    return pieces @ options.rows[chosen], float(options.reduced_bytes[chosen].sum())


def count_pieces(placed: Placed, num_ranks: int) -> Floats:
    """Pieces of each table on each rank, shape [n, T]."""
    pieces = np.zeros((num_ranks, len(placed.options)))
    for table, ranks in enumerate(placed.ranks):
        for rank in ranks:
            pieces[rank, table] += 1
        if not ranks:
            pieces[:, table] = 1
    return pieces


def time_placements(
    problem: ShardingProblem, options: ShardOptions, placements: Sequence[Placed]
) -> PhaseSeconds:
    """Phases of several placements, from scratch."""
    built = [state_of(placed, options, problem.num_ranks) for placed in placements]
    return time_states(
        problem,
        options,
        np.stack([state for state, _ in built]),
        np.array([reduced for _, reduced in built]),
    )


def fits(problem: ShardingProblem, options: ShardOptions, placed: Placed) -> bool:
    """Whether every rank has the memory."""
    state, _ = state_of(placed, options, problem.num_ranks)
    return bool((state[:, MEMORY] <= problem.memory_bytes).all())


def to_placements(
    problem: ShardingProblem, options: ShardOptions, placed: Placed
) -> tuple[TablePlacement, ...]:
    """As the rest of the package knows it."""
    everywhere = tuple(range(problem.num_ranks))
    return tuple(
        TablePlacement(options.kinds[option], everywhere if options.is_replicated(option) else ranks)
        for option, ranks in zip(placed.options, placed.ranks, strict=True)
    )


def from_placements(
    problem: ShardingProblem, options: ShardOptions, placements: Sequence[TablePlacement]
) -> Placed:
    """A given plan, to be judged by the same evaluator.

    Raises:
        PlanError: Not one placement for each table, a rank that does not exist, a data-parallel table that is
            not everywhere, or a cut that the tables do not allow.
    """
    if len(placements) != len(problem.tables):
        raise PlanError(f"{len(placements)} placements of {len(problem.tables)} tables")
    chosen, ranks = [], []
    for index, (table, placement) in enumerate(zip(problem.tables, placements, strict=True)):
        if max(placement.ranks) >= problem.num_ranks:
            raise PlanError(f"table {table.name!r}: rank {max(placement.ranks)} of {problem.num_ranks} ranks")
        replicated = placement.kind is ShardingKind.DATA_PARALLEL
        if replicated and len(placement.ranks) < problem.num_ranks:
            raise PlanError(f"table {table.name!r}: a data-parallel table lies on all ranks")
        pieces = pieces_of(placement.kind, placement.ranks)
        option = options.find(index, placement.kind, pieces)
        if option is None:
            raise PlanError(f"table {table.name!r} cannot be cut {placement.kind.value} into {pieces}")
        chosen.append(option)
        ranks.append(() if replicated else placement.ranks)
    return Placed(tuple(chosen), tuple(ranks))
