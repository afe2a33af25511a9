"""All different calls of many plans: what is priced once and played once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfcast.core.arrays import Integers
from perfcast.core.operation import Operation
from perfcast.core.plans.table import PlanTable
from perfcast.core.work import Layer
from perfcast.frameworks.tuning import check_trained
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
    check_trained(setting.model, setting.training)
    cuts = cut_models(setting, plans)
    weights = kind_weights(setting, plans, cuts.kinds)
    return Calls(
        cuts,
        tuple(kind_calls(setting, plans, kind) for kind in cuts.kinds),
        side_calls(setting, plans, weights, cuts.kinds),
        stage_optimizers(setting, plans, cuts, weights),
        *boundaries(setting, plans),
    )
