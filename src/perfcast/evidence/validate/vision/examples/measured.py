"""What a row says was measured, in each precision: throughput, average latency, or both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perfcast.evidence.validate.vision.examples.cells import read_number, read_seconds, unit_of
from perfcast.evidence.validate.vision.examples.headings import Heading
from perfcast.evidence.validate.vision.examples.lines import Line
from perfcast.evidence.validate.vision.examples.setups import Setup

_FEW_DIGITS = 3
#: A latency and a throughput of one row further apart than this count different things.
_SAME = 2.0


@dataclass(frozen=True)
class Measured:
    """Figures of one precision.

    Attributes:
        precision: That the heading names; '' where it names none.
        per_second: Items.
        latency: Seconds of a batch, in the mean.
        bound: Seconds below which 95 % of batches stay, where the row says it.
        digits: Significant ones of the latency.
    """

    precision: str
    per_second: float | None = None
    latency: float | None = None
    bound: float | None = None
    digits: int = 0
    options: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, items: float | None) -> float | None:
        """Of a step of so many items.

        The mean latency; where it lies above its own 95th percentile, a few first batches made it, and
        where it has less than three digits it is rounded: then items over throughput, if the two are of
        one batch.
        """
        is_sound = self.latency is not None and (self.bound is None or self.latency <= self.bound)
        by_rate = items / self.per_second if items and self.per_second else None
        if by_rate and self.latency and not 1 / _SAME < by_rate / self.latency < _SAME:
            return self.latency
        if self.latency is not None and is_sound and (self.digits >= _FEW_DIGITS or by_rate is None):
            return self.latency
        return by_rate if by_rate is not None else self.latency


def read_measured(line: Line, setup: Setup, base: str) -> Iterator[Measured]:
    """One for each precision that has a figure.

    Args:
        base: The precision beside the lower one, 'tf32' or 'fp32'.
    """
    if setup.rows and line.is_inference:
        yield from _collapsed(line, base)
        return
    rates = {_first(h): h for h in line.headings if h.measure == "throughput"}
    latencies = {_first(h): h for h in line.headings if h.measure == "latency"}
    if list(latencies) == [""] and len(rates) == 1:
        latencies = {next(iter(rates)): latencies[""]}
    for precision in dict.fromkeys((*rates, *latencies)):
        measured = _figures(line, setup, precision, rates.get(precision), latencies.get(precision))
        if measured.per_second or measured.latency:
            yield measured


def _figures(
    line: Line, setup: Setup, precision: str, rate: Heading | None, latency: Heading | None
) -> Measured:
    per_second = None if rate is None else read_number(line.columns[rate.text])
    if latency is None:
        return Measured(precision, per_second)
    unit = unit_of(latency.text) or setup.latency_unit
    cell = line.columns[latency.text]
    bounds = [h for h in line.headings if h.measure == "latency bound" and "95" in h.text]
    bound = read_seconds(line.columns[bounds[0].text], unit) if bounds else None
    return Measured(precision, per_second, read_seconds(cell, unit), bound, _digits(cell))


def _first(heading: Heading) -> str:
    return heading.precisions[0] if heading.precisions else ""


def _digits(cell: str) -> int:
    number = re.match(r"[\d.,]*", cell.strip())
    return len((number[0] if number else "").replace(".", "").replace(",", "").lstrip("0"))


def _collapsed(line: Line, base: str) -> Iterator[Measured]:
    """Tables whose headings without words were joined: their last column is the mean of the base precision.

    The mean of fp16 follows from the speed-up beside it.
    """
    latency = read_seconds(line.columns.get("", ""), "ms")
    speedup = next((line.columns[h.text] for h in line.headings if "speed up" in h.text), "")
    factor = read_number(speedup)
    if latency is None:
        return
    yield Measured(base, latency=latency, digits=_digits(line.columns[""]))
    if factor:
        yield Measured("fp16", latency=latency / factor, digits=_FEW_DIGITS)
