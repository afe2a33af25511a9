"""Seconds of all different parts of many plans' steps: operations priced once, parts played once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.operation import Operation
from perfcast.core.plan import SCHEDULES, Plan
from perfcast.core.plan_table import PlanTable
from perfcast.core.work import Layer, StageWork, StepWork
from perfcast.simulate.layer import CallsTime
from perfcast.simulate.part_times import LayerTime, PartTimes, time_parts
from perfcast.workload.plan_columns.cuts import Cuts, cut_models
from perfcast.workload.plan_columns.layers import KindCalls, Setting, kind_calls
from perfcast.workload.plan_columns.sides import (
    OptimizerCalls,
    SideCalls,
    boundaries,
    side_calls,
    stage_optimizers,
)
from perfcast.workload.plan_columns.weights import kind_weights

#: Rows of the figures of a sequence of calls; behind them one for each of ``CAUSES``.
SECONDS, OWN, HOST, FIRST_CAUSE = range(4)
NUM_FIGURES = FIRST_CAUSE + len(CAUSES)
COMPUTE, RECOMPUTE, OPTIMIZER, DATA = (
    FIRST_CAUSE + CAUSES.index(cause) for cause in ("compute", "recompute", "optimizer", "data")
)
#: Parts of a layer, and of what stands beside it; rows of a side's figures.
FORWARD, BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = range(4)
GATHER, GATHER_AGAIN, EXCHANGE = range(3)
SIDE_SECONDS, SIDE_COMPUTE, SIDE_HOST = range(3)


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
        optimizer_exchanges: Whether ranks wait for one another in it, [different one].
        optimizer_place: [n, most different stages of a cut].
        boundaries: Seconds of each different message to the next stage; ``boundary_place`` says which is each
            plan's, [n].
        same_passes: A number that is equal where all layers and what stands beside them are, [n].
        num_operations: Different ones that were priced.
    """

    cuts: Cuts
    layers: tuple[Floats, ...]
    layer_place: Integers
    sides: Floats
    has_sides: Flags
    side_place: Integers
    optimizers: Floats
    optimizer_leads: Floats
    optimizer_exchanges: Flags
    optimizer_place: Integers
    boundaries: Floats
    boundary_place: Integers
    same_passes: Integers
    num_operations: int


@dataclass(frozen=True)
class Calls:
    """All different calls of many plans."""

    cuts: Cuts
    kinds: tuple[KindCalls, ...]
    sides: SideCalls
    optimizers: OptimizerCalls
    messages: tuple[Operation | None, ...]
    message_place: Integers

    def operations(self) -> tuple[Operation, ...]:
        """Different ones, each once."""
        by_identity = {id(operation): operation for operation in self._all()}
        return tuple(dict.fromkeys(by_identity.values()))

    def layers(self) -> Iterator[Layer]:
        """Those of all kinds, then those beside them."""
        for kind in self.kinds:
            yield from kind.layers
        for row in self.sides.layers:
            yield from row

    def _all(self) -> Iterator[Operation]:
        for layer in self.layers():
            for calls in layer.parts():
                yield from (call.operation for call in calls)
        for calls in self.optimizers.calls:
            yield from (call.operation for call in calls)
        yield from (message for message in self.messages if message is not None)


def collect_calls(setting: Setting, plans: PlanTable) -> Calls:
    """What ranks run under every plan, each different part once.

    Raises:
        PlanError: A plan that cannot cut the model.
    """
    cuts = cut_models(setting, plans)
    weights = kind_weights(setting, plans, cuts.kinds)
    sides = side_calls(setting, plans, weights, cuts.kinds)
    return Calls(
        cuts,
        tuple(kind_calls(setting, plans, kind) for kind in cuts.kinds),
        sides,
        stage_optimizers(setting, plans, cuts, weights, sides),
        *boundaries(setting, plans),
    )


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
    layers = [
        _layer_figures([(of_forward[id(one.forward)], of_backward[id(one.backward)]) for one in kind.layers])
        for kind in calls.kinds
    ]
    start = len(forwards) + len(backwards)
    num_kinds = len(calls.kinds)
    sides = _side_figures(times, start).reshape(3, 3, -1, num_kinds).transpose(0, 1, 3, 2)
    exists = np.array(
        [[[bool(part) for part in (s.gather, s.gather_again, s.exchange)] for s in row]
         for row in calls.sides.layers]
    ).transpose(2, 1, 0)  # fmt: skip
    messages = np.array([0.0 if m is None else seconds[m] for m in calls.messages])
    places = np.stack([kind.place for kind in calls.kinds])
    same = different_rows([*places, calls.sides.place])[1]
    return PartCosts(
        calls.cuts, tuple(layers), places,
        sides, exists, calls.sides.place,
        np.array([_figures(time) for time in times.optimizers]).T,
        np.array([time.lead_seconds for time in times.optimizers]),
        np.array([any(c.is_collective for c in found) for found in calls.optimizers.calls]),
        calls.optimizers.place, messages, calls.message_place, same, len(seconds),
    )  # fmt: skip


def _layer_figures(times: Sequence[tuple[LayerTime, LayerTime]]) -> Floats:
    """From the times of forwards and of backwards, [part, figure, layer]."""
    rows = [
        [_figures(part) for part in (one.forward, two.backward, two.input_gradient, two.weight_gradient)]
        for one, two in times
    ]
    return np.ascontiguousarray(np.array(rows).transpose(1, 2, 0))


def _figures(time: CallsTime) -> list[float]:
    causes = [time.seconds_by_cause.get(cause, 0.0) for cause in CAUSES]
    return [time.seconds, time.compute_seconds, time.host_seconds, *causes]


def _side_figures(times: PartTimes, start: int) -> Floats:
    """Of all layers from ``start`` on, [part, figure, layer]."""
    rows = [
        [[s.seconds, s.compute_seconds, s.host_seconds] for s in (t.gather, t.gather_again, t.exchange)]
        for t in times.layers[start:]
    ]
    return np.array(rows).transpose(1, 2, 0)
