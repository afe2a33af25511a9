"""Cells of printed tables: numbers with commas, magnitudes and units; one number for each precision."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_MAGNITUDES = {"k": 1e3, "m": 1e6}
#: Seconds of a unit, as tables spell it.
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6}
_BETWEEN = re.compile(r"\s+and\s+|/|,(?!\d{3}\b)|;", re.IGNORECASE)


def read_number(text: str) -> float | None:
    """The number that a cell begins with; None where it states none.

    >>> read_number("1,078 img/s"), read_number("22.59M"), read_number("2.96e+06"), read_number("N/A")
    (1078.0, 22590000.0, 2960000.0, None)
    """
    match = _NUMBER.match(text.strip())
    if match is None:
        return None
    rest = text.strip()[match.end() :].strip().lower()
    magnitude = _MAGNITUDES.get(rest, 1.0)
    return float(match[0].replace(",", "")) * magnitude


def read_seconds(text: str, unit: str | None) -> float | None:
    """A duration; its unit is the cell's own, else the one given; None without a number or a unit.

    >>> read_seconds("9.33 ms", None), read_seconds("1.22s", "ms"), read_seconds("15.38", None)
    (0.00933, 1.22, None)
    """
    value = read_number(text)
    own = text.strip().rpartition(" ")[2].lstrip("0123456789.,").lower()
    seconds = _SECONDS.get(own) or _SECONDS.get(unit or "")
    return None if value is None or seconds is None else value * seconds


def unit_of(heading: str) -> str | None:
    """The unit of time in a heading's brackets.

    >>> unit_of("Latency Avg (ms)"), unit_of("Latency Avg [ms]"), unit_of("Avg latency (s)"),
    unit_of("Latency") ('ms', 'ms', 's', None)
    """
    found = re.findall(r"[(\[]\s*([a-z]+)\s*[)\]]", heading.lower())
    return next((unit for unit in found if unit in _SECONDS), None)


def read_of_precision(text: str, order: Sequence[str], precision: str) -> float | None:
    """The number of one precision in a cell that may hold one for each.

    Args:
        order: Of the precisions in the cell, where it does not label them.
        precision: 'fp32', 'tf32', 'fp16' or 'bf16'.

    >>> read_of_precision("128 and 256", ("tf32", "fp16"), "fp16")
    256.0
    >>> read_of_precision("10@FP16, 4@TF32", (), "tf32"), read_of_precision("10240", ("fp16", "fp32"), "fp32")
    (4.0, 10240.0)
    """
    parts = [part.strip() for part in _BETWEEN.split(text) if part.strip()]
    labels = {label.strip().lower(): number for number, _, label in (part.partition("@") for part in parts)}
    if precision in labels:
        return read_number(labels[precision])
    if len(parts) == 1:
        return read_number(parts[0])
    if precision not in order or len(parts) != len(order):
        return None
    return read_number(parts[list(order).index(precision)])
