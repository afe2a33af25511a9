"""The time of a published step from its scaled prices, by formula or by simulation; what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from perfcast.core.forecast.plan import PlanForecast, StepTime
from perfcast.cost.collective.constants import load_constants
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.step_constants.scales import Scalable
from perfcast.prediction.step.interval import StepParts, step_parts
from perfcast.prediction.step.runs import count_runs

PREDICTORS = ("closed_form", "simulated")
Item = TypeVar("Item")


class Track(Protocol):
    """Passes items on one by one and shows how far along they are, in words."""

    def __call__(self, items: Sequence[Item], words: str, /) -> Iterable[Item]:
        """The same items."""
        ...


def forecast_seconds(run: Scalable, values: Mapping[str, float], predictor: str = PREDICTORS[0]) -> float:
    """Seconds of a step under some constants.

    Raises:
        UnknownNameError: Not a predictor.
    """
    return forecast_time(run, values, predictor).step_seconds + run.fixed_seconds(values)


def forecast_time(run: Scalable, values: Mapping[str, float], predictor: str = PREDICTORS[0]) -> StepTime:
    """The step without its fixed seconds.

    Raises:
        UnknownNameError: Not a predictor.
    """
    from perfcast.simulate.closed_form.step import closed_form_step
    from perfcast.simulate.training import simulate_step

    seconds, launch, figures = run.scaled(values), run.launch_seconds(values), load_constants()
    slowdown = (figures.compute_slowdown, figures.communication_slowdown)
    if predictor == "closed_form":
        return closed_form_step(run.run.work, seconds, launch_seconds=launch, slowdown=slowdown)
    if predictor == "simulated":
        return simulate_step(run.run.work, seconds, launch_seconds=launch, slowdown=slowdown)
    raise UnknownNameError("predictor", predictor, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")


def forecast_parts(run: Scalable, values: Mapping[str, float]) -> tuple[float, StepParts]:
    """Seconds of a step by formula, and what they consist of."""
    time = forecast_time(run, values)
    runs = count_runs(run.run.work, time.ranks[0].stage)
    prices = run.run.scaled(run.scaled(values))
    parts = step_parts(runs, prices, time, run.device, run.run.cluster)
    return time.step_seconds + run.fixed_seconds(values), parts


def main_provenance(step: PlanForecast) -> str | None:
    """What most of the step's compute rests on."""
    seconds = step.seconds_by_provenance
    return max(seconds, key=lambda name: seconds[name]) if seconds else None
