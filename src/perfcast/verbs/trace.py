"""Recordings, from Python: ``perfcast.trace.open``, ``.explain`` and ``.forecast``."""

from __future__ import annotations

from perfcast.verbs.door import asks
from perfcast.verbs.trace_explain.answer import answer as _explain
from perfcast.verbs.trace_explain.question import ExplainQuestion
from perfcast.verbs.trace_forecast.answer import answer as _forecast
from perfcast.verbs.trace_forecast.question import TraceForecastQuestion
from perfcast.verbs.trace_info.answer import answer as _info
from perfcast.verbs.trace_info.question import TraceInfoQuestion

explain = asks(
    ExplainQuestion, _explain, returns="Kernels, idle times, collectives and imbalance of the recorded steps."
)
forecast = asks(
    TraceForecastQuestion, _forecast, returns="The step as it would be elsewhere, or with the changes."
)

#: ``trace info`` is its name on the command line.
info = asks(TraceInfoQuestion, _info, returns="Format, device, steps, operators and kernels of every rank.")
open = info  # noqa: A001

__all__ = ["explain", "forecast", "info", "open"]
