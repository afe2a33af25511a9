"""What the first recorded step pays for the profiler's start, and no other step does.

A profiler that begins with a step still has to begin on each thread: the gap behind the first step's mark,
and the gap before the first operator of a thread that recorded nothing before, hold that besides the
program's own time. Later steps have the same gaps without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from perfcast.traces.events import NONE, Trace
from perfcast.traces.timeline.program import Overhead, RankProgram
from perfcast.units import MICRO

#: Less is no start: the clock of a recording.
CLOCK_SECONDS = 1e-3 * MICRO
#: Thread of the host, operators around it, and how often such a gap came before in its step.
_Gap = tuple[int, tuple[str, ...], int]


def startup_pieces(trace: Trace, program: RankProgram) -> tuple[int, ...]:
    """Gaps that hold a start of the profiler; none where the recording's first step is not in the program."""
    if not trace.steps or not program.steps or program.steps[0].number != trace.steps[0].number:
        return ()
    threads = trace.events.threads
    found: list[int] = []
    met: set[int] = set()
    gap = -1
    for index, piece in enumerate(program.pieces):
        if piece.step:
            continue
        if piece.overhead is Overhead.BETWEEN:
            gap = index
        elif piece.row != NONE and gap >= 0:
            thread = int(threads[piece.row])
            if thread not in met:
                met.add(thread)
                found.append(gap)
            gap = -1
    return tuple(found)


def without_startup(trace: Trace, program: RankProgram, others: Sequence[RankProgram] = ()) -> RankProgram:
    """The program with those gaps as long as the same gaps of other steps, where there are any.

    Gaps are the same where they lie between the same two operators, equally often before in their step.

    Args:
        others: Programs of other steps of this rank, beside the program's own later ones.
    """
    starts = set(startup_pieces(trace, program))
    if not starts:
        return program
    known: dict[_Gap, list[float]] = {}
    for other in others:
        for index, gap in _gaps(other).items():
            known.setdefault(gap, []).append(other.pieces[index].seconds)
    pieces, own = list(program.pieces), _gaps(program)
    for index, gap in own.items():
        if pieces[index].step:
            known.setdefault(gap, []).append(pieces[index].seconds)
    for index in starts:
        usual = fmean(known[own[index]]) if own[index] in known else pieces[index].seconds
        if usual < pieces[index].seconds - CLOCK_SECONDS:
            pieces[index] = replace(pieces[index], seconds=usual)
    return replace(program, pieces=tuple(pieces))


def _gaps(program: RankProgram) -> dict[int, _Gap]:
    """What each gap between operators is, by the index of its piece."""
    counts: Counter[tuple[int, tuple[str, ...], int]] = Counter()
    found = {}
    for index, piece in enumerate(program.pieces):
        if piece.overhead is Overhead.BETWEEN:
            of_step = (piece.chain, piece.key, piece.step)
            found[index] = (piece.chain, piece.key, counts[of_step])
            counts[of_step] += 1
    return found
