"""Step times of many plans at once, equal to the closed form of each: the heart of ``evaluate``.

Every different operation of all plans is priced once, every different layer is played once; what remains is
array arithmetic over plans (``pass_columns``, ``step_columns``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.plan import OFFLOAD, SCHEDULES
from perfcast.core.plan_table import PlanTable
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.prediction.step.constants import StepConstants
from perfcast.prediction.step.prices import price_step
from perfcast.simulate.closed_form.part_costs import PartCosts, collect_calls, cost_parts
from perfcast.simulate.closed_form.pass_columns import Passes, Structure
from perfcast.simulate.closed_form.step_columns import Batches, Group, StepColumns, stage_passes, time_steps
from perfcast.workload.blocks.habits import kernel_habits
from perfcast.workload.plan_columns.layers import Setting

#: Plans × stages of one piece of array arithmetic, small enough for a processor's cache.
_PIECE = 2**15
#: Schedules whose passes are the same have the same number.
_PASSES_OF = np.array([SCHEDULES.index("1f1b" if name == "gpipe" else name) for name in SCHEDULES])


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
    from perfcast.cost.collective.constants import load_constants

    figures = load_constants()
    slowdown = (figures.compute_slowdown, figures.communication_slowdown)
    framework = setting.training.framework
    calls = collect_calls(setting, plans)
    seconds = price_step(calls.operations(), device, setting.cluster, cost_model, setting.training).seconds
    check_prices(seconds)
    costs = cost_parts(
        calls, plans, seconds, launch_seconds=constants.launch_seconds[framework], slowdown=slowdown
    )
    step, causes = np.zeros(len(plans)), np.zeros((len(CAUSES), len(plans)))
    for rows, group, structure in _groups(setting, plans, costs, slowdown):
        found = _time_rows(costs, plans, rows, group, structure)
        step[rows], causes[:, rows] = found.step_seconds, found.seconds_by_cause
    fixed = constants.fixed_seconds.get(framework, 0.0)
    causes[CAUSES.index("other")] += fixed
    return StepColumns(step + fixed, causes), costs.num_operations


def _groups(
    setting: Setting, plans: PlanTable, costs: PartCosts, slowdown: tuple[float, float]
) -> Iterator[tuple[Integers, Group, Structure]]:
    """Plans that differ in numbers only, in pieces, with what they have in common."""
    habits = kernel_habits(setting.training.framework)
    sides = costs.has_sides.transpose(2, 0, 1).reshape(costs.has_sides.shape[2], -1)
    pattern = different_rows(list(sides.T))[1][costs.side_place]
    at_host = plans.offload == OFFLOAD.index("parameters")
    placed = costs.optimizer_exchanges[costs.optimizer_place] & (costs.optimizer_place >= 0)
    together = np.asarray(placed.any(axis=1), dtype=np.bool_)
    overlaps_weights = np.asarray(
        (plans.overlaps_weights > 0) & ((plans.zero_stage == 3) | habits.overlaps_weights), dtype=np.bool_
    )
    overlaps_gradients = np.asarray(
        (plans.overlaps_gradients > 0) & habits.overlaps_gradients, dtype=np.bool_
    )
    gathers_each = (plans.zero_stage == 3) | at_host
    first, place = different_rows(
        [costs.cuts.place, _PASSES_OF[plans.schedule], pattern, gathers_each, plans.zero_stage >= 2,
         overlaps_weights, overlaps_gradients, together]
    )  # fmt: skip
    order = np.lexsort((costs.same_passes, place))
    bounds = np.searchsorted(place[order], np.arange(len(first) + 1))
    for number, at in enumerate(first.tolist()):
        exists = costs.has_sides[:, :, costs.side_place[at]]
        cut = costs.cuts.cuts[int(costs.cuts.place[at])]
        structure = Structure(
            tuple(tuple(bool(x) for x in row) for row in exists),
            int(overlaps_weights[at]) if gathers_each[at] else None,
            bool(overlaps_weights[at]), bool(overlaps_gradients[at]), bool(plans.zero_stage[at] >= 2),
            slowdown,
        )  # fmt: skip
        group = Group(
            cut, SCHEDULES[int(plans.schedule[at])], int(plans.pipeline_parallel[at]),
            int(plans.virtual_stages_per_rank[at]), bool(exists[:2].any()), bool(exists[2].any()),
            bool(gathers_each[at]), structure.exchanges_each, bool(together[at]),
        )  # fmt: skip
        rows = order[bounds[number] : bounds[number + 1]]
        size = max(_PIECE // (group.num_stages * group.virtual), 64)
        for start in range(0, len(rows), size):
            yield rows[start : start + size], group, structure


def _time_rows(
    costs: PartCosts, plans: PlanTable, rows: Integers, group: Group, structure: Structure
) -> StepColumns:
    """Steps of some plans; passes that are the same for several plans are added up once, and so are steps."""
    first, index = different_rows([costs.same_passes[rows]])
    different = rows[first]
    layers = [
        figures[:, :, place[different]]
        for figures, place in zip(costs.layers, costs.layer_place, strict=True)
    ]
    passes = Passes(structure, layers, costs.sides[:, :, :, costs.side_place[different]])
    kinds = [stage_passes(group, passes, chunks) for chunks in group.cut.stages]
    optimizers = costs.optimizer_place[rows, : len(kinds)]
    once, same = different_rows(
        [
            index,
            plans.schedule[rows],
            plans.num_micro_batches[rows],
            costs.boundary_place[rows],
            *optimizers.T,
        ]
    )
    step, causes = np.zeros(len(once)), np.zeros((len(CAUSES), len(once)))
    schedules = plans.schedule[rows[once]]
    for code in np.unique(schedules).tolist():
        mine = np.flatnonzero(schedules == code)
        at = once[mine]
        own = rows[at]
        batches = Batches(
            index[at], plans.num_micro_batches[own],
            [costs.optimizers[:, place] for place in optimizers[at].T],
            [costs.optimizer_leads[place] for place in optimizers[at].T],
            costs.boundaries[costs.boundary_place[own]],
        )  # fmt: skip
        found = time_steps(replace(group, schedule=SCHEDULES[code]), kinds, batches, structure.slowdown)
        step[mine], causes[:, mine] = found.step_seconds, found.seconds_by_cause
    return StepColumns(step[same], causes[:, same])
