"""Places on an axis that are marked, and what is written beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcast.report.figure import Axis
from perfcast.units import DAY, GIB, GIGA, HOUR, KILO, MEGA, MIB, MICRO, MILLI, MINUTE, PETA, TERA

#: What values are divided by, and the unit that they then have.
SCALED_UNITS = {float(GIB): "GiB", float(MIB): "MiB", DAY: "days"}
_PREFIXES = ((PETA, "P"), (TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KILO, "k"), (1.0, ""))
_SMALL = ((MILLI, "m"), (MICRO, "µ"), (MICRO * MILLI, "n"), (MICRO * MICRO, "p"))
#: Digits that are marked between powers of ten, many before few.
_DIGITS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0))
#: Powers of ten that mark an axis well enough; and an axis that is too short for digits of theirs.
_ENOUGH, _SHORT = 4, 5.0
_SAME = 1e-9
#: A span below this part of its ends is none.
_LEAST = 1e-12

Tick = tuple[float, str]


def axis_unit_size(axis: Axis, values: Sequence[float]) -> float:
    """What values on an axis are divided by, so that bytes and long times have a unit that can be read."""
    if axis.unit == "duration":
        return DAY
    if axis.unit != "B" or axis.scale == "log":
        return 1.0
    most = max([axis.high or 0.0, *values], default=0.0)
    return float(GIB) if most >= GIB else float(MIB)


def axis_ticks(axis: Axis, low: float, high: float, size: float, most: int) -> list[Tick]:
    """Marks between two values of an axis, at most so many, in the axis's own values.

    Args:
        size: What values are divided by, as ``axis_unit_size`` says.
    """
    if axis.ticks:
        return [(place, text) for place, text in axis.ticks if _between(low, place, high)]
    if axis.scale == "log":
        return [(place, write_tick(axis, place)) for place in log_places(low, high, most)]
    places = linear_places(low / size, high / size, most)
    return [(place * size, write_tick(axis, place, size)) for place in places]


def _between(low: float, place: float, high: float) -> bool:
    edge = _SAME * abs(high - low)
    return min(low, high) - edge <= place <= max(low, high) + edge


def linear_places(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > _LEAST * max(abs(low), abs(high), _LEAST) or not math.isfinite(span):
        return [low]
    rough = span / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((digit * power for digit in (1, 2, 5, 10)), key=lambda one: abs(math.log(one / rough)))
    first = math.ceil(low / step - 1e-9)
    return [float(f"{index * step:.15g}") for index in range(first, math.floor(high / step + 1e-9) + 1)]


def log_places(low: float, high: float, most: int) -> list[float]:
    """Powers of ten, every few of them where there are many; with digits between where there are few.

    An axis of less than ``_SHORT`` times is marked evenly.
    """
    if high < _SHORT * low:
        return linear_places(low, high, most)
    first, last = math.ceil(math.log10(low) - _SAME), math.floor(math.log10(high) + _SAME)
    step = max(-(-(last - first + 1) // max(most, 1)), 1)
    powers = [10.0**power for power in range(first, last + 1) if power % step == 0]
    if len(powers) >= _ENOUGH or step > 1:
        return powers
    for digits in _DIGITS:
        found = [d * 10.0**power for power in range(first - 1, last + 1) for d in digits]
        found = [place for place in found if low * (1 - _SAME) <= place <= high * (1 + _SAME)]
        if len(found) <= most:
            return found if len(found) > 1 else linear_places(low, high, most)
    return powers if len(powers) > 1 else linear_places(low, high, most)


def write_tick(axis: Axis, place: float, size: float = 1.0) -> str:
    """A place in the axis's unit, divided by ``size``."""
    if axis.unit == "share":
        return f"{float(f'{100 * place:.4g}'):,g} %"
    if size != 1.0 or not axis.unit:
        return _plain(place)
    if axis.unit in ("s", "duration"):
        return _time(place)
    return prefixed(place, "" if axis.unit == "count" else axis.unit)


def _plain(place: float) -> str:
    if place and not 1e-4 <= abs(place) < 1e6:
        power = math.floor(math.log10(abs(place)) + 1e-12)
        digits = place / 10.0**power
        times = "" if math.isclose(digits, 1.0) else f"{digits:.4g}·"
        return f"{times}10{str(power).translate(_RAISED)}"
    return f"{place:,.6g}".replace("-", "−")


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _time(seconds: float) -> str:
    for limit, unit in ((2 * DAY, "d"), (2 * HOUR, "h"), (10 * MINUTE, "min")):
        if abs(seconds) >= limit:
            return f"{seconds / {'d': DAY, 'h': HOUR, 'min': MINUTE}[unit]:.4g} {unit}"
    return f"{seconds:.4g} s" if abs(seconds) >= 1 else prefixed(seconds, "s")


def prefixed(value: float, unit: str) -> str:
    """A value with a decimal prefix before its unit: ``'20 ms'``, ``'100 TFLOP/s'``, ``'0'``."""
    if not value:
        return "0"
    scales = _PREFIXES if abs(value) >= 1 - 1e-9 else _SMALL
    factor, prefix = next(((f, p) for f, p in scales if abs(value) >= f * (1 - 1e-9)), scales[-1])
    return f"{value / factor:.4g} {prefix}{unit}".rstrip().replace("-", "−")
