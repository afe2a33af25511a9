"""Overhead profiles as JSON, to be shared between programs, by host and framework version."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfcast.errors import CalibrationError
from perfcast.files.reading import read_json
from perfcast.files.writing import write_text_atomically
from perfcast.traces.overheads.profile import Key, OverheadMean, OverheadProfile
from perfcast.traces.timeline.program import Overhead

SCHEMA = 1


def save_overheads(profile: OverheadProfile, path: str | Path) -> None:
    """Write a profile; the keys of the file are those of ``overheads_to_dict``."""
    write_text_atomically(path, json.dumps(overheads_to_dict(profile), indent=1, sort_keys=True) + "\n")


def overheads_to_dict(profile: OverheadProfile) -> dict[str, Any]:
    """A profile as plain data; seconds throughout."""
    return {
        "schema": SCHEMA,
        "host": profile.host,
        "framework": profile.framework,
        "overheads": {
            overhead.value: {
                "strength": profile.strengths.get(overhead, 0.0),
                "factor": profile.factors.get(overhead, 1.0),
                "means": [
                    {
                        "key": list(key),
                        "seconds": m.seconds,
                        "deviation_seconds": m.deviation_seconds,
                        "count": m.count,
                    }
                    for key, m in sorted(table.items())
                ],
            }
            for overhead, table in profile.means.items()
        },
    }


def load_overheads(path: str | Path) -> OverheadProfile:
    """Read a profile.

    Raises:
        CalibrationError: Not such a file, or a figure in it that is no time.
    """
    data = read_json(path, what="the profile of host overheads", error=CalibrationError)
    if (
        not isinstance(data, dict)
        or data.get("schema") != SCHEMA
        or not isinstance(data.get("overheads"), dict)
    ):
        raise CalibrationError(f"'{path}' is no profile of host overheads of schema {SCHEMA}")
    try:
        return overheads_from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CalibrationError(f"'{path}': a damaged profile of host overheads ({error!r})") from None


def overheads_from_dict(data: Mapping[str, Any]) -> OverheadProfile:
    """The inverse of ``overheads_to_dict``.

    Raises:
        KeyError, TypeError, ValueError: What is missing or no number.
    """
    means: dict[Overhead, dict[Key, OverheadMean]] = {}
    strengths, factors = {}, {}
    for name, entry in data["overheads"].items():
        overhead = Overhead(name)
        strengths[overhead] = _number(entry["strength"])
        factors[overhead] = _number(entry["factor"])
        means[overhead] = {
            tuple(str(part) for part in row["key"]): OverheadMean(
                _number(row["seconds"]), _number(row["deviation_seconds"]), int(_number(row["count"]))
            )
            for row in entry["means"]
        }
    return OverheadProfile(str(data["host"]), str(data["framework"]), means, strengths, factors)


def _number(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{value} is not a number of at least 0")
    return number
