"""Step times of many plans at once, equal to the closed form of each: the heart of ``evaluate``.

Every different operation of all plans is priced once, every different layer is played once; what remains is
array arithmetic over plans (``simulate.closed_form``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from perfcast.core.forecast.plan import CAUSES
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.plans.table import PlanTable
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.prediction.step.constants import StepConstants
from perfcast.prediction.step.prices import price_step
from perfcast.prediction.step.timer import slowdown_beside
from perfcast.simulate.closed_form.part_costs import cost_parts
from perfcast.simulate.closed_form.pipeline import StepColumns
from perfcast.simulate.closed_form.plans import time_plans
from perfcast.workload.plan_columns.calls import collect_calls
from perfcast.workload.plan_columns.layers import Setting


def check_prices(seconds: Mapping[Operation, float]) -> None:
    """Refuse prices that are no numbers.

    Raises:
        PlanError: The first such operation.
    """
    for operation, value in seconds.items():
        if not (math.isfinite(value) and value >= 0):
            raise PlanError(
                f"the cost model prices {operation.name} at {value} s; a price is a finite number from 0"
            )


def evaluate_steps(
    setting: Setting,
    plans: PlanTable,
    device: Device,
    cost_model: CostModel,
    constants: StepConstants,
) -> tuple[StepColumns, int]:
    """Step times alone, and how many different operations were priced."""
    framework = setting.training.framework
    calls = collect_calls(setting, plans)
    seconds = price_step(calls.operations(), device, setting.cluster, cost_model, setting.training).seconds
    check_prices(seconds)
    launch_seconds = constants.launch_seconds[framework]
    costs = cost_parts(calls, plans, seconds, launch_seconds=launch_seconds, slowdown=slowdown_beside())
    found = time_plans(plans, costs, setting.training)
    fixed = constants.fixed_seconds.get(framework, 0.0)
    found.seconds_by_cause[CAUSES.index("other")] += fixed
    return StepColumns(found.step_seconds + fixed, found.seconds_by_cause), costs.num_operations
