"""Makespans of pipeline schedules by formula, for n plans at once.

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

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.plan import Schedule
from perfcast.simulate.closed_form.short_pipeline import short_makespans
from perfcast.simulate.schedule.dualpipe import check_dualpipe
from perfcast.simulate.schedule.interleaved import check_groups


@dataclass(frozen=True, eq=False)
class StageSeconds:
    """Seconds of one micro-batch on each stage.

    Attributes:
        forward, backward: [stages, n] or, for interleaved schedules, [chunks · stages, n] in the order of the
            model. The backward is that of inputs alone where ``weight`` is not None.
        weight: [stages, n], gradients of weights that are put off.
        joined: [stages, n], a forward and a whole backward side by side ('dualpipe').
    """

    forward: Floats
    backward: Floats
    weight: Floats | None = None
    joined: Floats | None = None


def makespans(
    schedule: Schedule,
    stages: StageSeconds,
    num_micro_batches: Integers,
    message_seconds: Floats,
    virtual: int = 1,
) -> Floats:
    """Seconds from the first forward to the last gradient, shape [n].

    Raises:
        PlanError: Numbers for which the schedule does not exist.
    """
    match schedule:
        case "interleaved":
            return _interleaved(stages, num_micro_batches, message_seconds, virtual)
        case "gpipe":
            return _gpipe(stages, num_micro_batches, message_seconds)
        case "dualpipe":
            return _dualpipe(stages, num_micro_batches, message_seconds)
        case _:
            return _one_by_one(stages, num_micro_batches, message_seconds)


def forward_makespans(f: Floats, m: Integers, t: Floats, virtual: int = 1) -> Floats:
    """Seconds of forwards alone, shape [n]; arguments as ``makespans`` takes them.

    One chunk a stage: Σ f + (p - 1) t + (m - 1) max f, a flow shop of equal jobs. More: groups of p, so that
    the busiest stage works through m micro-batches after the fill of its first chunk and before the drain.
    """
    messages = (len(f) - 1) * t
    through: Floats = f.sum(axis=0) + messages
    if virtual == 1:
        return np.asarray(through + (m - 1) * np.maximum(f.max(axis=0), t), dtype=np.float64)
    return np.maximum(_busiest(f, m, virtual) + messages, through)


def sums_before(rows: Floats) -> Floats:
    """Sum of the rows above each, shape as given.

    >>> sums_before(np.array([[1.0], [2.0], [4.0]])).ravel().tolist()
    [0.0, 1.0, 3.0]
    """
    found = np.zeros_like(rows)
    for at in range(1, len(rows)):
        np.add(found[at - 1], rows[at - 1], out=found[at])
    return found


def sums_behind(rows: Floats) -> Floats:
    """Sum of the rows below each, shape as given."""
    found: Floats = sums_before(rows[::-1])[::-1]
    return found


def _busiest(parts: Floats, m: Integers, virtual: int) -> Floats:
    """Fill by the first chunks of the stages before, m times a stage's own chunks, drain by the last chunks
    of those behind: the longest of all stages, shape [n]."""
    num_stages = len(parts) // virtual
    own = parts.reshape(virtual, num_stages, -1).sum(axis=0)
    ways = sums_before(parts[:num_stages]) + m * own + sums_behind(parts[-num_stages:])
    return np.asarray(ways.max(axis=0), dtype=np.float64)


def _gpipe(stages: StageSeconds, m: Integers, t: Floats) -> Floats:
    """Two flow shops of equal jobs in a row: the last stage ends the first and starts the second."""
    f, b = stages.forward, stages.backward
    longest = np.maximum(f.max(axis=0), t) + np.maximum(b.max(axis=0), t)
    found: Floats = f.sum(axis=0) + b.sum(axis=0) + 2 * (len(f) - 1) * t + (m - 1) * longest
    return found


def _one_by_one(stages: StageSeconds, m: Integers, t: Floats) -> Floats:
    """1F1B, and with ``weight`` zero-bubble: the longest of two ways through every stage.

    Stage s has n = p - s - 1 stages behind it, which answer a forward after u = Σ g + 2 n t. Before its first
    backward it runs n more forwards, before its last n more backwards:

        fill + m (g + w) + max(0, u - n f) + max(0, u - n (b + w)) + drain

    1F1B of no more micro-batches than stages is followed pass by pass (``short_pipeline``).
    It can also be its n + 1 micro-batches in flight that hold it up (``_rounds``). What is put off at its
    last backward (s + 1 gradients of weights) is part of the drain.
    """
    f, b = stages.forward, stages.backward
    w = np.zeros_like(f) if stages.weight is None else stages.weight
    both, num_stages = f + b, len(f)
    place = np.arange(num_stages)[:, None]
    after = num_stages - 1 - place
    answer = sums_behind(both) + 2 * after * t
    put_off = np.minimum(place + 1, m)
    drain = np.maximum(put_off * w, sums_before(b) + place * t + w[0])
    idle = np.maximum(answer - after * f, 0.0) + np.maximum(answer - after * (b + w), 0.0)
    busy = m * both + (m - put_off) * w + idle
    ways = sums_before(f) + place * t + np.maximum(busy, _rounds(both, w, answer, m, t)) + drain
    longest = np.asarray(np.where(m - 1 > after, ways, 0.0).max(axis=0), dtype=np.float64)
    is_short = np.broadcast_to(m <= num_stages, longest.shape)
    if not is_short.any():
        return longest
    if stages.weight is not None:
        return np.where(is_short, np.maximum(longest, _gpipe(stages, m, t) + w[0]), longest)
    counts = np.broadcast_to(m, longest.shape)[is_short]
    messages = np.broadcast_to(t, longest.shape)[is_short]
    longest[is_short] = short_makespans(f[:, is_short], b[:, is_short], counts, messages)
    return longest


def _rounds(both: Floats, w: Floats, answer: Floats, m: Integers, t: Floats) -> Floats:
    """What a stage's rounds of n + 1 micro-batches in flight take, each held up by the answer.

    Each takes g + u, and w for a put-off gradient in between, where s micro-batches have been answered
    before.
    """
    num_stages = len(both)
    place = np.arange(num_stages)[:, None]
    rounds, rest = np.divmod(m - 1, num_stages - place)
    num_between = np.maximum(rounds + -np.maximum(place - rest, 0) // (num_stages - place), 0)
    sums = np.vstack([sums_before(both), both.sum(axis=0)[None, :]])
    upto = np.take_along_axis(sums, place + rest, axis=0)
    further = np.where(rest > 0, upto - sums[:-1] + 2 * (rest - 1) * t, 0.0)
    found: Floats = (rounds + 1) * (both + answer) + num_between * w + further
    return found


def _interleaved(stages: StageSeconds, m: Integers, t: Floats, virtual: int) -> Floats:
    """Messages are waited for once in every part of the model in the fill, and once in the drain."""
    both = stages.forward + stages.backward
    num_stages = len(both) // virtual
    for at in np.flatnonzero(m % num_stages)[:1].tolist():
        check_groups(num_stages, int(m[at]))
    found: Floats = _busiest(both, m, virtual) + 2 * (len(both) - 1) * t
    return found


def _dualpipe(stages: StageSeconds, m: Integers, t: Floats) -> Floats:
    """Every rank runs m micro-batches, half of them in each direction, through two parts of the model.

    m - p - 1 forwards of the middle ranks are joined to a backward (x seconds the pair), p + 1 are not. With
    equal ranks the bubble is the longer of two ways:

        (p / 2 - 1)(x + min(f, b) - 2 w)        (p / 2 - 1)(x + b - 2 w) - f

    A rank that is slower than the mean by f', b', w', x' is less idle by its work beside the others' way:

        p f' + p / 2 (b' + w') + (p - 2) x'     f' + (p - 2)(b' + x') + (p - 1) w'

    The parts of a rank are the mean of its two. As a pair sends when it has ended, messages hold up most of
    them: the simulation waits for 2 m (p - 1) / p + max(p - 5, -1) of them on its longest way.
    """
    p = len(stages.forward)
    for at in np.flatnonzero((m % 2 != 0) | (m < 2 * p) | (p % 2 != 0))[:1].tolist():
        check_dualpipe(p, int(m[at]))
    weight = np.zeros_like(stages.forward) if stages.weight is None else stages.weight
    joined = np.zeros_like(stages.forward) if stages.joined is None else stages.joined
    f, b, w, x = ((a + a[::-1]) / 2 for a in (stages.forward, stages.backward, weight, joined))
    mean_f, mean_b, mean_w, mean_x = (a.mean(axis=0) for a in (f, b, w, x))
    df, db, dw, dx = f - mean_f, b - mean_b, w - mean_w, x - mean_x
    first = (p / 2 - 1) * (mean_x + np.minimum(mean_f, mean_b) - 2 * mean_w)
    first = first - p * df - p / 2 * (db + dw) - (p - 2) * dx
    second = (p / 2 - 1) * (mean_x + mean_b - 2 * mean_w) - mean_f
    second = second - df - (p - 2) * (db + dx) - (p - 1) * dw
    bubble = np.maximum(np.maximum(first, second), 0.0)
    longest = ((m - p - 1) * x + (p + 1) * (f + b + w) + bubble).max(axis=0)
    num_messages = 2 * m * (p - 1) / p + max(p - 5, -1)
    found: Floats = np.maximum(longest, 0.0) + num_messages * t
    return found
