"""Where each stage's time went, read from a played program."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.simulate.engine import Played
from perfcast.simulate.pipeline.build import Built, Piece

#: What waiting for the end of a task counts as, while that task runs and before.
WAITS = {
    "send": ("pipeline", "bubble"),
    "gather": ("data", "data"),
    "gradient_reduction": ("data", "data"),
    "host": ("host", "host"),
}
#: Times closer than this share differ by rounding alone.
SAME = 1e-12


def seconds_by_cause(built: Built, played: Played) -> list[dict[str, float]]:
    """Of each stage; they add up to the step.

    A compute task's time goes to its causes, and what communication beside it slows it down to 'data'. The
    time before it goes to what it waited for, of several in the order in which they ended; the rest, and the
    time until the last stage has ended, is bubble.
    """
    starts, ends = played.starts.tolist(), played.ends.tolist()
    makespan = ends[built.last_task(played)]
    return [
        _of_stage(pieces, _kinds(built, stage), built.awaited, starts, ends, makespan)
        for stage, pieces in enumerate(built.pieces)
    ]


def _kinds(built: Built, stage: int) -> dict[int, str]:
    """Kinds of tasks of other streams. What a stage awaits of other stages are messages, or their compute."""
    kinds = {side.task: side.kind for side in built.sides[stage]}
    return kinds | {side.task: "send" for row in built.sides for side in row if side.kind == "send"}


def _of_stage(
    pieces: Sequence[Piece],
    kinds: dict[int, str],
    awaited: dict[int, list[int]],
    starts: Sequence[float],
    ends: Sequence[float],
    makespan: float,
) -> dict[str, float]:
    found: dict[str, float] = {}
    clock = 0.0

    def add(cause: str, until: float) -> None:
        nonlocal clock
        if until > clock:
            found[cause] = found.get(cause, 0.0) + until - clock
            clock = until

    for piece in pieces:
        start, end = starts[piece.task], ends[piece.task]
        if start > clock:
            for task in sorted(awaited.get(piece.task, ()), key=lambda t: (ends[t], t)):
                while_running, before = WAITS.get(kinds.get(task, ""), ("bubble", "bubble"))
                add(before, min(starts[task], start))
                add(while_running, min(ends[task], start))
            add("bubble", start)
        _share_out(piece, end - start, found)
        clock = end
    add("bubble", makespan)
    return found


def _share_out(piece: Piece, seconds: float, found: dict[str, float]) -> None:
    """Add a task's causes; they add up to its own time, and what it took longer is the data stream's."""
    for cause, value in piece.time.seconds_by_cause.items():
        found[cause] = found.get(cause, 0.0) + value
    longer = seconds - piece.time.seconds
    if longer > SAME * seconds and piece.time.seconds:
        found["data"] = found.get("data", 0.0) + longer
