"""The order that dependencies impose: flows that wait for each other must not be taken for one."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Flags, Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.flows import FlowSet


def stages_and_depths(flows: FlowSet) -> tuple[Integers, Integers]:
    """How many complete stages go before each flow, and how many messages of the same number.

    A flow's stage is the most dependencies with a negative lag on a way to it, its depth the most with lag 0.
    Where kinds of flows are equal in both, (stage, message, depth) falls along every dependency of kinds, so
    waiting for all flows of a kind can never go round in a circle.

    Raises:
        PlanError: Flows that wait for each other in a circle.
    """
    all_of_them = np.ones(len(flows.lag), dtype=np.bool_)
    is_level = flows.lag == 0
    return _longest(flows, flows.lag < 0, all_of_them), _longest(flows, is_level, is_level)


def _longest(flows: FlowSet, counts: Flags, matters: Flags) -> Integers:
    """The most counted dependencies on a way to each flow over those that matter."""
    waiting, awaited, step = flows.waiting[matters], flows.awaited[matters], counts[matters].astype(np.int64)
    found = np.zeros(flows.num_flows, dtype=np.int64)
    while True:
        longer = found.copy()
        np.maximum.at(longer, waiting, found[awaited] + step)
        if (longer == found).all():
            return found
        if longer.max() >= flows.num_flows:
            raise PlanError("flows wait for each other in a circle")
        found = longer
