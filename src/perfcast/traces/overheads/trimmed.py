"""Host overheads by the recipe of Lin et al. (TPDS 2024; its published code), for comparison.

One mean of T1 for all pairs of operators, of gaps between 2 and 200 µs; T2, T3 and T5 by operator; T4 a
constant; what lies outside [Q1 − 1.5·IQR, Q3 + 1.5·IQR] is dropped. The cost of a profiled event is
taken off where the caller says so. Most of T1's time lies in what is dropped, so forecasts come
out too short.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.errors import CalibrationError
from perfcast.traces.overheads.profile import Key, OverheadMean, OverheadProfile
from perfcast.traces.timeline.program import HostPiece, Overhead, RankProgram
from perfcast.units import MICRO

#: Gaps between operators that count, and T4: 10 µs of a launch without 2 and 4 µs of the profiler's.
SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS, LAUNCH_SECONDS = 2 * MICRO, 200 * MICRO, 4 * MICRO
#: What a host event costs while it is profiled.
PROFILER_EVENT_SECONDS = 2 * MICRO


def fit_trimmed_overheads(
    programs: Sequence[RankProgram], *, profiler_event_seconds: float = 0.0
) -> OverheadProfile:
    """The published recipe's profile.

    Args:
        profiler_event_seconds: Taken off every example: ``PROFILER_EVENT_SECONDS`` to forecast a run without
            a profiler, 0 to forecast a profiled one.

    Raises:
        CalibrationError: No recording.
    """
    pieces = [piece for program in programs for piece in program.pieces if piece.chain == 0]
    if not pieces:
        raise CalibrationError("host overheads need at least one recorded step")
    means: dict[Overhead, dict[Key, OverheadMean]] = {
        Overhead.CALL: {(): OverheadMean(LAUNCH_SECONDS, 0.0, 1)}
    }
    gaps = [
        p.seconds
        for p in pieces
        if p.overhead is Overhead.BETWEEN and SHORTEST_GAP_SECONDS < p.seconds < LONGEST_GAP_SECONDS
    ]
    means[Overhead.BETWEEN] = {(): _mean(gaps, profiler_event_seconds)} if gaps else {}
    for overhead in (Overhead.BEFORE, Overhead.AFTER, Overhead.INSIDE):
        means[overhead] = _by_operator(pieces, overhead, profiler_event_seconds)
    return OverheadProfile("", "", means, dict.fromkeys(Overhead, 0.0), dict.fromkeys(Overhead, 1.0))


def _by_operator(
    pieces: Sequence[HostPiece], overhead: Overhead, profiler_event_seconds: float
) -> dict[Key, OverheadMean]:
    examples: dict[Key, list[float]] = {}
    for piece in pieces:
        if piece.overhead is overhead:
            examples.setdefault(piece.key, []).append(piece.seconds)
            examples.setdefault((), []).append(piece.seconds)
    return {key: _mean(seconds, profiler_event_seconds) for key, seconds in examples.items()}


def _mean(seconds: Sequence[float], profiler_event_seconds: float) -> OverheadMean:
    """Mean of what the quartiles keep; negative examples count as nothing."""
    values = np.maximum(np.asarray(seconds, dtype=np.float64) - profiler_event_seconds, 0.0)
    first, third = np.percentile(values, [25, 75])
    room = 1.5 * (third - first)
    kept = values[(values >= first - room) & (values <= third + room)]
    return OverheadMean(float(kept.mean()), float(kept.std()), len(kept))
