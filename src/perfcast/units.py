"""Constants and formatting: the only place where powers of ten and of two stand as numbers.

Inside the package every quantity is in seconds, bytes, flops, hertz, watts or a plain count.
"""

from __future__ import annotations

KILO, MEGA, GIGA, TERA, PETA = 1e3, 1e6, 1e9, 1e12, 1e15
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
MICRO, MILLI = 1e-6, 1e-3
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0

#: Factor from each unit that a data file may use to the unit used inside the package.
UNIT_FACTORS: dict[str, float] = {
    "1": 1.0,
    "B": 1.0,
    "year": 1.0,
    "token": 1.0,
    "parameter": 1.0,
    "s": 1.0,
    "us": MICRO,
    "min": MINUTE,
    "day": DAY,
    "MHz": MEGA,
    "GHz": GIGA,
    "W": 1.0,
    "MB": MEGA,
    "GB": GIGA,
    "KiB": float(KIB),
    "MiB": float(MIB),
    "GiB": float(GIB),
    "GB/s": GIGA,
    "TB/s": TERA,
    "GFLOP/s": GIGA,
    "TFLOP/s": TERA,
    "PFLOP/s": PETA,
    "TOP/s": TERA,
    "POP/s": PETA,
}


def format_seconds(seconds: float) -> str:
    """Three significant digits in the unit that a person would choose: ``'12.3 ms'``."""
    for limit, factor, unit in (
        (MICRO, 1 / (MICRO * MILLI), "ns"),
        (MILLI, 1 / MICRO, "µs"),
        (1.0, 1 / MILLI, "ms"),
    ):
        if abs(_rounded(seconds)) < limit:
            return f"{_three_digits(seconds * factor)} {unit}"
    return f"{_three_digits(seconds)} s"


def format_duration(seconds: float) -> str:
    """Like ``format_seconds``, with minutes, hours and days for what lasts: ``'53.8 days'``."""
    for size, unit in ((2 * DAY, "days"), (2 * HOUR, "h"), (2 * MINUTE, "min")):
        if abs(_rounded(seconds)) >= size:
            return f"{_three_digits(seconds * 2 / size)} {unit}"
    return format_seconds(seconds)


def format_bytes(num_bytes: float) -> str:
    """Binary prefix, three significant digits: ``'79.2 GiB'``."""
    for size, unit in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(num_bytes) >= size:
            return f"{_three_digits(num_bytes / size)} {unit}"
    return f"{num_bytes:.0f} B"


def format_count(count: float, unit: str = "") -> str:
    """Decimal prefix, three significant digits: ``'34.1 TFLOP'``."""
    for size, prefix in ((PETA, "P"), (TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KILO, "k")):
        if abs(_rounded(count)) >= size:
            return f"{_three_digits(count / size)} {prefix}{unit}"
    return f"{_three_digits(count)} {unit}".rstrip()


def _three_digits(value: float) -> str:
    magnitude = abs(_rounded(value))
    if magnitude >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}"


def _rounded(value: float) -> float:
    """To three significant digits; units are chosen after it, so that 999.9 µs are 1.00 ms."""
    return float(f"{value:.3g}")
