"""The plans of a space, or why there is none."""

from __future__ import annotations

from perfcast.core.model.transformer import Transformer
from perfcast.core.plans.table import PlanTable
from perfcast.errors import PlanError
from perfcast.searches.space.definition import Space
from perfcast.searches.space.impossible import Job, explain_none
from perfcast.searches.space.listing import list_cores, map_plans


def enumerate_plans(
    model: Transformer, num_devices: int, global_batch_size: int, sequence_length: int, space: Space
) -> PlanTable:
    """All plans of a space, in a fixed order.

    Raises:
        PlanError: There is none; the message names the fewest fixed values that leave none, and why.
        UnknownNameError: A fixed key that is none.
    """
    cores = enumerate_cores(model, num_devices, global_batch_size, sequence_length, space)
    plans = map_plans(cores, model, space)[0]
    if not len(plans):
        raise PlanError(explain_none(Job(model, num_devices, global_batch_size, sequence_length), space))
    return plans


def enumerate_cores(
    model: Transformer, num_devices: int, global_batch_size: int, sequence_length: int, space: Space
) -> PlanTable:
    """All plans but for how they lie in the network: those of the first choice stand for all.

    Raises:
        PlanError, UnknownNameError: As ``enumerate_plans``.
    """
    cores = list_cores(model, num_devices, global_batch_size, sequence_length, space)
    if not len(cores):
        raise PlanError(explain_none(Job(model, num_devices, global_batch_size, sequence_length), space))
    return cores
