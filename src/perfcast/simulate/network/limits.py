"""What of a network is simulated: its cost is known before any link or flow is made.

Flows are counted by how an algorithm grows with its group: n (n - 1) where every rank sends to every other,
else no more than some for each rank. Four million flows take some 2 GB and half a minute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcast.errors import PlanError
from perfcast.ranges import Range
from perfcast.simulate.network.collectives import algorithms

#: Devices and links of a network, and flows that share them.
DEVICES = Range(
    1, 262_144, "simulate one part of the cluster, or leave --network out: closed forms have no limit"
)
LINKS = Range(0, 10_000_000, "take fewer routers of a group, or fewer devices")
FLOWS = Range(
    0, 8_000_000, "take smaller groups (--mesh, --axes) or an algorithm of fewer flows, such as ring"
)
#: Algorithms by which every rank of a group sends to every other by itself.
_OF_PAIRS = ("direct", "pairwise")
#: Collectives whose direct algorithm has one root.
_OF_A_ROOT = ("broadcast", "reduce", "gather_to_root", "scatter_from_root", "send", "receive")


def count_flows(collective: str, algorithm: str, num_groups: int, span: Sequence[int]) -> int:
    """About as many flows as equal groups make, at most.

    Args:
        span: Of a group on each level of the cluster.
    """
    size = math.prod(span)
    if algorithm == "rings":
        return num_groups * size * span[0]
    if algorithm in _OF_PAIRS and collective not in _OF_A_ROOT:
        return num_groups * size * (size - 1)
    return num_groups * size * max(2 * (size - 1).bit_length(), 1)


def check_cost(num_devices: int, collective: str, algorithm: str, span: Sequence[int]) -> None:
    """Raise where a simulation of all groups would take more than a machine has.

    Raises:
        PlanError: Too many devices or flows; says how many, the limit and what to do.
        UnknownNameError: No such collective.
    """
    DEVICES.check("devices of a simulated network:", num_devices, PlanError)
    if algorithm in algorithms(collective):
        flows = count_flows(collective, algorithm, num_devices // math.prod(span), span)
        FLOWS.check(f"flows of {collective} ({algorithm}):", flows, PlanError)
