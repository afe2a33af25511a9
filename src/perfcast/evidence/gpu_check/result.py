"""The file of a check: the machine, and of each part its rows, or why there are none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from perfcast.errors import CalibrationError
from perfcast.files.reading import read_json

FORMAT, VERSION = "perfcast-gpu-check", 1
#: 'left_out': this machine has not what it takes; 'no_time': the budget did not suffice.
Status = Literal["done", "failed", "left_out", "no_time"]
Unit = Literal["s", "B", "B/s", "FLOP/s", "share"]


@dataclass(frozen=True, kw_only=True)
class CheckRow:
    """One figure, forecast and measured, in ``unit``.

    Attributes:
        forecast: None where nothing forecasts it.
        low, high: Interval of the forecast, None where it has none.
        note: What else is to be known of it.
    """

    what: str
    unit: Unit
    measured: float | None
    forecast: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def error(self) -> float | None:
        """Forecast over measured, less one; None where one is missing or nothing was measured."""
        if self.forecast is None or not self.measured:
            return None
        return self.forecast / self.measured - 1

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured figure lies in the interval."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, kw_only=True)
class PartResult:
    """What became of a part.

    Attributes:
        wall_seconds: That it took.
        reason: Why there are no rows; '' where it is done.
        log: Last lines that a failed part wrote.
        details: What else it found, plain data.
    """

    name: str
    status: Status
    wall_seconds: float = 0.0
    rows: tuple[CheckRow, ...] = ()
    reason: str = ""
    log: tuple[str, ...] = ()
    details: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary, with errors."""
        rows = [{**asdict(row), "relative_error": row.error, "is_inside": row.is_inside} for row in self.rows]
        data = {**asdict(self), "rows": rows, "log": list(self.log)}
        return {key: _plain(value) for key, value in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PartResult:
        """Read back what ``to_json`` made.

        Raises:
            KeyError, TypeError, ValueError: Something is missing, of another type or impossible.
        """
        if data["status"] not in get_args(Status):
            raise ValueError(f"a part cannot be {data['status']!r}")
        rows = tuple(_row(row) for row in data["rows"])
        seconds = _number(data["wall_seconds"])
        if seconds is None:
            raise TypeError("wall_seconds is missing")
        return cls(
            name=_text(data["name"]), status=data["status"], wall_seconds=seconds, rows=rows,
            reason=_text(data["reason"]), log=tuple(map(_text, data["log"])), details=data.get("details"),
        )  # fmt: skip


def _plain(value: Any) -> Any:
    """What JSON holds: a figure that is none (an infinite bound, say) is null, what JSON lacks its text.

    A part that has measured for a minute is not lost for one figure of its details.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _row(data: Mapping[str, Any]) -> CheckRow:
    if data["unit"] not in get_args(Unit):
        raise ValueError(f"a row cannot be in {data['unit']!r}")
    figures = {name: _number(data[name]) for name in ("measured", "forecast", "low", "high")}
    return CheckRow(what=_text(data["what"]), unit=data["unit"], note=_text(data["note"]), **figures)


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no finite number")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


@dataclass(frozen=True, kw_only=True)
class CheckFile:
    """A whole check.

    Attributes:
        device: 'cuda' or 'cpu', which is a dry run.
        machine: Versions, driver, clocks and limits of power, plain data.
        budget_seconds: That it was allowed.
    """

    device: str
    machine: Mapping[str, Any]
    budget_seconds: float
    started_at: str
    parts: tuple[PartResult, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every part is done, or left out because this machine has not what it takes."""
        return all(part.status in ("done", "left_out") for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            "format": FORMAT, "version": VERSION, "device": self.device, "machine": dict(self.machine),
            "budget_seconds": self.budget_seconds, "started_at": self.started_at,
            "is_whole": self.is_whole, "parts": [part.to_json() for part in self.parts],
        }  # fmt: skip


def load_check(path: str | Path) -> CheckFile:
    """Read a file of ``perfcast gpu-check`` back.

    Raises:
        CalibrationError: There is no such file, or it is another's, broken or impossible; says which.
    """
    data: Any = read_json(path, what="the file of `perfcast gpu-check`", error=CalibrationError)
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise CalibrationError(f"{path}: not a file of `perfcast gpu-check` of version {VERSION}")
    try:
        budget = _number(data["budget_seconds"])
        if budget is None or not isinstance(data["machine"], dict):
            raise TypeError("budget_seconds or machine is missing")
        return CheckFile(
            device=_text(data["device"]), machine=data["machine"], budget_seconds=budget,
            started_at=_text(data["started_at"]),
            parts=tuple(PartResult.from_json(part) for part in data["parts"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CalibrationError(f"{path}: {type(error).__name__}: {error}") from error
