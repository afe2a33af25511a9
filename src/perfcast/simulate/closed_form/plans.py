"""Steps of the plans of a table by formula: passes and steps that are the same are added up once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.plan import OFFLOAD, SCHEDULES
from perfcast.core.plans.table import PlanTable
from perfcast.core.training import Training
from perfcast.simulate.closed_form.group import Group
from perfcast.simulate.closed_form.part_costs import PartCosts
from perfcast.simulate.closed_form.passes import Passes
from perfcast.simulate.closed_form.pipeline import Batches, StepColumns, time_steps
from perfcast.simulate.closed_form.stages import stage_passes
from perfcast.workload.blocks.step.data_parallel import SideRules, side_rules

#: Plans × stages of one piece of array arithmetic, small enough for a processor's cache.
_PIECE = 2**15
#: Schedules whose passes are the same have the same number.
_PASSES_OF = np.array([SCHEDULES.index("1f1b" if name == "gpipe" else name) for name in SCHEDULES])


def time_plans(plans: PlanTable, costs: PartCosts, training: Training) -> StepColumns:
    """Step seconds and their causes of every plan.

    Raises:
        PlanError: Numbers for which a schedule does not exist.
    """
    step, causes = np.zeros(len(plans)), np.zeros((len(CAUSES), len(plans)))
    for rows, group in _groups(plans, costs, training):
        found = _time_rows(costs, plans, rows, group)
        step[rows], causes[:, rows] = found.step_seconds, found.seconds_by_cause
    return StepColumns(step, causes)


def _groups(plans: PlanTable, costs: PartCosts, training: Training) -> Iterator[tuple[Integers, Group]]:
    """Plans that differ in numbers only, in pieces, with what they have in common."""
    sides = costs.has_sides.transpose(2, 0, 1).reshape(costs.has_sides.shape[2], -1)
    pattern = different_rows(list(sides.T))[1][costs.side_place]
    placed = costs.optimizer_communicates[costs.optimizer_place] & (costs.optimizer_place >= 0)
    together = np.asarray(placed.any(axis=1), dtype=np.bool_)
    rules, rule_of = _rules(plans, training)
    passes_of = _PASSES_OF[plans.schedule]
    first, place = different_rows([costs.cuts.place, passes_of, pattern, rule_of, together])
    order = np.lexsort((costs.same_passes, place))
    bounds = np.searchsorted(place[order], np.arange(len(first) + 1))
    for number, at in enumerate(first.tolist()):
        rule = rules[int(rule_of[at])]
        exists = costs.has_sides[:, :, costs.side_place[at]]
        group = Group(
            cut=costs.cuts.cuts[int(costs.cuts.place[at])],
            schedule=SCHEDULES[int(plans.schedule[at])],
            virtual=int(plans.virtual_stages_per_rank[at]),
            has_sides=tuple(tuple(row) for row in exists.tolist()),
            gathers_each=rule.gathers_each_micro_batch,
            reduces_each=rule.reduces_gradients_each_micro_batch,
            overlaps_gather=rule.overlaps_gather,
            overlaps_gradient_reduction=rule.overlaps_gradient_reduction,
            host_waits=rule.host_waits,
            num_prefetched=int(plans.num_prefetched[at]) if rule.overlaps_gather else 0,
            updates_together=bool(together[at]),
            slowdown=costs.slowdown,
        )
        rows = order[bounds[number] : bounds[number + 1]]
        size = max(_PIECE // (group.num_stages * group.virtual), 64)
        for start in range(0, len(rows), size):
            yield rows[start : start + size], group


def _rules(plans: PlanTable, training: Training) -> tuple[list[SideRules], Integers]:
    """The different rules of what runs beside the compute, and which of them is each plan's, shape [n]."""
    at_host = plans.offload == OFFLOAD.index("parameters")
    schedules = np.where(plans.pipeline_parallel > 1, plans.schedule, -1)
    columns = (plans.zero_stage, at_host, plans.overlaps_weights, plans.overlaps_gradients, schedules)
    first, place = different_rows(columns)
    found = [side_rules(plans.plan(at), training) for at in first.tolist()]
    different = list(dict.fromkeys(found))
    return different, np.array([different.index(rule) for rule in found])[place]


def _time_rows(costs: PartCosts, plans: PlanTable, rows: Integers, group: Group) -> StepColumns:
    """Steps of some plans; passes that are the same for several plans are added up once, and so are steps."""
    first, index = different_rows([costs.same_passes[rows]])
    different = rows[first]
    layers = [
        figures[:, :, place[different]]
        for figures, place in zip(costs.layers, costs.layer_place, strict=True)
    ]
    passes = Passes(group, layers, costs.sides[:, :, :, costs.side_place[different]])
    kinds = [stage_passes(group, passes, chunks) for chunks in group.cut.stages]
    optimizers = costs.optimizer_place[rows, : len(kinds)]
    counts, messages = plans.num_micro_batches[rows], costs.boundary_place[rows]
    once, same = different_rows([index, plans.schedule[rows], counts, messages, *optimizers.T])
    step, causes = np.zeros(len(once)), np.zeros((len(CAUSES), len(once)))
    schedules = plans.schedule[rows[once]]
    for code in np.unique(schedules).tolist():
        mine = np.flatnonzero(schedules == code)
        at = once[mine]
        batches = Batches(
            index=index[at],
            num_micro_batches=counts[at],
            optimizers=[costs.optimizers[:, place] for place in optimizers[at].T],
            leads=[costs.optimizer_leads[place] for place in optimizers[at].T],
            message=costs.boundaries[messages[at]],
        )
        found = time_steps(replace(group, schedule=SCHEDULES[code]), kinds, batches)
        step[mine], causes[:, mine] = found.step_seconds, found.seconds_by_cause
    return StepColumns(step[same], causes[:, same])
