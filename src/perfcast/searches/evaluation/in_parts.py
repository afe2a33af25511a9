"""Steps of many plans on several processes: plans that share layers stay together."""

from __future__ import annotations

from functools import partial

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.machine.hardware import Device
from perfcast.core.plans.table import PlanTable
from perfcast.cost.model import CostModel
from perfcast.prediction.step.columns import evaluate_steps
from perfcast.prediction.step.constants import StepConstants
from perfcast.searches.evaluation.processes import run_in_processes
from perfcast.simulate.closed_form.pipeline import StepColumns
from perfcast.workload.plan_columns.layers import Setting


def evaluate_in_parts(
    setting: Setting,
    plans: PlanTable,
    device: Device,
    cost_model: CostModel,
    constants: StepConstants,
    num_processes: int,
) -> tuple[StepColumns, int]:
    """``evaluate_steps`` on several processes, with the same result; operations are counted in each.

    Raises:
        PlanError: As ``evaluate_steps``.
        InputError: A process that was killed.
    """
    parts = [part for part in split_plans(plans, num_processes) if len(part)]
    if len(parts) < 2:
        return evaluate_steps(setting, plans, device, cost_model, constants)
    tasks = [
        partial(evaluate_steps, setting, plans.take(part), device, cost_model, constants) for part in parts
    ]
    found = run_in_processes(tasks)
    step = np.zeros(len(plans))
    causes = np.zeros((len(found[0][0].seconds_by_cause), len(plans)))
    for part, (one, _) in zip(parts, found, strict=True):
        step[part], causes[:, part] = one.step_seconds, one.seconds_by_cause
    return StepColumns(step, causes), sum(count for _, count in found)


def split_plans(plans: PlanTable, num_parts: int) -> list[Integers]:
    """Places of the plans of each part: those of one cut of the layers together, the largest first."""
    first, place = different_rows([plans.tensor_parallel, plans.context_parallel])
    counts = np.bincount(place, minlength=len(first))
    loads, part_of = np.zeros(num_parts), np.zeros(len(first), dtype=np.int64)
    for cut in np.argsort(-counts, kind="stable").tolist():
        part_of[cut] = int(loads.argmin())
        loads[part_of[cut]] += counts[cut]
    return [np.flatnonzero(part_of[place] == part) for part in range(num_parts)]
