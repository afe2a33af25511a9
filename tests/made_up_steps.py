"""Forecasts of steps in round numbers, for what is made of steps."""

from __future__ import annotations

from typing import Any

from made_up_programs import KERNELS
from perfcast.core.forecast.plan import PlanForecast, RankTime, StepTime
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.units import TERA


def step_time(seconds: float = 10.0, **causes: float) -> StepTime:
    """A step of ``seconds``; what the named causes leave is compute."""
    shares = {"compute": seconds - sum(causes.values()), **causes}
    return StepTime(step_seconds=seconds, ranks=(RankTime(0, 0, 1, shares),))


def step_forecast(
    seconds: float = 10.0, causes: dict[str, float] | None = None, **changes: Any
) -> PlanForecast:
    """Eight devices, a million tokens, ten seconds, exactly known."""
    facts: dict[str, Any] = {
        "model": "a-model", "cluster": "a-cluster", "device": "h100-sxm", "num_devices": 8, "mode": "train",
        "method": "closed_form", "plan": Plan(data_parallel=8), "training": Training(), "dtype": "bf16",
        "sequence_length": 1000, "cost_model": "roofline", "time": step_time(seconds, **(causes or {})),
        "step_seconds_low": seconds, "step_seconds_high": seconds, "num_tokens": 1_000_000,
        "flops": 10**15, "recompute_flops": 0, "peak_flops_per_second": TERA, "parameter_count": 10**9,
        "program": KERNELS,
    }  # fmt: skip
    return PlanForecast(**(facts | changes))
