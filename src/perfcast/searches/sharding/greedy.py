"""Tables one after the other, the slowest first, each on the ranks that are least busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.embedding.lookup import ShardingKind
from perfcast.errors import PlanError
from perfcast.searches.sharding.options import MEMORY, OUT, ShardOptions
from perfcast.searches.sharding.placement import Placed
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.searches.sharding.step import price_lookups
from perfcast.units import format_bytes

#: A table that takes more than this part of a rank's mean load is cut in the second start.
_LARGE_SHARE = 0.5
#: Times that a table is cut finer for want of room.
_MOST_REFINEMENTS = 8


@dataclass(frozen=True)
class Unplaced:
    """A table for which no rank, or not enough of them, had room.

    Attributes:
        rank: The one with the most room.
        lacking_bytes: What it lacks for one piece.
    """

    table: int
    rank: int
    lacking_bytes: float


def place_greedily(
    problem: ShardingProblem, options: ShardOptions, choice: Sequence[int], *, by_memory: bool = False
) -> Placed | Unplaced:
    """Place an option of every table.

    Args:
        choice: Option of each table.
        by_memory: Largest pieces first, on the ranks with the most room: fits where the other way does not.
    """
    chosen = np.array(choice)
    state = np.zeros((problem.num_ranks, options.rows.shape[1]))
    for option in choice:
        if options.is_replicated(option):
            state += options.rows[option]
    pace = communication_pace(problem, float(options.rows[chosen, OUT] @ options.parts[chosen]))
    loads = rank_loads(problem, options, state, pace)
    keys = options.rows[chosen, MEMORY] if by_memory else options.seconds[chosen]
    places: list[tuple[int, ...]] = [()] * len(choice)
    for table in np.lexsort((np.arange(len(choice)), -keys)).tolist():
        option = choice[table]
        if options.is_replicated(option):
            continue
        row, parts = options.rows[option], int(options.parts[option])
        left = problem.memory_bytes - state[:, MEMORY]
        ranks = least_loaded(-left if by_memory else loads, left >= row[MEMORY], parts)
        if ranks is None:
            roomiest = int(left.argmax())
            return Unplaced(table, roomiest, float(row[MEMORY] - left[roomiest]))
        state[ranks] += row
        loads[ranks] = rank_loads(problem, options, state[ranks], pace)
        places[table] = tuple(ranks.tolist())
    if (state[:, MEMORY] > problem.memory_bytes).any():
        fullest = int(state[:, MEMORY].argmax())
        replicated = [table for table, option in enumerate(choice) if options.is_replicated(option)]
        return Unplaced(replicated[0], fullest, float(state[fullest, MEMORY] - problem.memory_bytes))
    return Placed(tuple(choice), tuple(places))


def least_loaded(loads: Floats, has_room: Flags, count: int) -> Integers | None:
    """The ``count`` least loaded ranks that have room, by load, then by rank; None if too few have."""
    order = np.argsort(np.where(has_room, loads, np.inf), kind="stable")[:count]
    return order if has_room[order].all() and len(order) == count else None


def rank_loads(problem: ShardingProblem, options: ShardOptions, state: Floats, pace: float) -> Floats:
    """Seconds that ranks are busy with lookups and with sending, shape [m]."""
    forward, backward = price_lookups(problem, options, state)
    total: Floats = forward + backward + pace * state[:, OUT]
    return total


def communication_pace(problem: ShardingProblem, out_bytes: float) -> float:
    """Seconds that a byte of outputs takes there and back, where all ranks hold equally many."""
    if problem.num_ranks == 1 or out_bytes == 0:
        return 0.0
    each = np.array([out_bytes / problem.num_ranks])
    return 2 * float(problem.communication.all_to_all_seconds(each)[0]) / float(each[0])


def first_fitting(problem: ShardingProblem, options: ShardOptions) -> list[int]:
    """Every table whole, or in as few pieces as a rank's memory asks.

    Raises:
        PlanError: A table of which not even the smallest piece fits a rank.
    """
    chosen = []
    for table in range(len(problem.tables)):
        fitting = _fitting(problem, options, table)
        if not fitting:
            least = min(options.of_table(table), key=lambda option: options.rows[option, MEMORY])
            needed = float(options.rows[least, MEMORY])
            raise PlanError(
                f"table {problem.tables[table].name!r}: its smallest piece "
                f"({int(options.parts[least])} pieces, {options.kinds[least].value}) needs "
                f"{format_bytes(needed)}; "
                f"a device has {format_bytes(problem.memory_bytes)} for tables: "
                f"{format_bytes(needed - problem.memory_bytes)} are missing. "
                f"Take more devices or a smaller batch"
            )
        chosen.append(fitting[0])
    return chosen


def _fitting(problem: ShardingProblem, options: ShardOptions, table: int) -> list[int]:
    room = problem.memory_bytes
    return [
        option
        for option in options.of_table(table)
        if options.rows[option, MEMORY] <= room and not options.is_replicated(option)
    ]


def place_to_fit(problem: ShardingProblem, options: ShardOptions) -> Placed:
    """A placement that fits, in as few pieces as that takes.

    Raises:
        PlanError: None was found; says which table lacks how many bytes on which device.
    """
    choice = first_fitting(problem, options)
    for _ in range(_MOST_REFINEMENTS * len(choice)):
        placed = place_greedily(problem, options, choice)
        if isinstance(placed, Unplaced):
            placed = place_greedily(problem, options, choice, by_memory=True)
        if isinstance(placed, Placed):
            return placed
        finer = _finer(problem, options, choice[placed.table], placed.table)
        if finer is None:
            raise PlanError(_lacking(problem, options, placed))
        choice[placed.table] = finer
    raise PlanError(f"no placement was found after cutting {len(choice)} tables; take more devices")


def _finer(problem: ShardingProblem, options: ShardOptions, option: int, table: int) -> int | None:
    """The option with the next smaller pieces."""
    memory = options.rows[:, MEMORY]
    smaller = [other for other in _fitting(problem, options, table) if memory[other] < memory[option]]
    return max(smaller, key=lambda other: memory[other]) if smaller else None


def _lacking(problem: ShardingProblem, options: ShardOptions, last: Unplaced) -> str:
    total = float(options.rows[options.first, MEMORY].sum())
    room = problem.memory_bytes * problem.num_ranks
    return (
        f"table {problem.tables[last.table].name!r} finds no room: device {last.rank}, which has the "
        f"most left, "
        f"lacks {format_bytes(last.lacking_bytes)}. All tables whole need {format_bytes(total)}, "
        f"{problem.num_ranks} devices have {format_bytes(room)} for tables. Take more devices, a smaller "
        f"batch, or an optimizer with smaller states"
    )


def cut_large(problem: ShardingProblem, options: ShardOptions, placed: Placed) -> list[int]:
    """The choice of a placement, with tables that would fill half a rank's mean load cut further."""
    chosen = np.array(placed.options)
    pace = communication_pace(problem, float(options.rows[chosen, OUT] @ options.parts[chosen]))
    busy = options.seconds + pace * options.rows[:, OUT]
    limit = _LARGE_SHARE * float(busy[chosen] @ options.parts[chosen]) / problem.num_ranks
    choice = list(placed.options)
    for table, option in enumerate(choice):
        if busy[option] <= limit:
            continue
        fitting = _fitting(problem, options, table)
        small = [other for other in fitting if busy[other] <= limit]
        choice[table] = (
            min(small, key=lambda other: (options.parts[other], busy[other]))
            if small
            else min(fitting, key=lambda other: busy[other])
        )
    return choice


def replicate_small(problem: ShardingProblem, options: ShardOptions, choice: Sequence[int]) -> list[int]:
    """A choice with those tables on every rank that gain by it, as far as one at a time can tell."""
    chosen = np.array(choice)
    pace = communication_pace(problem, float(options.rows[chosen, OUT] @ options.parts[chosen]))
    ranks, better = problem.num_ranks, list(choice)
    room = problem.memory_bytes - float(options.rows[chosen, MEMORY] @ options.parts[chosen]) / ranks
    for table, option in enumerate(choice):
        copied = options.find(table, ShardingKind.DATA_PARALLEL, 1)
        if copied is None:
            continue
        reduce = problem.communication.all_reduce_seconds(options.reduced_bytes[[copied]])
        now = (options.seconds[option] + pace * options.rows[option, OUT]) * options.parts[option] / ranks
        if options.seconds[copied] + float(reduce[0]) < now and options.rows[copied, MEMORY] < room:
            room -= float(options.rows[copied, MEMORY])
            better[table] = copied
    return better
