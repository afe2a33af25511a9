"""Plans of plain PyTorch, whose steps are the model's own modules: each captured and forecast as it is asked.

Formulas and memory in columns weigh these plans by the framework's kernels and its closed form, as they weigh
all others; the plans that are shown take what ``perfcast predict`` says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.cluster import Cluster
from perfcast.core.mode import Method
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.cost.prices import Prices
from perfcast.prediction.model import NamedModel
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.constants import StepConstants
from perfcast.prediction.step.predict import forecast_step
from perfcast.prediction.step.priced import price_request
from perfcast.searches.ranking.simulator import Simulated


@dataclass(frozen=True)
class CapturedSimulator:
    """What plans are captured, priced and played with.

    Attributes:
        method: 'simulated' or 'closed_form'.
        most_bytes: Of a device that a plan may take; plans that take more are left out when simulated.
    """

    model: NamedModel
    training: Training
    sequence_length: int
    cluster: Cluster
    cost_model: CostModel
    constants: StepConstants
    method: Method
    most_bytes: float

    def simulate(
        self,
        places: Sequence[int],
        plan_of: Callable[[int], Plan],
        stops: Callable[[int, Sequence[Simulated]], bool],
        num_processes: int = 1,
    ) -> tuple[list[Simulated], Prices]:
        """As ``Simulator.simulate``, one plan after the other."""
        found: list[Simulated] = []
        prices = Prices({}, {}, {}, {})
        for place in places:
            if stops(place, found):
                break
            one, own = self._forecast(place, plan_of(place))
            prices = _joined(prices, own)
            if self.method == "closed_form" or one.memory is None or self._fits(one.memory):
                found.append(one)
        return found, prices

    def _forecast(self, place: int, plan: Plan) -> tuple[Simulated, Prices]:
        request = PlanRequest(
            model=self.model,
            cluster=self.cluster,
            plan=plan,
            training=self.training,
            sequence_length=self.sequence_length,
            cost_model=self.cost_model,
            method=self.method,
            constants=self.constants,
            recommendations=False,
        )
        priced = price_request(request)
        step: PlanForecast = forecast_step(priced, request)
        low, high = step.step_seconds_low / step.step_seconds, step.step_seconds_high / step.step_seconds
        one = Simulated(place, plan, priced.planned.work, step.time, low, high, step.memory)
        return one, priced.prices

    def _fits(self, memory: PlanMemory) -> bool:
        return memory.footprint.device_bytes <= self.most_bytes


def _joined(one: Prices, other: Prices) -> Prices:
    return Prices(
        {**one.seconds, **other.seconds},
        {**one.seconds_low, **other.seconds_low},
        {**one.seconds_high, **other.seconds_high},
        {**one.provenance, **other.provenance},
    )
