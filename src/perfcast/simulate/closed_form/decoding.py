"""A round of decoding by formula: what ``simulate.inference`` plays, without events.

A replica's sequences travel through its stages in m micro-batches, each of which starts its next token when
its last has left the last stage: m equal jobs on machines in a row, fed back. A round takes the longest mean
cycle, of one micro-batch through all stages or of all micro-batches on one stage (Baccelli et al.:
Synchronization and Linearity, 1992, section 2.1):

    one token of each = max(latency, m · slowest stage)
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.plan import RankTime, StepTime

_WAITING = ("bubble", "straggler")


def round_of_micro_batches(once: StepTime, num_micro_batches: int) -> StepTime:
    """From one token to the next of several micro-batches.

    Args:
        once: Of one micro-batch on its way through all stages.

    >>> stages = [RankTime(0, 0, 1, {"compute": 2.0}), RankTime(1, 1, 1, {"compute": 3.0})]
    >>> [round_of_micro_batches(StepTime(5.0, tuple(stages)), m).step_seconds for m in (1, 2)]
    [5.0, 6.0]
    """
    busy = [_own(rank) for rank in once.ranks]
    most = max(sum(own.values()) for own in busy)
    seconds = max(once.step_seconds, num_micro_batches * most)
    ranks = []
    for rank, own in zip(once.ranks, busy, strict=True):
        causes = {cause: num_micro_batches * each for cause, each in own.items()}
        waits = seconds - sum(causes.values())
        ranks.append(replace(rank, seconds_by_cause={**causes, "bubble": waits} if waits > 0 else causes))
    return replace(once, step_seconds=seconds, ranks=tuple(ranks))


def _own(rank: RankTime) -> dict[str, float]:
    return {cause: seconds for cause, seconds in rank.seconds_by_cause.items() if cause not in _WAITING}
