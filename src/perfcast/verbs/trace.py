"""Recordings, from Python: ``perfcast.trace.explain`` and ``perfcast.trace.forecast``."""

from __future__ import annotations

from perfcast.verbs.door import asks
from perfcast.verbs.trace_explain.answer import answer as _explain
from perfcast.verbs.trace_explain.question import ExplainQuestion
from perfcast.verbs.trace_forecast.answer import answer as _forecast
from perfcast.verbs.trace_forecast.question import TraceForecastQuestion

explain = asks(
    ExplainQuestion, _explain, returns="Kernels, idle times, collectives and imbalance of the recorded steps."
)
forecast = asks(
    TraceForecastQuestion, _forecast, returns="The step as it would be elsewhere, or with the changes."
)

__all__ = ["explain", "forecast"]
