"""Makespans of pipeline schedules by formula.

Symbols: p stages, m micro-batches, v chunks a stage; f, b, w seconds of a stage's forward, gradients of
inputs and gradients of weights of one micro-batch (where a backward is run whole, w is part of b and 0
itself); g = f + b; t seconds of a message between neighbours, during which both compute on.

With equal stages and t = 0 (all equal to the simulation, which the tests check):

    GPipe, 1F1B     (m + p - 1) g                Huang et al. 2019; Narayanan et al., SC 2021, section 2.2.1
    interleaved     m g + (p - 1) g / v          Narayanan et al., SC 2021, section 2.2.2
    zero-bubble     m (g + w) + (p - 1)(g - w)   Qi et al., ICLR 2024, table 1 (ZB-H1); w ≤ f, b and m ≥ p
    DualPipe        (m - p - 1) x + (p + 1)(g + w) + (p / 2 - 1)(x + b - 2 w)
                                                 DeepSeek-AI: DualPipe, 2025 (its bubble); f = b, and x
                                                 seconds of a forward and a backward that are joined

For unequal stages, every stage s gives ways through the schedule that no order of events can beat: the fill
of the stages before it, its own work, what it must idle until the stages behind it have answered, and the
drain. The makespan is the longest of them. That is exact for equal stages and close to it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcast.simulate.schedule.dualpipe import check_dualpipe
from perfcast.simulate.schedule.interleaved import check_groups


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """Seconds of one micro-batch on each stage.

    Attributes:
        forward, backward: [stages] or, for interleaved schedules, [chunks · stages] in the order of the
        model.
            The backward is that of inputs alone where ``weight`` is not empty.
        weight: [stages], gradients of weights that are put off.
        joined: [stages], a forward and a whole backward side by side (DualPipe).
        message: Between neighbours.
    """

    forward: Sequence[float]
    backward: Sequence[float]
    weight: Sequence[float] = ()
    joined: Sequence[float] = ()
    message: float = 0.0

    @property
    def both(self) -> list[float]:
        """f + b of each."""
        return [f + b for f, b in zip(self.forward, self.backward, strict=True)]


def makespan(schedule: str, stages: StageSeconds, num_micro_batches: int, virtual: int = 1) -> float:
    """Seconds from the first forward to the last gradient.

    Raises:
        PlanError: Numbers for which the schedule does not exist.
    """
    if schedule == "interleaved":
        return _interleaved(stages, num_micro_batches, virtual)
    rules: dict[str, Callable[[StageSeconds, int], float]] = {
        "gpipe": _gpipe, "1f1b": _one_by_one, "zero_bubble": _one_by_one, "dualpipe": _dualpipe,
    }  # fmt: skip
    return rules[schedule](stages, num_micro_batches)


def forward_makespan(stages: StageSeconds, num_micro_batches: int, virtual: int = 1) -> float:
    """Of forwards alone.

    One chunk a stage: Σ f + (p - 1) t + (m - 1) max f, a flow shop of equal jobs. More: groups of p, so that
    the busiest stage works through m micro-batches after the fill of its first chunk and before the drain.
    """
    times, t = stages.forward, stages.message
    num_stages = len(times) // virtual
    if virtual == 1:
        return sum(times) + (num_stages - 1) * t + (num_micro_batches - 1) * max(max(times), t)
    ways = [
        sum(times[:s]) + num_micro_batches * sum(times[s::num_stages]) + sum(times[-num_stages:][s + 1 :])
        for s in range(num_stages)
    ]
    return max(max(ways) + (len(times) - 1) * t, sum(times) + (len(times) - 1) * t)


def _gpipe(stages: StageSeconds, num_micro_batches: int) -> float:
    """Two flow shops of equal jobs in a row: the last stage ends the first and starts the second."""
    f, b, t = stages.forward, stages.backward, stages.message
    longest = max(max(f), t) + max(max(b), t)
    return sum(f) + sum(b) + 2 * (len(f) - 1) * t + (num_micro_batches - 1) * longest


def _one_by_one(stages: StageSeconds, num_micro_batches: int) -> float:
    """1F1B, and with ``weight`` zero-bubble: the longest of two ways through every stage.

    Stage s has n = p - s - 1 stages behind it, which answer a forward after u = Σ g + 2 n t. Before its first
    backward it runs n more forwards, before its last n more backwards:

        fill + m (g + w) + max(0, u - n f) + max(0, u - n (b + w)) + drain

    It can also be its n + 1 micro-batches in flight that hold it up: each round of them takes g + u, and w
    for a put-off gradient in between, where s micro-batches have been answered before. What is put off at
    its last backward (s + 1 of them) is part of the drain.
    """
    f, b, both, t = stages.forward, stages.backward, stages.both, stages.message
    w = list(stages.weight) or [0.0] * len(f)
    num_stages, m = len(f), num_micro_batches
    longest = _gpipe(stages, m) + w[0] if m <= num_stages else 0.0
    for s in range(num_stages):
        behind = num_stages - s - 1
        if m - 1 <= behind:
            continue
        answer = sum(both[s + 1 :]) + 2 * behind * t
        rounds, rest = divmod(m - 1, behind + 1)
        put_off = min(s + 1, m)
        fill = sum(f[:s]) + s * t
        drain = max(put_off * w[s], sum(b[:s]) + s * t + w[0])
        idle = max(0.0, answer - behind * f[s]) + max(0.0, answer - behind * (b[s] + w[s]))
        busy = m * both[s] + (m - put_off) * w[s] + idle
        num_between = max(rounds + -max(s - rest, 0) // (behind + 1), 0)
        waits = (rounds + 1) * (both[s] + answer) + num_between * w[s]
        if rest:
            waits += sum(both[s : s + rest]) + 2 * (rest - 1) * t
        longest = max(longest, fill + max(busy, waits) + drain)
    return longest


def _interleaved(stages: StageSeconds, num_micro_batches: int, virtual: int) -> float:
    """Fill by the first chunks of the stages before, own work, drain by the last chunks of those behind.

    Messages are waited for once in every part of the model in the fill, and once in the drain.
    """
    both = stages.both
    num_stages = len(both) // virtual
    check_groups(num_stages, num_micro_batches)
    ways = [
        sum(both[:s]) + num_micro_batches * sum(both[s::num_stages]) + sum(both[-num_stages:][s + 1 :])
        for s in range(num_stages)
    ]
    return max(ways) + 2 * (len(both) - 1) * stages.message


def _dualpipe(stages: StageSeconds, num_micro_batches: int) -> float:
    """Every rank runs m micro-batches, half of them in each direction, through two parts of the model.

    m - p - 1 forwards of the middle ranks are joined to a backward (x seconds the pair), p + 1 are not. With
    equal ranks the bubble is the longer of two ways:

        (p / 2 - 1)(x + min(f, b) - 2 w)        (p / 2 - 1)(x + b - 2 w) - f

    A rank that is slower than the mean by f', b', w', x' is less idle by its work beside the others' way:

        p f' + p / 2 (b' + w') + (p - 2) x'     f' + (p - 2)(b' + x') + (p - 1) w'

    The parts of a rank are the mean of its two. As a pair sends when it has ended, messages hold up most of
    them: the simulation waits for 2 m (p - 1) / p + max(p - 5, -1) of them on its longest way.

    Raises:
        PlanError: The schedule does not exist for these numbers.
    """
    num_stages, m = len(stages.forward), num_micro_batches
    check_dualpipe(num_stages, m)
    weight = stages.weight or [0.0] * num_stages

    def of_rank(seconds: Sequence[float]) -> list[float]:
        return [(a + b) / 2 for a, b in zip(seconds, reversed(seconds), strict=True)]

    columns = [of_rank(c) for c in (stages.forward, stages.backward, weight, stages.joined)]
    means = [sum(column) / num_stages for column in columns]
    longest = 0.0
    for rank in zip(*columns, strict=True):
        f, b, w, x = rank
        bubble = _dual_bubble(num_stages, means, [own - mean for own, mean in zip(rank, means, strict=True)])
        longest = max(longest, (m - num_stages - 1) * x + (num_stages + 1) * (f + b + w) + bubble)
    num_messages = 2 * m * (num_stages - 1) / num_stages + max(num_stages - 5, -1)
    return longest + num_messages * stages.message


def _dual_bubble(num_stages: int, means: Sequence[float], slower: Sequence[float]) -> float:
    """Of a rank; ``means`` are f, b, w and x of all ranks, ``slower`` by what its own are longer."""
    (f, b, w, x), (df, db, dw, dx), p = means, slower, num_stages
    first = (p / 2 - 1) * (x + min(f, b) - 2 * w) - p * df - p / 2 * (db + dw) - (p - 2) * dx
    second = (p / 2 - 1) * (x + b - 2 * w) - f - df - (p - 2) * (db + dx) - (p - 1) * dw
    return max(first, second, 0.0)
