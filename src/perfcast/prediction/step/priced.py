"""A planned step with prices: what is timed, relaxed, slowed by stragglers, and written out as traces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from perfcast.core.forecast.plan import StepTime
from perfcast.cost.prices import Prices
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.prices import price_step
from perfcast.prediction.step.resolve import resolve_step
from perfcast.prediction.step.work import PlannedStep, plan_step

if TYPE_CHECKING:
    from perfcast.simulate.layer import CallsTime
    from perfcast.simulate.training import PlayedStep


@dataclass(frozen=True)
class PricedStep:
    """A step, the price of each of its different operations, and how it plays.

    Attributes:
        prices: As operations run in a step.
    """

    planned: PlannedStep
    prices: Prices

    @cached_property
    def played(self) -> PlayedStep:
        """Event by event; played once, however often it is asked for."""
        return self.planned.step.timer.play(self.planned.work, self.prices.seconds)

    @cached_property
    def played_parts(self) -> dict[object, CallsTime]:
        """Parts that the step by formula has played; to be copied by who adds those of other work."""
        return {}

    def time(self, *, with_spans: bool = False) -> StepTime:
        """The step by the method asked for, and where its time goes.

        Args:
            with_spans: Whether to give timelines (simulated only).
        """
        timer = self.planned.step.timer
        if timer.method == "closed_form":
            return timer.time(self.planned.work, self.prices.seconds, played=self.played_parts)
        return timer.time_played(self.played, with_spans=with_spans)


def price_planned(planned: PlannedStep) -> PricedStep:
    """Each different operation priced once.

    Raises:
        PlanError: A group that does not lie in the cluster; a precision that the device lacks.
    """
    step = planned.step
    prices = price_step(planned.work.operations(), step.device, step.cluster, step.cost_model, step.training)
    return PricedStep(planned, prices)


def price_request(request: PlanRequest) -> PricedStep:
    """Names to data, the work of every rank, and prices: all that a step's answers are made of.

    Raises:
        InputError: Unknown names, a plan that model, framework or cluster cannot follow.
    """
    return price_planned(plan_step(resolve_step(request)))
