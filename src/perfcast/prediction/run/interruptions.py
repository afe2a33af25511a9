"""A run that is interrupted at random and goes on from its last checkpoint, in closed form.

    M   mean time between interruptions; they follow a Poisson process
    δ   time that one checkpoint takes from the run;  τ  work between two checkpoints;  w = τ + δ
    R   a restart; it too may be interrupted

A segment is τ of work and its checkpoint. It takes w if nothing happens for so long (probability exp(-w/M));
else what was done of it is lost, a restart follows, and it begins anew. Hence its mean is

    E = M · exp(R/M) · (exp(w/M) - 1)

(Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future Generation
Computer Systems 22, 2006, section 3), and its second moment follows from the same recursion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfcast.errors import PlanError

#: exp() of more than this many mean times: such a run does not end.
_MOST_MEAN_TIMES = 50.0


@dataclass(frozen=True, slots=True)
class Segment:
    """Work between two checkpoints, and what becomes of it; means over all that can happen.

    Attributes:
        seconds, variance: Of the whole: work, checkpoint, lost work and restarts (variance in seconds²).
        lost_seconds: Work and checkpoints that are done again.
        restart_seconds: Of restarts, interrupted ones included.
        num_interruptions: That it meets.
    """

    seconds: float
    variance: float
    lost_seconds: float
    restart_seconds: float
    num_interruptions: float


def young_interval_seconds(checkpoint_seconds: float, between_seconds: float) -> float:
    """√(2 · δ · M) (Young, A first order approximation to the optimum checkpoint interval, CACM 17, 1974)."""
    return math.sqrt(2.0 * checkpoint_seconds * between_seconds)


def daly_interval_seconds(checkpoint_seconds: float, between_seconds: float) -> float:
    """√(2δM) · (1 + √(δ/2M)/3 + (δ/2M)/9) - δ for δ < 2M, else M (Daly 2006, equation 37)."""
    if checkpoint_seconds >= 2.0 * between_seconds:
        return between_seconds
    share = checkpoint_seconds / (2.0 * between_seconds)
    return (
        young_interval_seconds(checkpoint_seconds, between_seconds)
        * (1.0 + math.sqrt(share) / 3.0 + share / 9.0)
        - checkpoint_seconds
    )


def expect_segment(
    work_seconds: float, checkpoint_seconds: float, restart_seconds: float, between_seconds: float
) -> Segment:
    """A segment as it goes on average.

    Args:
        between_seconds: Mean time between interruptions; infinite for none.

    Raises:
        PlanError: So many interruptions that the run would not end.
    """
    whole = work_seconds + checkpoint_seconds
    if math.isinf(between_seconds):
        return Segment(whole, 0.0, 0.0, 0.0, 0.0)
    if max(whole, restart_seconds) > _MOST_MEAN_TIMES * between_seconds:
        raise PlanError(
            f"an interruption every {between_seconds:.3g} s, while work, checkpoint and restart take "
            f"{whole:.3g} and {restart_seconds:.3g} s undisturbed: such a run does not end. Checkpoint more "
            "often (--checkpoint-interval) or faster (--checkpoint-bandwidth)"
        )
    failures = math.expm1(whole / between_seconds)
    restart = between_seconds * math.expm1(restart_seconds / between_seconds)
    seconds = (between_seconds + restart) * failures
    return Segment(
        seconds=seconds,
        variance=_variance(whole, restart_seconds, between_seconds),
        lost_seconds=between_seconds * failures - whole,
        restart_seconds=restart * failures,
        num_interruptions=seconds / between_seconds,
    )


def _variance(whole: float, restart: float, between: float) -> float:
    """Of a segment's seconds: its second moment less its mean squared.

    With X the time to the next interruption, D all of a restart, T the segment:
    E[T²] · p = p · w² + E[X²; X<w] + q · E[D²] + 2 · E[X; X<w] · (E[D] + E[T]) + 2 · q · E[D] · E[T],
    p = exp(-w/M), q = 1 - p; and E[D²] alike, without a further restart between.
    """
    restart_mean, restart_square = _repeated(restart, between, 0.0, 0.0)
    mean, square = _repeated(whole, between, restart_mean, restart_square)
    return max(0.0, square - mean * mean)


def _repeated(need: float, between: float, pause: float, pause_square: float) -> tuple[float, float]:
    """First two moments of the time until ``need`` seconds pass undisturbed, a pause after each failure."""
    success = math.exp(-need / between)
    failure = -math.expm1(-need / between)
    tried = between * failure - need * success
    tried_square = 2.0 * between * tried - need * need * success
    mean = (need * success + tried + failure * pause) / success
    square = (
        need * need * success
        + tried_square
        + failure * (pause_square + 2.0 * pause * mean)
        + 2.0 * tried * (pause + mean)
    ) / success
    return mean, square
