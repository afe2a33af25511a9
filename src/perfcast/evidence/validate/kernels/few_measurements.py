"""How the error of ``learned`` falls with measurements on a device: rows of tables stand in for measuring.

Of every device, the rows of tables nearest to the kernels that ``perfcast measure kernels`` would time, in
the order in which it would time them, are taken as measured on it; the others are scored. Nothing else of
the device (or of its die, with ``--leave-out``) is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device_entries
from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.covariance import Covariance, load_covariance
from perfcast.cost.learned.corrections.evidence import weigh_measurements
from perfcast.cost.learned.corrections.traits import Traits, describe_traits, join_traits
from perfcast.cost.learned.store import load_family, model_names_of
from perfcast.errors import InputError
from perfcast.evidence.validate.kernels.cases import Cases
from perfcast.evidence.validate.kernels.pricers import is_trained
from perfcast.measure.few.design import choose_cases

#: Doublings, over all sizes together, by which a row may differ from the kernel that it stands for.
_FARTHEST = 4.0
#: Doublings of noise that a draw adds to each distance.
_DRAWN = 1.0
#: A device with fewer scored kernels of an operation tells nothing of it.
_LEAST = 20
#: Formats that run the same kernels.
_ALIKE: Mapping[str, str] = {"fp16": "bf16", "fp16/fp16": "bf16/bf16"}


@dataclass(frozen=True, eq=False)
class DeviceKernels:
    """All priced kernels of a device, shape [n].

    Attributes:
        errors: log(measured / forecast) without any measurement.
        low, high: Interval of the same, around 0.
    """

    device: Device
    traits: Traits
    errors: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Score:
    """Errors of kernels that were not measured.

    Attributes:
        by: 'measured' for kernels of operations, formats and programs of which some kernel was measured, else
            'other'.
    """

    device: str
    operation: str
    by: str
    measurements: int
    draw: int
    relative: Floats
    inside: Floats
    width: Floats

    def to_json(self) -> dict[str, Any]:
        """Means and the median."""
        return {
            "device": self.device,
            "operation": self.operation,
            "by": self.by,
            "measurements": self.measurements,
            "draw": self.draw,
            "n": len(self.relative),
            "mean_error": float(self.relative.mean()),
            "median_error": float(np.median(self.relative)),
            "covered": float(self.inside.mean()),
            "median_width": float(np.median(self.width)),
        }


@dataclass(frozen=True, eq=False)
class FewResult:
    """The curve of a suite."""

    suite: str
    protocol: Mapping[str, Any]
    scores: tuple[Score, ...]

    @property
    def summary(self) -> list[dict[str, Any]]:
        """By operation and number, every device alike; then by device."""
        entries = []
        for group in ("operation", "device"):
            cells: defaultdict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
            for score in self.scores:
                row = score.to_json()
                cells[row[group], row["by"], row["measurements"]].append(row)
            for (value, by, number), rows in sorted(cells.items()):
                names = ("mean_error", "median_error", "covered", "median_width")
                means = {name: float(np.mean([row[name] for row in rows])) for name in names}
                devices = len({row["device"] for row in rows})
                entries.append(
                    {
                        "group": group,
                        "value": value,
                        "by": by,
                        "measurements": number,
                        "devices": devices,
                        **means,
                    }
                )
        return entries

    def to_json_rows(self) -> Iterator[dict[str, Any]]:
        """One for each device, operation, number and draw."""
        return (score.to_json() for score in self.scores)


def price_devices(cases: Sequence[Cases], folder: Path | None) -> list[DeviceKernels]:
    """Forecasts and traits of all trusted rows, device by device."""
    parts: defaultdict[str, list[tuple[Traits, Floats, Floats, Floats]]] = defaultdict(list)
    entries = load_device_entries()
    for part in cases:
        if part.kernels is None:
            continue
        sound = (part.reason == "") & (part.judge() == "") & (part.catalog_device != "")
        models = model_names_of(part.kernels)
        for name, model in sorted(
            {*zip(part.catalog_device[sound].tolist(), models[sound].tolist(), strict=True)}
        ):
            if is_trained(str(model), folder):
                rows = np.flatnonzero(sound & (part.catalog_device == name) & (models == model))
                parts[name].append(_price(part, rows, str(model), entries[name].device, folder))
    return [_joined(entries[name].device, some) for name, some in sorted(parts.items())]


def _price(
    part: Cases, rows: Integers, model: str, device: Device, folder: Path | None
) -> tuple[Traits, Floats, Floats, Floats]:
    assert part.kernels is not None
    fitted, kernels = load_family(model, folder), part.kernels.take(rows)
    index = np.zeros(len(rows), dtype=np.int64)
    estimates = fitted.estimate(kernels, [device], index)
    traits = describe_traits(fitted, kernels, device, estimates, fitted.describe(kernels, [device], index))
    low, high = (np.log(side / estimates.seconds) for side in (estimates.seconds_low, estimates.seconds_high))
    return traits, np.log(part.seconds[rows] / estimates.seconds), low, high


def _joined(device: Device, parts: Sequence[tuple[Traits, Floats, Floats, Floats]]) -> DeviceKernels:
    traits = join_traits([part[0] for part in parts])
    return DeviceKernels(device, traits, *(np.concatenate([part[i] for part in parts]) for i in (1, 2, 3)))


def choose_rows(kernels: DeviceKernels, count: int, draw: int) -> Integers:
    """Places of the rows that stand for the designed kernels, at most ``count``, in the designed order.

    A row stands for a kernel of its operation and format; of the program that PyTorch's kernel stands for
    where that was measured, else of any. Each row stands for one.
    """
    generator, traits = np.random.default_rng(draw), kernels.traits
    formats = _alike(traits.dtype)
    free = np.ones(len(traits), dtype=bool)
    chosen: list[int] = []
    for case in choose_cases(kernels.device, None):
        if len(chosen) == count:
            break
        kernel = case.kernel(1.0, kernels.device.vendor)
        wanted = kernel.words
        dtype = wanted["dtype"] + (f"/{wanted['kv_dtype']}" if "kv_dtype" in wanted else "")
        same = free & (traits.family == kernel.family.value) & (traits.operation == wanted["operation"])
        same &= formats == _ALIKE.get(dtype, dtype)
        own = same & (traits.framework == wanted["framework"])
        rows = np.flatnonzero(own if own.any() else same)
        if not len(rows):
            continue
        sizes = np.log2(1.0 + np.array(list(kernel.sizes.values())))
        away = np.abs(traits.sizes[rows, : len(sizes)] - sizes).sum(axis=1)
        best = int(np.argmin(away + _DRAWN * np.abs(generator.normal(size=len(rows)))))
        if away[best] <= _FARTHEST:
            chosen.append(int(rows[best]))
            free[rows[best]] = False
    return np.array(chosen, dtype=np.int64)


def _alike(dtypes: Objects) -> Objects:
    return np.array([_ALIKE.get(name, name) for name in dtypes.tolist()], dtype=object)


def score_device(
    kernels: DeviceKernels, numbers: Sequence[int], draws: int, covariance: Covariance
) -> Iterator[Score]:
    """Scores with each number of measurements; the same kernels are scored with all of them."""
    for draw in range(draws):
        chosen = choose_rows(kernels, max(numbers), draw)
        rest = np.setdiff1d(np.arange(len(kernels.errors)), chosen)
        like = _like_measured(kernels.traits, chosen)[rest]
        for number in numbers:
            move, narrowed = _moved(kernels, chosen[:number], rest, covariance)
            yield from _scores(kernels, rest, like, move, narrowed, number, draw)


def _moved(
    kernels: DeviceKernels, chosen: Integers, rest: Integers, covariance: Covariance
) -> tuple[Floats, Floats]:
    if not len(chosen):
        return np.zeros(len(rest)), np.ones(len(rest))
    evidence = weigh_measurements(kernels.traits.take(chosen), kernels.errors[chosen], covariance)
    return evidence.about(kernels.traits.take(rest))


def _like_measured(traits: Traits, chosen: Integers) -> Objects:
    words = list(zip(traits.operation, traits.dtype, traits.framework, strict=True))
    measured = {words[i] for i in chosen.tolist()}
    return np.array(["measured" if each in measured else "other" for each in words], dtype=object)


def _scores(
    kernels: DeviceKernels,
    rest: Integers,
    like: Objects,
    move: Floats,
    narrowed: Floats,
    number: int,
    draw: int,
) -> Iterator[Score]:
    errors = kernels.errors[rest] - move
    relative = np.abs(np.expm1(-errors))
    low, high = kernels.low[rest] * narrowed, kernels.high[rest] * narrowed
    inside = ((errors >= low) & (errors <= high)).astype(np.float64)
    family = kernels.traits.family[rest]
    for name in sorted(set(family.tolist())):
        for by in ("measured", "other"):
            rows = (family == name) & (like == by)
            if rows.sum() >= _LEAST:
                yield Score(
                    kernels.device.name, name, by, number, draw, relative[rows], inside[rows],
                    np.exp(high - low)[rows],
                )  # fmt: skip


def check_numbers(numbers: Sequence[int]) -> tuple[int, ...]:
    """In rising order, 0 among them.

    Raises:
        InputError: A negative one.
    """
    if min(numbers) < 0:
        raise InputError(f"--measurements {min(numbers)}: a number of kernels is at least 0")
    return tuple(sorted({0, *numbers}))


def score_devices(
    cases: Sequence[Cases],
    folder: Path | None,
    numbers: Sequence[int],
    draws: int,
    say: Callable[[str], None],
    covariance: Covariance | None = None,
) -> list[Score]:
    """The curve of every device of the cases, by one set of weights."""
    scores: list[Score] = []
    for kernels in price_devices(cases, folder):
        say(f"{kernels.device.name}: {len(kernels.errors)} kernels")
        scores += score_device(kernels, numbers, draws, covariance or load_covariance())
    return scores
