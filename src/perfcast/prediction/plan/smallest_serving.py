"""The plan that cuts a model least of those whose memory holds what is to be served."""

from __future__ import annotations

from collections.abc import Callable

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.errors import PlanError
from perfcast.prediction.plan.smallest import least_cuts

#: How the plan is chosen, for the reader.
RULE = (
    "plan: the smallest tp · pp whose memory holds all batches, of equals the largest tp within a server, "
    "then the least ep"
)
#: Where no plan holds all of them.
RULE_OF_SMALLEST = RULE.replace("all batches", "the smallest batch, as none holds all")


def choose_smallest_serving_plan(
    model: Transformer,
    num_devices: int,
    server_devices: int,
    capacity_bytes: int,
    needs: Callable[[Plan], tuple[int, int]],
) -> tuple[Plan, str]:
    """The first plan, in the order of ``RULE``, whose devices hold every batch; else the smallest batch.

    Args:
        server_devices: Of the cluster's innermost level, within which tensor parallelism stays.
        needs: Bytes of a device under a plan, with the largest and with the smallest batch.

    Returns:
        The plan, and the rule that chose it.

    Raises:
        PlanError: None holds even the smallest batch, or none divides the batches.
    """
    second: Plan | None = None
    least: int | None = None
    for plan in least_cuts(model, num_devices, server_devices):
        try:
            largest, smallest = needs(plan)
        except PlanError:
            continue  # of another model's degrees, or of batches that it does not divide
        if largest <= capacity_bytes:
            return plan, RULE
        if second is None and smallest <= capacity_bytes:
            second = plan
        least = min(least or smallest, smallest)
    if second is not None:
        return second, RULE_OF_SMALLEST
    if least is None:
        raise PlanError(f"no plan divides the batches among {num_devices} devices; give --plan")
    ratio = least / capacity_bytes
    raise PlanError(
        f"no plan fits {num_devices} devices: the least takes {ratio:.2f} times the memory of one"
    )
