"""A whole run as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from perfcast.prediction.run.predict import RunForecast


def run_to_dict(run: RunForecast) -> dict[str, Any]:
    """Every figure in SI units; what is not known is null."""
    data = asdict(run)
    assumptions = data.pop("assumptions")
    if math.isinf(run.between_interruptions_seconds):
        data["between_interruptions_seconds"] = None
    data |= {"goodput": run.goodput, "device_seconds": run.device_seconds}
    return {**data, "assumptions": list(assumptions)}
