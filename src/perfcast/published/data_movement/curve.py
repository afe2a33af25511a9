"""Utilization over training compute, where it falls, and how far from the published curve that is.

The paper ("Data movement limits to frontier model training", arXiv 2411.01137) puts the end of linear scaling
of a three-month run near 2e28 flops and the latency wall near 2e31; its curve for the H100 ("default
scaling") was read off the figure of the blog post that goes with it. ``perfcast scale --limits`` prints what
is computed here. At the default assumptions the two lie at most 5.0 points of utilization apart, 1.5 on
average; those assumptions were chosen with that curve in view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcast.errors import InputError
from perfcast.files.reading_tables import csv_entries
from perfcast.published.comparison import print_part
from perfcast.published.data_movement.layer import TrainingDevice
from perfcast.published.data_movement.limits import ScaledRun, ScalingAssumptions, scale_run, size_run

PUBLISHED_FILE = "data_movement_utilization_curve.csv"
_FLOPS_COLUMN, _PERCENT_COLUMN = "log10_training_flop", "theoretical_utilization_pct_digitised"
#: Powers of ten of the training compute that limits are looked for between, and the step of the first look.
_FIRST, _LAST, _STEP = 24.0, 36.0, 0.5
_BISECTIONS = 10
#: Beyond so many powers of ten of the reference, a limit is none.
_DECADES = 100


@dataclass(frozen=True)
class ScalingLimits:
    """Where runs stop to scale, in training flops; infinite beyond 1e36.

    Attributes:
        base_utilization: Of a run of 1e24 flops, far from all limits.
        kept_flops: (share, largest run that keeps this share of the base utilization).
        last_flops: The largest run that any plan ends in time.
        latency_wall_flops: Where launches alone, one after the other through all blocks, fill the step: no
            device, however many and however fast, gets beyond.
    """

    base_utilization: float
    kept_flops: tuple[tuple[float, float], ...]
    last_flops: float
    latency_wall_flops: float


def find_limits(
    device: TrainingDevice, assumptions: ScalingAssumptions, shares: Sequence[float] = (0.8, 0.5)
) -> ScalingLimits:
    """The limits of ``device`` under ``assumptions``.

    Raises:
        InputError: Not even a run of 1e24 flops ends in time.
    """

    def utilization(power: float) -> float:
        return scale_run(10**power, device, assumptions).utilization

    count = round((_LAST - _FIRST) / _STEP) + 1
    powers = [_FIRST + _STEP * index for index in range(count)]
    looked = {power: utilization(power) for power in powers}
    base = looked[_FIRST]
    if base <= 0:
        raise InputError("under these assumptions no plan ends a run of 1e24 flops in time")

    def last_above(least: float) -> float:
        return _last_power(
            lambda power: utilization(power) >= least, [p for p in powers if looked[p] >= least]
        )

    return ScalingLimits(
        base,
        tuple((share, 10 ** last_above(share * base)) for share in shares),
        10 ** last_above(math.ulp(0.0)),
        latency_wall(assumptions),
    )


def _last_power(holds: Callable[[float], bool], held: Sequence[float]) -> float:
    low = max(held)
    if low >= _LAST:
        return math.inf
    high = low + _STEP
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def latency_wall(assumptions: ScalingAssumptions) -> float:
    """Training flops at which launches alone fill the step.

    Steps are allotted s ∝ C^(β−1/2) seconds at batches ∝ C^β, and blocks number ∝ C^(δ/2) at depths ∝ N^δ;
    four launches a block fill the step at C₀ · (s₀ / launches₀)^(1 / (1/2 − β + δ/2)). Infinite where
    launches take no time, or batches grow so fast that steps do not shrink.
    """
    reference = size_run(assumptions.reference_flops, assumptions)
    launches = 4 * assumptions.launch_seconds * reference.num_blocks
    power = 0.5 - assumptions.batch_exponent + assumptions.depth_exponent / 2
    if launches == 0 or power <= 0:
        return math.inf
    decades = math.log10(reference.step_seconds / launches) / power
    return assumptions.reference_flops * 10**decades if decades < _DECADES else math.inf


def draw_curve(
    flops: Sequence[float], device: TrainingDevice, assumptions: ScalingAssumptions
) -> list[ScaledRun]:
    """The best run at each training compute."""
    return [scale_run(value, device, assumptions) for value in flops]


def largest_loss(scaled: ScaledRun) -> str:
    """What a step waits for most beside arithmetic: 'latency', 'bubble' …; '' where no plan ends in time."""
    if scaled.time is None:
        return ""
    losses = {
        name: float(getattr(scaled.time, f"{name}_seconds"))
        for name in ("movement", "latency", "bubble", "gradient")
    }
    return max(losses, key=lambda name: losses[name])


def read_published_curve(folder: str | Path) -> list[tuple[float, float]]:
    """(training flops, utilization) read off the published figure.

    Raises:
        InputError: No such file, or one without its two columns of numbers.
    """
    places = [Path(folder) / PUBLISHED_FILE, Path(folder) / "published" / PUBLISHED_FILE]
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        raise InputError(f"{folder} holds no {PUBLISHED_FILE}, nor does its folder 'published'")
    entries = csv_entries(place, what="the published curve")
    try:
        rows = [(float(row[_FLOPS_COLUMN]), float(row[_PERCENT_COLUMN])) for _, row in entries]
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{place}: no table of numbers with columns {_FLOPS_COLUMN} and {_PERCENT_COLUMN}"
        ) from error
    if not rows or not all(math.isfinite(power) and math.isfinite(percent) for power, percent in rows):
        raise InputError(f"{place} has no rows, or figures that are not finite")
    return [(10**power, percent / 100) for power, percent in rows]


if __name__ == "__main__":
    print_part("data_movement.curve", "data_movement")
