"""Seconds of all different parts of many plans' steps: operations priced once, parts played once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.operation import Operation
from perfcast.core.plan import SCHEDULES, Plan
from perfcast.core.plans.table import PlanTable
from perfcast.core.work import Layer, StageWork, StepWork
from perfcast.simulate.closed_form.figures import call_figures, layer_figures, side_figures
from perfcast.simulate.layer import CallsTime
from perfcast.simulate.part_times import passes_of, time_parts
from perfcast.workload.plan_columns.calls import Calls
from perfcast.workload.plan_columns.cuts import Cuts


@dataclass(frozen=True, eq=False)
class PartCosts:
    """Figures of the parts of n plans.

    Attributes:
        cuts: Which layers stand where.
        layers: Of each kind, [part, figure, different combination].
        layer_place: Of each kind, which combination is each plan's; shape [kinds, n].
        sides: [part, figure, kind, combination].
        has_sides: Whether there are such calls, [part, kind, combination].
        side_place: Shape [n].
        optimizers: [figure, different one].
        optimizer_leads: For how long the host must have been issuing it before it starts, [different one].
        optimizer_communicates: Whether ranks wait for one another in it, [different one].
        optimizer_place: [n, most different stages of a cut].
        boundaries: Seconds of each different message to the next stage; ``boundary_place`` says which is each
            plan's, [n].
        same_passes: A number that is equal where all layers and what stands beside them are, [n].
        num_operations: Different ones that were priced.
        slowdown: Factors of compute and of communication while both run.
    """

    cuts: Cuts
    layers: tuple[Floats, ...]
    layer_place: Integers
    sides: Floats
    has_sides: Flags
    side_place: Integers
    optimizers: Floats
    optimizer_leads: Floats
    optimizer_communicates: Flags
    optimizer_place: Integers
    boundaries: Floats
    boundary_place: Integers
    same_passes: Integers
    num_operations: int
    slowdown: tuple[float, float]


def cost_parts(
    calls: Calls,
    plans: PlanTable,
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float,
    slowdown: tuple[float, float],
) -> PartCosts:
    """Play every different part once.

    Args:
        seconds: Of one run of each operation.
        launch_seconds, slowdown: As ``simulate.part_times.time_parts`` takes them.
    """
    splits = np.isin(plans.schedule, [SCHEDULES.index(name) for name in ("zero_bubble", "dualpipe")])
    forwards = {id(layer.forward): layer.forward for kind in calls.kinds for layer in kind.layers}
    backwards = {id(layer.backward): layer.backward for kind in calls.kinds for layer in kind.layers}
    beside = tuple(layer for row in calls.sides.layers for layer in row)
    work = StepWork(
        Plan(),
        (
            *(Layer("", c) for c in forwards.values()),
            *(Layer("", (), c) for c in backwards.values()),
            *beside,
        ),
        tuple(StageWork((), optimizer) for optimizer in calls.optimizers.calls),
    )
    times = time_parts(
        work, seconds, launch_seconds=launch_seconds, slowdown=slowdown, splits_backward=bool(splits.any())
    )
    of_forward = dict(zip(forwards, times.layers, strict=False))
    of_backward = dict(zip(backwards, times.layers[len(forwards) :], strict=False))

    def passes(layer: Layer) -> tuple[CallsTime, CallsTime, CallsTime, CallsTime]:
        there, back = of_forward[id(layer.forward)].forward, of_backward[id(layer.backward)]
        both = passes_of(layer, there, back.backward, slowdown)
        return *both, back.input_gradient, back.weight_gradient

    layers = tuple(layer_figures(map(passes, kind.layers)) for kind in calls.kinds)
    beside_times = times.layers[len(forwards) + len(backwards) :]
    sides = side_figures(beside_times).reshape(3, 3, -1, len(calls.kinds)).transpose(0, 1, 3, 2)
    parts = [
        [[bool(part) for part in (side.gather, side.gather_again, side.gradient_reduction)] for side in row]
        for row in calls.sides.layers
    ]
    places = np.stack([kind.place for kind in calls.kinds])
    return PartCosts(
        cuts=calls.cuts,
        layers=layers,
        layer_place=places,
        sides=sides,
        has_sides=np.array(parts).transpose(2, 1, 0),
        side_place=calls.sides.place,
        optimizers=np.array([call_figures(time) for time in times.optimizers]).T,
        optimizer_leads=np.array([time.lead_seconds for time in times.optimizers]),
        optimizer_communicates=np.array(
            [any(c.is_collective for c in one) for one in calls.optimizers.calls]
        ),
        optimizer_place=calls.optimizers.place,
        boundaries=np.array([0.0 if m is None else seconds[m] for m in calls.messages]),
        boundary_place=calls.message_place,
        same_passes=different_rows([*places, calls.sides.place])[1],
        num_operations=len(seconds),
        slowdown=slowdown,
    )
