"""The best plans of the closed form, simulated event by event, with intervals; operations are priced once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.plan import StepTime
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import StepWork
from perfcast.cost.model import CostModel
from perfcast.cost.prices import Prices
from perfcast.prediction.step.interval import interval_of_step
from perfcast.prediction.step.prices import price_step
from perfcast.prediction.step.timer import Timer
from perfcast.searches.ranking.time_plans import PlanTimer
from perfcast.workload.blocks import build_step_work

#: Plans that one process plays before it is asked again whether to go on.
_AT_ONCE = 100


@dataclass(frozen=True)
class Simulated:
    """One plan, simulated.

    Attributes:
        low, high: Ends of the step's 90 % interval over its estimate.
        memory: Where it is not that of the columns.
    """

    place: int
    plan: Plan
    work: StepWork
    time: StepTime
    low: float
    high: float
    memory: PlanMemory | None = None


@dataclass(frozen=True)
class Simulator:
    """What plans are simulated with.

    Attributes:
        timer: Of steps; its method is 'simulated'.
    """

    model: Transformer
    training: Training
    sequence_length: int
    cluster: Cluster
    device: Device
    cost_model: CostModel
    timer: Timer

    def simulate(
        self,
        places: Sequence[int],
        plan_of: Callable[[int], Plan],
        stops: Callable[[int, Sequence[Simulated]], bool],
        num_processes: int = 1,
    ) -> tuple[list[Simulated], Prices]:
        """Plans in order, until ``stops`` says that the next one cannot be best.

        Args:
            places: Of plans, most promising first.
            stops: Asked before each plan, with those before it.
            num_processes: That share the work; the result is the same.
        """
        works = {place: self._build(plan_of(place)) for place in places}
        operations: dict[Operation, None] = {}
        for work in works.values():
            operations.update(dict.fromkeys(work.operations()))
        prices = price_step(list(operations), self.device, self.cluster, self.cost_model, self.training)
        timer = PlanTimer(self.timer, prices.seconds, num_processes)
        found: list[Simulated] = []
        size = _AT_ONCE * num_processes
        for first in range(0, len(places), size):
            together = places[first : first + size]
            if stops(together[0], found):
                break
            for place, time in zip(together, timer.time([works[one] for one in together]), strict=True):
                if stops(place, found):
                    return found, prices
                found.append(self._simulated(place, works[place], time, prices))
        return found, prices

    def _simulated(self, place: int, work: StepWork, time: StepTime, prices: Prices) -> Simulated:
        low, high = interval_of_step(
            work, prices, time, self.device, self.cluster, self.training, self.timer.interval_widening
        )
        return Simulated(place, work.plan, work, time, low, high)

    def _build(self, plan: Plan) -> StepWork:
        return build_step_work(self.model, plan, self.training, self.sequence_length)
