"""Changes to a recorded program that need no prices: faster operations, free communication, CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import InputError, PlanError
from perfcast.ranges import Range, excerpt, read_number
from perfcast.traces.events import NONE, Category, Trace
from perfcast.traces.forecast.cuda_graphs import count_graphs, loading_seconds, with_graphs
from perfcast.traces.timeline.program import HostPiece, Overhead, RankProgram

#: Words for ``parse_what_if`` with what they do.
WORDS = (
    ("speed:NAME=K", "operators and kernels with NAME in their names K times faster"),
    ("host=K", "the host K times faster"),
    ("communication=K", "communication is K times faster"),
    ("overlap", "nothing waits for collectives"),
    ("graphs", "what the host launches between waits is one launch (CUDA graphs)"),
)


@dataclass(frozen=True)
class Changes:
    """What is changed.

    Attributes:
        speedups: (part of a name, factor) pairs.
        host_factor, communication_factor: How many times faster.
        overlap: Whether what waited for collectives goes on without.
        graphs: Whether what is launched between two waits is one graph.
    """

    speedups: tuple[tuple[str, float], ...] = ()
    host_factor: float = 1.0
    communication_factor: float = 1.0
    overlap: bool = False
    graphs: bool = False


def parse_what_if(texts: Iterable[str]) -> Changes:
    """Changes from words such as ``'speed:aten::addmm=2'``, ``'overlap'``, ``'graphs'``.

    Raises:
        PlanError: An unknown word, or a factor that is not above 0.
    """
    changes = Changes()
    for text in texts:
        word, _, factor = text.rpartition("=")
        if word.startswith("speed:") and word != "speed:":
            pair = (word.removeprefix("speed:"), _factor(text, factor))
            changes = replace(changes, speedups=(*changes.speedups, pair))
        elif word == "host":
            changes = replace(changes, host_factor=_factor(text, factor))
        elif word == "communication":
            changes = replace(changes, communication_factor=_factor(text, factor))
        elif text == "overlap":
            changes = replace(changes, overlap=True)
        elif text == "graphs":
            changes = replace(changes, graphs=True)
        else:
            known = "; ".join(f"{word}: {what}" for word, what in WORDS)
            raise PlanError(f"--what-if '{text}': unknown. Known: {known}")
    return changes


#: Times faster.
_FACTOR = Range(0, 1_000_000, is_above=True)


def _factor(text: str, factor: str) -> float:
    try:
        return read_number("", factor, _FACTOR)
    except InputError:
        raise PlanError(
            f"--what-if {excerpt(text)}: the factor must be a number {_FACTOR.words}, such as 2"
        ) from None


def apply_changes(
    changes: Changes, trace: Trace, parents: Integers, program: RankProgram
) -> tuple[RankProgram, frozenset[str]]:
    """The changed program, and the names of speed-ups that met a work or piece.

    Raises:
        PlanError: Graphs of a recording that launches nothing.
    """
    factors, met = _speed_factors(changes, trace, parents, program)
    program = program.with_work_seconds([w.seconds / f for w, f in zip(program.works, factors, strict=True)])
    if changes.communication_factor != 1:
        shorter = changes.communication_factor
        program = program.with_work_seconds(
            [w.seconds / shorter if w.collective else w.seconds for w in program.works]
        )
    pieces = program.pieces
    if trace.platform == "cpu":  # on a processor operators are the host's
        pieces, sped = _faster_operators(changes, trace, parents, pieces)
        met |= sped
    host = changes.host_factor
    program = replace(program, pieces=tuple(replace(piece, seconds=piece.seconds / host) for piece in pieces))
    if changes.overlap:
        program = _without_communication_waits(program)
    if changes.graphs:
        program = with_graphs(program, loading_seconds(trace, program))
    return program, frozenset(met)


def describe_changes(changes: Changes, program: RankProgram) -> list[str]:
    """What the changes take for granted, of a recorded program."""
    notes = []
    if changes.overlap:
        notes.append("overlap: whatever waited for a collective goes on without it, to the end of the step")
    if changes.graphs:
        steps = max(len(program.steps), 1)
        waits = count_graphs(program) / steps
        notes.append(
            f"CUDA graphs: {waits:.3g} a step, one for what each thread launches between two waits of the "
            "host; operators, gaps and launches in between cost the host nothing"
        )
    return notes


def describe_unmet(name: str, programs: Iterable[RankProgram]) -> str:
    """That nothing has a speed-up's name in its own, with what takes the most time."""
    seconds: dict[str, float] = {}
    for program in programs:
        for piece in program.pieces:
            if piece.overhead is Overhead.INSIDE:
                seconds[piece.key[0]] = seconds.get(piece.key[0], 0.0) + piece.seconds
        for work in program.works:
            seconds[work.name] = seconds.get(work.name, 0.0) + work.seconds
    close = get_close_matches(name, seconds, n=3)
    longest = close or sorted(seconds, key=lambda one: -seconds[one])[:3]
    head = "close names" if close else "the most time take"
    return (
        f"--what-if speed:{name}: nothing recorded has {name} in its name; {head}: "
        f"{', '.join(excerpt(one) for one in longest)}"
    )


def describe_host_changes(changes: Changes, *, is_host: bool) -> str:
    """What the changes make of host times, in words; nothing where they leave them.

    Args:
        is_host: Whether operators run on the host itself.
    """
    found = []
    if changes.speedups and is_host:
        found.append("shorter by the operators that are faster")
    if changes.host_factor != 1:
        found.append(f"divided by {changes.host_factor:g}")
    if changes.graphs:
        found.append("those of launches replaced by graphs")
    return " and ".join(found)


def _speed_factors(
    changes: Changes, trace: Trace, parents: Integers, program: RankProgram
) -> tuple[list[float], set[str]]:
    factors, met = [1.0] * len(program.works), set[str]()
    known: dict[int, str] = {}
    for index, work in enumerate(program.works):
        around = known.get(work.operator)
        if around is None:
            around = known[work.operator] = _names_around(trace, parents, work.operator)
        for name, factor in changes.speedups:
            if name in work.name or name in around:
                factors[index] *= factor
                met.add(name)
    return factors, met


def _names_around(trace: Trace, parents: Integers, row: int) -> str:
    """Names of an operator and of all that is around it, one a line."""
    names = []
    while row != NONE:
        names.append(trace.events.name(row))
        row = int(parents[row])
    return "\n".join(names)


def _faster_operators(
    changes: Changes, trace: Trace, parents: Integers, pieces: tuple[HostPiece, ...]
) -> tuple[tuple[HostPiece, ...], set[str]]:
    """Pieces, shorter by what faster operators in them save; and the names that are such operators'."""
    met, starts, ends = set[str](), trace.events.start_seconds, trace.events.end_seconds
    for name, factor in changes.speedups:
        inside = _seconds_inside(name, trace, parents, {piece.row for piece in pieces})
        result = []
        for piece in pieces:
            taken = inside.get(piece.row, 0.0) if piece.overhead is Overhead.INSIDE else 0.0
            if taken:
                whole = float(ends[piece.row] - starts[piece.row])
                part = min(taken / whole, 1.0)
                piece = replace(piece, seconds=piece.seconds * (1 - part + part / factor))
                met.add(name)
            result.append(piece)
        pieces = tuple(result)
    return pieces, met


def _seconds_inside(name: str, trace: Trace, parents: Integers, rows: set[int]) -> dict[int, float]:
    """By row of a set: seconds of the operators in it, or itself, with ``name`` in their names."""
    events, found = trace.events, dict[int, float]()
    codes = [code for code, text in enumerate(events.names) if name in text]
    chosen = np.isin(events.name_codes, codes) & events.is_in(Category.OPERATOR)
    for row in np.flatnonzero(chosen).tolist():
        around = row
        while around != NONE and around not in rows and not (around != row and chosen[around]):
            around = int(parents[around])
        is_counted_above = around != row and around != NONE and chosen[around]
        if around in rows and not is_counted_above:
            seconds = float(events.end_seconds[row] - events.start_seconds[row])
            found[around] = found.get(around, 0.0) + seconds
    return found


def _without_communication_waits(program: RankProgram) -> RankProgram:
    collectives = {index for index, work in enumerate(program.works) if work.collective}
    works = tuple(
        replace(w, awaits=tuple(a for a in w.awaits if a not in collectives)) if not w.collective else w
        for w in program.works
    )
    pieces = tuple(
        replace(p, awaits=tuple(a for a in p.awaits if a not in collectives)) if p.awaits else p
        for p in program.pieces
    )
    return replace(program, works=works, pieces=pieces)
