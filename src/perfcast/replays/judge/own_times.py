"""What a replay's calls take by themselves, and how long the host has to be kept busy beside that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perfcast.replays.build.call_times import (
    CallTimeline,
    CallTimes,
    median_times,
)
from perfcast.replays.judge.profiling import profile_calls
from perfcast.replays.play.player import Player
from perfcast.traces.events import NONE, Trace
from perfcast.traces.link.align import align
from perfcast.traces.link.kernels import outermost_operators
from perfcast.units import MICRO

#: Repetitions without and with the profiler take turns, so that a machine's changes of speed meet both.
_TURNS, _PLAIN, _WATCHED = 5, 8, 3
#: Beyond which a turn has fewer unwatched repetitions.
_TURN_SECONDS = 20.0
#: Calls below are too short to tell how fast a host is.
_LEAST_SECONDS = 10 * MICRO
#: Gaps below are not worth a spin, which costs about a third of it by itself.
_LEAST_GAP_SECONDS = 0.5 * MICRO


@dataclass(frozen=True)
class OwnTimes:
    """The calls of a replay without added gaps, as watched.

    ``turns``: the calls' seconds as watched, and all processor seconds when nobody watched right before.
    """

    calls: CallTimes
    turns: tuple[tuple[tuple[float, ...], float], ...]


def own_times(player: Player, *, is_observed: bool, label_seconds: float) -> OwnTimes:
    """The own times of a rehearsed program, watched in the way in which the original was.

    What watching costs is then in both and falls out of the difference.
    """
    player.set_gaps(())
    turns = []
    watched: list[CallTimes] = []
    for _ in range(_TURNS):
        plain = median(player.run(_PLAIN, warm_up=2, max_seconds=_TURN_SECONDS).processor_seconds)
        trace = profile_calls(player.play, _WATCHED, is_observed=is_observed)
        watched += _timed_steps(player, trace, label_seconds)
        turns.append((median_times(watched[-_WATCHED:]).seconds, plain))
    return OwnTimes(median_times(watched), tuple(turns))


def timed_calls(player: Player, trace: Trace, label_seconds: float) -> CallTimes:
    """Times of a replay's calls by its own timeline, medians of its repetitions."""
    return median_times(_timed_steps(player, trace, label_seconds))


def _timed_steps(player: Player, trace: Trace, label_seconds: float) -> list[CallTimes]:
    rows = rows_of_calls(player, trace)
    timeline = CallTimeline(trace, label_seconds)
    calls = player.program.calls
    return [
        timeline.times(calls, placed, (step.start_seconds, step.end_seconds))
        for step, placed in zip(trace.steps, rows, strict=True)
    ]


def rows_of_calls(player: Player, trace: Trace) -> list[list[int]]:
    """The event of each call (``NONE``: not found) in each marked step of a replay's own timeline."""
    events, expected = trace.events, player.expected_events()
    wanted = [name for name, _ in expected]
    outermost = outermost_operators(events)
    starts = events.start_seconds[outermost]
    steps = []
    for step in trace.steps:
        rows = outermost[(starts >= step.start_seconds) & (starts < step.end_seconds)].tolist()
        placed = [NONE] * len(player.program.calls)
        for a, b in align(wanted, [events.name(row) for row in rows]):
            if expected[a][1] != NONE:
                placed[expected[a][1]] = rows[b]
        steps.append(placed)
    return steps


def relative_seconds(recorded: Sequence[float], own: Sequence[float]) -> float:
    """How much longer calls took in the recording than they take here: its host was slower where above 1.

    The median of the calls' ratios, weighted by their seconds here; only calls that last long enough for
    the clock. 1 where there are none.
    """
    known = sorted(
        (one / other, other)
        for one, other in zip(recorded, own, strict=True)
        if one > _LEAST_SECONDS and other > _LEAST_SECONDS
    )
    half = sum(weight for _, weight in known) / 2
    for ratio, weight in known:
        half -= weight
        if half <= 0:
            return ratio
    return 1.0


def spins(
    gaps_seconds: Sequence[float], own_gaps_seconds: Sequence[float], relative: float = 1.0
) -> tuple[float, ...]:
    """How long the host is kept busy before each call, beside what the replay itself takes there.

    Where the replay takes longer than the recorded gap, the next gaps are shortened until that is made up.

    Args:
        relative: The recorded gaps are divided by it (``relative_seconds``); 1: as recorded.
    """
    found = []
    debt = 0.0
    for gap, own in zip(gaps_seconds, own_gaps_seconds, strict=True):
        wanted = _known(gap) / relative - _known(own) - debt
        found.append(max(wanted, 0.0))
        debt = max(-wanted, 0.0)
    return tuple(found)


def spread(weights: Sequence[float], total_seconds: float) -> tuple[float, ...]:
    """Spins that last ``total_seconds`` together, in proportion to weights; none too short to be one."""
    kept = [weight if weight >= _LEAST_GAP_SECONDS else 0.0 for weight in weights]
    share = max(total_seconds, 0.0) / (sum(kept) or math.inf)
    return tuple(weight * share for weight in kept)


def _known(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else seconds
