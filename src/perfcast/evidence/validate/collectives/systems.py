"""Which cluster of the catalog a row of measured collectives was taken on, by its configuration alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.core.machine.cluster import Cluster
from perfcast.errors import PlanError

#: Words of a row's device, interconnect and notes → cluster; the first that is found counts.
_RULES = (
    (r"p6e.gb200", "aws-p6e-gb200"),
    (r"p6.b300", "aws-p6-b300"),
    (r"p6.b200", "aws-p6-b200"),
    (r"p5en", "aws-p5en"),
    (r"\bp5\b|p5\.48|h100.*\befa\b", "aws-p5"),
    (r"p4de", "aws-p4de"),
    (r"p4d", "aws-p4d"),
    (r"nd ?a100 ?v4", "azure-nd-a100-v4"),
    (r"nd ?h100 ?v5", "azure-nd-h100-v5"),
    (r"nc96ads", "azure-nc-a100-v4"),
    (r"a3.mega", "gcp-a3-mega"),
    (r"a3.ultra", "gcp-a3-ultra"),
    (r"a100.*pairwise", "a100-pcie-pairs"),
    (r"h100.*pairwise", "h100-nvl-pairs"),
    (r"a40.*pairwise", "a40-pairs"),
    (r"pcie gen ?4", "a100-pcie"),
    (r"pcie gen ?5", "h100-pcie"),
    (r"gb300", "gb300-nvl72"),
    (r"gb200", "gb200-nvl72"),
    (r"b300", "hgx-b300"),
    (r"b200", "hgx-b200"),
    (r"h200", "dgx-h200"),
    (r"h100.*\bsharp\b.*multi-node", "dgx-h100-sharp"),
    (r"h800", "hgx-h800"),
    (r"h100", "dgx-h100"),
    (r"h20\b", "hgx-h20"),
    (r"l40s", "l40s-pcie"),
    (r"a40\b", "a40-pcie"),
    (r"a100.*pcie", "a100-pcie"),
    (r"a800", "hgx-a800"),
    (r"a100", "dgx-a100"),
    (r"v100.*nvswitch|dgx.?2", "dgx-2"),
    (r"v100", "dgx-1-v100"),
    (r"mi300x", "mi300x"),
    (r"mi325x", "mi325x"),
    (r"mi350x", "mi350x"),
    (r"mi355x", "mi355x"),
    (r"mi250x?", "frontier-mi250x"),
)
#: Of nodes whose network is named without its rate.
_UNSTATED_NETWORK = {"dgx-a100": "hgx-a100-host-staged"}
#: Devices of the largest host; larger levels join several.
_LARGEST_HOST = 16


@dataclass(frozen=True)
class Placed:
    """Where a group lies: a cluster just large enough, and its members on every level."""

    cluster: Cluster
    span: tuple[int, ...]


def cluster_name(words: str, num_nodes: int = 1) -> str | None:
    """The catalog's name for what a row says of its system, or None.

    >>> cluster_name("H100-SXM5-80GB NVLink4 + EFA 3200Gb/s per node (p5.48xlarge)")
    'aws-p5'
    """
    text = words.lower().replace("_", " ")
    name = next((name for pattern, name in _RULES if re.search(pattern, text)), None)
    if name is None or num_nodes == 1 or re.search(r"gb/s|gbps|tb/s|\befa\b", text):
        return name
    return _UNSTATED_NETWORK.get(name, name)


@cache
def place(name: str, num_gpus: int, num_nodes: int) -> Placed | None:
    """A group of equally many members on each of some nodes; None where the cluster has no such nodes.

    All levels but the outermost make up a node. What fits into one is in one (a rack that is one NVLink
    domain), however many hosts it is spread over.
    """
    entry = load_cluster_entry(name)
    inner = [level.size for level in entry.levels[:-1]]
    capacity = 1
    for size in inner:
        capacity *= size
    nodes = 1 if num_gpus <= capacity and capacity > _LARGEST_HOST else num_nodes
    if num_gpus % nodes or num_gpus // nodes > capacity:
        return None
    left, span = num_gpus // nodes, []
    for size in inner:
        members = min(left, size)
        if left % members:
            return None
        span.append(members)
        left //= members
    try:
        cluster = entry.of_size(capacity * nodes)
    except PlanError:
        return None
    return Placed(cluster, (*span, nodes))
