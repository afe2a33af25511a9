"""A placement made better step by step: pieces move, change places, or their table is cut another way.

Every round looks at one busiest rank (of lookups forward, backward, of what it sends, of what it receives)
and takes the change that lowers the step most. What is lowered is the step plus a hundredth of the root mean
square of the ranks' loads (lookups, and their bytes at the collectives' pace), so that a round may level
other ranks while several are equally busy. The number of rounds is limited, not the time: the result is the
same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.searches.sharding.greedy import communication_pace, least_loaded
from perfcast.searches.sharding.options import IN, MEMORY, OUT, ShardOptions
from perfcast.searches.sharding.placement import Placed, state_of
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.searches.sharding.step import (
    PhaseSeconds,
    communication_seconds,
    even_bytes,
    price_lookups,
    time_states,
)

_LEVELLING = 0.01
#: A change counts when it gains more than this part.
_LEAST_GAIN = 1e-6
#: Pairs of pieces that are looked at as exchanges of places, those that promise most first.
_MOST_SWAPS = 256


@dataclass(frozen=True, eq=False)
class _Search:
    """What stays the same during a search.

    Attributes:
        in_pace, out_pace: Seconds that a byte of indices, and of outputs there and back, takes.
    """

    problem: ShardingProblem
    options: ShardOptions
    in_pace: float
    out_pace: float

    def communication_loads(self, incoming: Floats, outgoing: Floats) -> Floats:
        """Seconds of ranks, of any shape, from their bytes."""
        return self.in_pace * incoming + self.out_pace * outgoing


@dataclass(frozen=True, eq=False)
class _Current:
    """A placement with what it costs."""

    placed: Placed
    state: Floats
    reduced: float
    phases: PhaseSeconds
    value: float
    step: float


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Pieces of all tables that are not replicated, shape [p]."""

    tables: Integers
    options: Integers
    ranks: Integers
    position: Integers

    def held(self, num_tables: int, num_ranks: int) -> Flags:
        """Which rank holds a piece of which table, shape [T, n]."""
        table = np.zeros((num_tables, num_ranks), dtype=bool)
        table[self.tables, self.ranks] = True
        return table


def improve(
    problem: ShardingProblem, options: ShardOptions, placed: Placed, max_rounds: int
) -> tuple[Placed, int]:
    """The best placement that changes of one or two pieces, or of one table's cut, lead to.

    Returns:
        The placement, and the rounds that it took.
    """
    state, _ = state_of(placed, options, problem.num_ranks)
    in_bytes, out_bytes = float(state[:, IN].sum()), float(state[:, OUT].sum())
    search = _Search(
        problem, options, communication_pace(problem, in_bytes) / 2, communication_pace(problem, out_bytes)
    )
    current = _weigh(search, placed)
    best, best_step = placed, current.step
    for done in range(max_rounds):
        found = _better(search, current)
        if found is None:
            return best, done
        current = _weigh(search, found)
        if current.step < best_step:
            best, best_step = current.placed, current.step
    return best, max_rounds


def _weigh(search: _Search, placed: Placed) -> _Current:
    state, reduced = state_of(placed, search.options, search.problem.num_ranks)
    phases = time_states(search.problem, search.options, state[None], np.array([reduced]))
    value = float(_values(search, phases, state[None])[0])
    return _Current(placed, state, reduced, phases, value, float(phases.step[0]))


def _values(search: _Search, phases: PhaseSeconds, states: Floats) -> Floats:
    loads = phases.forward + phases.backward + search.communication_loads(states[..., IN], states[..., OUT])
    return _value(phases.step, (loads**2).mean(axis=1))


def _value(step: Floats, mean_square: Floats) -> Floats:
    total: Floats = step + _LEVELLING * np.sqrt(mean_square)
    return total


def _better(search: _Search, current: _Current) -> Placed | None:
    """The best change at the first busiest rank where there is one."""
    pieces = _pieces(current.placed, search.options)
    sources = _busiest(search, current)
    for change in (_moved, _cut):
        for source in sources:
            found = change(search, current, pieces, source)
            if found is not None:
                return found
    return None


def _loads(search: _Search, current: _Current) -> Floats:
    """Seconds that every rank is busy, shape [n]."""
    lookups: Floats = current.phases.forward[0] + current.phases.backward[0]
    return lookups + search.communication_loads(current.state[:, IN], current.state[:, OUT])


def _busiest(search: _Search, current: _Current) -> list[int]:
    """Ranks that a phase waits for, each once."""
    phases, state = current.phases, current.state
    maxima = (_loads(search, current), phases.forward[0], phases.backward[0], state[:, OUT], state[:, IN])
    return list(dict.fromkeys(int(values.argmax()) for values in maxima))


def _pieces(placed: Placed, options: ShardOptions) -> _Pieces:
    rows = [
        (table, option, rank, position)
        for table, (option, ranks) in enumerate(zip(placed.options, placed.ranks, strict=True))
        for position, rank in enumerate(ranks)
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return _Pieces(*columns)


def _moved(search: _Search, current: _Current, pieces: _Pieces, source: int) -> Placed | None:
    """The best move of a piece away from a rank, or exchange of one of its pieces with another rank's."""
    given, taken, targets = _changes(search, current, pieces, source)
    if not len(given):
        return None
    rows = search.options.rows[pieces.options]
    back = np.where((taken >= 0)[:, None], rows[taken], 0.0)
    values = _pair_values(search, current, source, targets, back - rows[given])
    best = int(values.argmin())
    if values[best] >= current.value * (1 - _LEAST_GAIN):
        return None
    placed = _with_rank(current.placed, pieces, int(given[best]), int(targets[best]))
    if taken[best] >= 0:
        placed = _with_rank(placed, pieces, int(taken[best]), source)
    return placed


def _changes(
    search: _Search, current: _Current, pieces: _Pieces, source: int
) -> tuple[Integers, Integers, Integers]:
    """Pieces given by a rank, pieces taken for them (-1: none), and the other rank, shape [c] each."""
    problem = search.problem
    held = pieces.held(len(problem.tables), problem.num_ranks)
    mine = np.flatnonzero(pieces.ranks == source)
    moves = np.stack(np.meshgrid(mine, np.arange(problem.num_ranks), indexing="ij")).reshape(2, -1)
    moves = moves[:, ~held[pieces.tables[moves[0]], moves[1]]]
    others = np.flatnonzero(pieces.ranks != source)
    swaps = np.stack(np.meshgrid(mine, others, indexing="ij")).reshape(2, -1)
    there = pieces.ranks[swaps[1]]
    allowed = ~held[pieces.tables[swaps[0]], there] & ~held[pieces.tables[swaps[1]], source]
    swaps = swaps[:, allowed]
    swaps = swaps[:, _promising(search, current, pieces, swaps, source)]
    given = np.concatenate([moves[0], swaps[0]])
    taken = np.concatenate([np.full(moves.shape[1], -1), swaps[1]])
    targets = np.concatenate([moves[1], pieces.ranks[swaps[1]]])
    memory = search.options.rows[:, MEMORY]
    more = memory[pieces.options[given]] - np.where(taken >= 0, memory[pieces.options[taken]], 0.0)
    used = current.state[:, MEMORY]
    room = (used[targets] + more <= problem.memory_bytes) & (used[source] - more <= problem.memory_bytes)
    return given[room], taken[room], targets[room]


def _promising(search: _Search, current: _Current, pieces: _Pieces, swaps: Integers, source: int) -> Integers:
    """Exchanges of places that leave the busier of both ranks least, by the sum of single prices."""
    rows, loads = search.options.rows[pieces.options], _loads(search, current)
    seconds = search.options.seconds[pieces.options] + search.communication_loads(rows[:, IN], rows[:, OUT])
    shifted = seconds[swaps[0]] - seconds[swaps[1]]
    busier = np.maximum(loads[source] - shifted, loads[pieces.ranks[swaps[1]]] + shifted)
    if len(busier) <= _MOST_SWAPS:
        return np.arange(len(busier))
    return np.argsort(busier, kind="stable")[:_MOST_SWAPS]


def _pair_values(
    search: _Search, current: _Current, source: int, targets: Integers, change: Floats
) -> Floats:
    """The value after ``change`` is added to the source's state and taken from a target's, [c]."""
    problem = search.problem
    here, there = current.state[source] + change, current.state[targets] - change
    both = np.maximum(np.stack([here, there]), 0.0)
    forward, backward = price_lookups(problem, search.options, both.reshape(2 * len(targets), -1))
    forward, backward = forward.reshape(2, -1), backward.reshape(2, -1)
    old_forward, old_backward = current.phases.forward[0], current.phases.backward[0]
    old = _loads(search, current)
    new = forward + backward + search.communication_loads(both[..., IN], both[..., OUT])
    squares = (old**2).sum() - old[source] ** 2 - old[targets] ** 2 + (new**2).sum(axis=0)
    messages = [
        even_bytes(
            _peak(held, source, targets, both[:, :, column]),
            -_peak(-held, source, targets, -both[:, :, column]),
            np.full(len(targets), held.sum()),
            problem.num_ranks,
        )
        for column, held in ((IN, current.state[:, IN]), (OUT, current.state[:, OUT]))
    ]
    indices, outputs, reduce = communication_seconds(
        problem, messages[0], messages[1], np.full(len(targets), current.reduced)
    )
    step = _peak(old_forward, source, targets, forward) + _peak(old_backward, source, targets, backward)
    return _value(step + indices + 2 * outputs + reduce, np.maximum(squares, 0.0) / problem.num_ranks)


def _peak(now: Floats, source: int, targets: Integers, changed: Floats) -> Floats:
    """Largest over ranks where the source's and a target's values are changed, shape [c].

    Args:
        now: Of every rank, shape [n].
        changed: New values of the source and of the target, shape [2, c].
    """
    rest = now.copy()
    rest[source] = -np.inf
    first = int(rest.argmax())
    most = rest[first]
    rest[first] = -np.inf
    others = np.where(targets == first, rest.max(), most)
    total: Floats = np.maximum(others, changed.max(axis=0))
    return total


def _with_rank(placed: Placed, pieces: _Pieces, piece: int, rank: int) -> Placed:
    table = int(pieces.tables[piece])
    ranks = list(placed.ranks[table])
    ranks[int(pieces.position[piece])] = rank
    return placed.with_table(table, placed.options[table], tuple(ranks))


def _cut(search: _Search, current: _Current, pieces: _Pieces, source: int) -> Placed | None:
    """The best other cut of a table of which a rank holds a piece, or that all hold."""
    here = set(pieces.tables[pieces.ranks == source].tolist())
    here |= {
        table for table, option in enumerate(current.placed.options) if search.options.is_replicated(option)
    }
    found = [change for table in sorted(here) for change in _recuts(search, current, table)]
    if not found:
        return None
    states = np.stack([state for _, state, _ in found])
    reduced = np.array([reduced for *_, reduced in found])
    values = _values(search, time_states(search.problem, search.options, states, reduced), states)
    best = int(values.argmin())
    return found[best][0] if values[best] < current.value * (1 - _LEAST_GAIN) else None


def _recuts(search: _Search, current: _Current, table: int) -> Iterator[tuple[Placed, Floats, float]]:
    """Every other option of one table, its pieces on the ranks least busy without it."""
    problem, options = search.problem, search.options
    old, ranks = current.placed.options[table], list(current.placed.ranks[table])
    without, loads = current.state.copy(), _loads(search, current)
    row = options.rows[old]
    holders = ranks or list(range(problem.num_ranks))
    np.subtract.at(without, holders, row)
    np.subtract.at(loads, holders, options.seconds[old] + search.communication_loads(row[IN], row[OUT]))
    reduced = current.reduced - float(options.reduced_bytes[old])
    for option in options.of_table(table):
        if option == old:
            continue
        row = options.rows[option]
        has_room = without[:, MEMORY] + row[MEMORY] <= problem.memory_bytes
        if options.is_replicated(option):
            if has_room.all():
                state = without + row
                added = reduced + float(options.reduced_bytes[option])
                yield current.placed.with_table(table, option, ()), state, added
            continue
        chosen = least_loaded(loads, has_room, int(options.parts[option]))
        if chosen is None:
            continue
        state = without.copy()
        state[chosen] += row
        yield current.placed.with_table(table, option, tuple(chosen.tolist())), state, reduced
