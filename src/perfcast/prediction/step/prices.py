"""Prices of a step's operations: those of operations alone, and what a step makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.cost.prices import Prices, price_operations
from perfcast.prediction.step.scaling import scale_seconds


def price_step(
    operations: Sequence[Operation],
    device: Device,
    cluster: Cluster,
    cost_model: CostModel,
    training: Training | None,
) -> Prices:
    """Each different operation once, as it runs in a step (see ``step_scaling``).

    Raises:
        PlanError: A group that does not lie in the cluster; a precision that the device lacks.
    """
    prices = price_operations(operations, device, cost_model, cluster)
    middle, low, high = (
        scale_seconds(seconds, device, cluster, training)
        for seconds in (prices.seconds, prices.seconds_low, prices.seconds_high)
    )
    return Prices(middle, low, high, prices.provenance, prices.errs_as_one)


def seconds_on(
    device: Device, priced: Prices, cluster: Cluster, cost_model: CostModel, training: Training | None
) -> dict[Operation, float]:
    """What the operations of a step take on another device of the same cluster, whose links stay as they are.

    Args:
        priced: As they run in the step.

    Raises:
        PlanError: A precision that the device lacks.
    """
    kernels = [o for o in priced.seconds if o.kind is not OperationKind.COLLECTIVE]
    alone = price_operations(kernels, device, cost_model)
    return {**priced.seconds, **scale_seconds(alone.seconds, device, cluster, training)}
