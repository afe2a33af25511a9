"""The front door of serving: a question about a deployment under a load, answered by one form or by both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from perfcast.core.forecast.serving import ServingForecast
from perfcast.errors import PlanError
from perfcast.prediction.request.serving import ServingRequest
from perfcast.prediction.serving.engines import StepTables
from perfcast.prediction.serving.events import by_events
from perfcast.prediction.serving.formula import by_formula
from perfcast.prediction.serving.resolve import resolve_serving

#: Beyond which the two forms are said to differ.
_AGREEMENT = 0.1
_COMPARED: Mapping[str, Callable[[ServingForecast], float]] = {
    "mean time to first token": lambda found: found.time_to_first_token.mean.value,
    "mean time of a further token": lambda found: found.time_per_output_token.mean.value,
    "output tokens per second": lambda found: found.rates.output_tokens_per_second.value,
}


def predict_serving(request: ServingRequest, tables: StepTables | None = None) -> ServingForecast:
    """A model under load: by events, with the closed form beside, unless one of them is asked for alone.

    Args:
        tables: Step times that earlier questions built; None: none.

    Raises:
        InputError: An unknown name; a deployment that model or cluster cannot follow; a request longer than
            an engine's memory holds.
    """
    setting = resolve_serving(request)
    times = (tables or StepTables()).of(setting)
    if request.method == "closed_form":
        return by_formula(setting, times)
    events = by_events(setting, times)
    if request.method == "events":
        return events
    try:
        formula = by_formula(setting, times)
    except PlanError as error:
        return replace(events, assumptions=(*events.assumptions, str(error).partition(";")[0]))
    return replace(events, other=formula, assumptions=(*events.assumptions, *_differences(events, formula)))


def _differences(events: ServingForecast, formula: ServingForecast) -> Iterator[str]:
    """Where the forms differ by more than a tenth, in words; the events are the answer."""
    found = []
    for name, read in _COMPARED.items():
        own, other = read(events), read(formula)
        if own > 0 and abs(other / own - 1) > _AGREEMENT:
            found.append(f"{name} {100 * (other / own - 1):+.0f} %")
    if found:
        yield f"the closed form differs from the events ({', '.join(found)}); the answer is the events'"
