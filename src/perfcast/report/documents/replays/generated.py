"""What is said of a benchmark that was written and played once."""

from __future__ import annotations

from collections.abc import Iterator

from perfcast.replays.generate.fresh import FreshPlay
from perfcast.replays.generate.generate import Generated
from perfcast.units import format_seconds

#: Operators left out that are named; of more, their number.
_NAMED = 8


def generated_lines(made: Generated, play: FreshPlay) -> Iterator[str]:
    """Where it lies, how its first play went, and which calls of the recording it does not have."""
    yield f"wrote {made.folder}"
    yield _play_line(play)
    yield from _left_out_lines(made)


def _play_line(play: FreshPlay) -> str:
    ranks = f"{play.num_ranks} ranks" if play.num_ranks > 1 else "one process"
    where = f"in a fresh start of {ranks} with PyTorch alone"
    if play.is_alone:
        where += ", one rank without its collectives"
    match play.state:
        case "not played":
            return f"not played: {play.reason}"
        case "failed":
            return f"played {where}: failed: {play.reason}"
        case "ran":
            took = f", {format_seconds(play.seconds)} a step, cold" if play.seconds is not None else ""
            return f"played {where}: ran{took}"


def _left_out_lines(made: Generated) -> Iterator[str]:
    skipped = [one for one in made.manifest["skipped"] if not one["is_harmless"]]
    lost = sum(one["count"] for one in skipped)
    total = made.manifest["num_operators"] + lost
    yield f"calls of the recording: {total - lost} of {total}" + (", left out:" if lost else "")
    for one in skipped[:_NAMED]:
        yield f"  {one['count']} × {one['operator']}: {one['reason']}"
    yield from (f"  {words}" for words in made.manifest["rebuilt"])
    if len(skipped) > _NAMED:
        yield f"  and {len(skipped) - _NAMED} more (manifest.json)"
