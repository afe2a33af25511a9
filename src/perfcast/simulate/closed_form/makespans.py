"""``simulate.closed_form.makespan`` for many plans at once: the same formulas, on arrays.

Symbols as there: p stages, m micro-batches, v chunks; f, b, w seconds of a forward, of gradients of inputs
and of those of weights; t of a message. Arrays of stages have shape [p, n] or [v p, n] for n plans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class StageColumns:
    """Seconds of one micro-batch on each stage.

    Attributes:
        forward, backward: [stages, n] or [chunks · stages, n]; the backward is that of inputs alone where
            ``weight`` is not None.
        weight: [stages, n], gradients of weights that are put off.
        joined: [stages, n], a forward and a whole backward side by side ('dualpipe').
    """

    forward: Floats
    backward: Floats
    weight: Floats | None = None
    joined: Floats | None = None


def makespans(
    schedule: str, stages: StageColumns, num_micro_batches: Integers, message: Floats, virtual: int = 1
) -> Floats:
    """Seconds from the first forward to the last gradient, shape [n]."""
    if schedule == "interleaved":
        return _interleaved(stages, num_micro_batches, message, virtual)
    if schedule == "gpipe":
        return _gpipe(stages, num_micro_batches, message)
    if schedule == "dualpipe":
        return _dualpipe(stages, num_micro_batches, message)
    return _one_by_one(stages, num_micro_batches, message)


def before(rows: Floats) -> Floats:
    """Sum of the rows above each, shape as given."""
    found = np.zeros_like(rows)
    for at in range(1, len(rows)):
        np.add(found[at - 1], rows[at - 1], out=found[at])
    return found


def behind(rows: Floats) -> Floats:
    """Sum of the rows below each."""
    found: Floats = before(rows[::-1])[::-1]
    return found


def _gpipe(stages: StageColumns, m: Integers, t: Floats) -> Floats:
    f, b = stages.forward, stages.backward
    longest = np.maximum(f.max(axis=0), t) + np.maximum(b.max(axis=0), t)
    found: Floats = f.sum(axis=0) + b.sum(axis=0) + 2 * (len(f) - 1) * t + (m - 1) * longest
    return found


def _one_by_one(stages: StageColumns, m: Integers, t: Floats) -> Floats:
    f, b = stages.forward, stages.backward
    w = np.zeros_like(f) if stages.weight is None else stages.weight
    both, num_stages = f + b, len(f)
    place = np.arange(num_stages)[:, None]
    after = num_stages - 1 - place
    answer = behind(both) + 2 * after * t
    put_off = np.minimum(place + 1, m)
    drain = np.maximum(put_off * w, before(b) + place * t + w[0])
    idle = np.maximum(answer - after * f, 0.0) + np.maximum(answer - after * (b + w), 0.0)
    busy = m * both + (m - put_off) * w + idle
    waits = _waits(both, w, answer, m, t)
    ways = before(f) + place * t + np.maximum(busy, waits) + drain
    longest = np.where(m - 1 > after, ways, 0.0).max(axis=0)
    short = np.maximum(longest, _gpipe(stages, m, t) + w[0])
    return np.asarray(np.where(m <= num_stages, short, longest), dtype=np.float64)


def _waits(both: Floats, w: Floats, answer: Floats, m: Integers, t: Floats) -> Floats:
    """What a stage's rounds of micro-batches in flight take, each held up by the answer."""
    num_stages = len(both)
    place = np.arange(num_stages)[:, None]
    rounds, rest = np.divmod(m - 1, num_stages - place)
    num_between = np.maximum(rounds + -np.maximum(place - rest, 0) // (num_stages - place), 0)
    sums = np.vstack([before(both), both.sum(axis=0)[None, :]])
    upto = np.take_along_axis(sums, place + rest, axis=0)
    further = np.where(rest > 0, upto - sums[:-1] + 2 * (rest - 1) * t, 0.0)
    found: Floats = (rounds + 1) * (both + answer) + num_between * w + further
    return found


def _interleaved(stages: StageColumns, m: Integers, t: Floats, virtual: int) -> Floats:
    both = stages.forward + stages.backward
    num_stages = len(both) // virtual
    own = both.reshape(virtual, num_stages, -1).sum(axis=0)
    ways = before(both[:num_stages]) + m * own + behind(both[-num_stages:])
    found: Floats = ways.max(axis=0) + 2 * (len(both) - 1) * t
    return found


def _dualpipe(stages: StageColumns, m: Integers, t: Floats) -> Floats:
    num_stages = len(stages.forward)
    weight = np.zeros_like(stages.forward) if stages.weight is None else stages.weight
    joined = np.zeros_like(stages.forward) if stages.joined is None else stages.joined
    f, b, w, x = ((a + a[::-1]) / 2 for a in (stages.forward, stages.backward, weight, joined))
    p, (mean_f, mean_b, mean_w, mean_x) = num_stages, (a.mean(axis=0) for a in (f, b, w, x))
    df, db, dw, dx = f - mean_f, b - mean_b, w - mean_w, x - mean_x
    first = (p / 2 - 1) * (mean_x + np.minimum(mean_f, mean_b) - 2 * mean_w)
    first = first - p * df - p / 2 * (db + dw) - (p - 2) * dx
    second = (p / 2 - 1) * (mean_x + mean_b - 2 * mean_w) - mean_f
    second = second - df - (p - 2) * (db + dx) - (p - 1) * dw
    bubble = np.maximum(np.maximum(first, second), 0.0)
    longest = ((m - num_stages - 1) * x + (num_stages + 1) * (f + b + w) + bubble).max(axis=0)
    num_messages = 2 * m * (num_stages - 1) / num_stages + max(num_stages - 5, -1)
    found: Floats = np.maximum(longest, 0.0) + num_messages * t
    return found
