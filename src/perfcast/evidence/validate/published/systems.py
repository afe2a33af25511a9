"""The cluster that a published run had: one of the catalog, with the network that the line states."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from perfcast.catalogs.clusters import ClusterEntry, load_cluster_entries, load_cluster_entry
from perfcast.catalogs.devices import load_device
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.evidence.validate.collectives.systems import cluster_name
from perfcast.evidence.validate.runs.lines import Line, UnreadableError
from perfcast.units import GIGA, MICRO

#: Kinds of networks by word; what a line names otherwise is taken for the catalog's.
_KINDS = (
    (r"\befa\b", "efa"),
    (r"omni-?path", "infiniband-opa"),
    (r"tcpxo?", "roce"),
    (r"roce", "roce"),
    (r"\bib\b|infiniband", "infiniband"),
    (r"ethernet", "ethernet"),
)
#: Latencies of kinds that the catalog's own link may not have (sources: catalogs/data/clusters).
_LATENCY_SECONDS = {"efa": 15.5 * MICRO, "roce": 3 * MICRO, "infiniband": 2 * MICRO, "ethernet": 25 * MICRO}
#: Least rate that is believed to be the network between nodes, not a management port.
_LEAST_GBIT = 150
#: From this rate on, "Ethernet" means RDMA over it, or is a further port beside the network for compute.
_LEAST_DIRECT_GBIT = 800
#: Devices of the largest host; a larger innermost level is a rack that is one NVLink domain.
_LARGEST_HOST = 16
_BITS = 8


def published_cluster(line: Line, device: str) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster of a line's run, as many devices as it used, and what was assumed of it.

    Raises:
        UnreadableError: No cluster of the catalog has the device.
    """
    count = line.whole("num_gpus")
    entry = _entry(line, device)
    host = math.prod(level.size for level in entry.levels[:-1])
    per_node = min(count, _domain(host, count, line.whole("gpus_per_node", min(host, 8))))
    nodes = -(-count // per_node)
    inner, outer = entry.levels[0].link, entry.levels[-1].link
    if per_node == host:
        base = entry.of_size(per_node * nodes)
        levels = base.levels[:-1]
    else:
        levels = (Level(entry.levels[0].name, per_node, inner),)
    network, assumed = _network(line, outer, line.whole("gpus_per_node", min(host, 8)))
    if nodes == 1:
        network, assumed = outer, ()
    levels = (*levels, Level(entry.levels[-1].name, nodes, network))
    return Cluster(entry.name, entry.title, device, levels), assumed


def _entry(line: Line, device: str) -> ClusterEntry:
    words = f"{line.text('gpu')} {line.text('interconnect')}"
    for name in (cluster_name(words), cluster_name(device)):
        if name is not None and _has_die(load_cluster_entry(name), device):
            return load_cluster_entry(name)
    entries = load_cluster_entries().values()
    found = [entry for entry in entries if entry.device == device]
    found = found or [entry for entry in entries if _has_die(entry, device)]
    found = found or [e for e in entries if _architecture(e.device) == _architecture(device)]
    if not found:
        raise UnreadableError("unknown device")
    return found[0]


def _architecture(device: str) -> str:
    return load_device(device).architecture


def _has_die(entry: ClusterEntry, device: str) -> bool:
    """Whether the cluster's devices are of the same kind: same architecture, same way to its neighbours."""
    mine, theirs = load_device(device), load_device(entry.device)
    return mine.architecture == theirs.architecture and mine.link_kind == theirs.link_kind


def _domain(host: int, count: int, stated: int) -> int:
    """Devices that the innermost links join: a host's, or what a job takes of a rack that is one domain."""
    if host <= _LARGEST_HOST:
        return stated
    if count <= host:
        return count
    return max((d for d in range(stated, host + 1, stated) if count % d == 0), default=stated)


def _network(line: Line, catalog: Link, per_host: int) -> tuple[Link, tuple[str, ...]]:
    """The link between nodes: the stated rate, else the catalog's."""
    words = line.text("interconnect")
    rate = _compute_gbit(words) or line.number("inter_node_gbit_per_s_per_node") or _plain_gbit(words)
    if not rate or rate < _LEAST_GBIT:
        return catalog, (f"the network of the catalog's cluster ({catalog.kind})",)
    kind = next((kind for word, kind in _KINDS if re.search(word, words.lower())), catalog.kind)
    if catalog.kind.startswith(kind) or (kind == "ethernet" and rate >= _LEAST_DIRECT_GBIT):
        kind = catalog.kind
    known = next((seconds for name, seconds in _LATENCY_SECONDS.items() if kind.startswith(name)), None)
    return replace(
        catalog,
        kind=kind,
        latency_seconds=known or catalog.latency_seconds,
        bytes_per_second=rate * GIGA / _BITS / per_host,
        port_bytes_per_second=0.0,
    ), ()


def _compute_gbit(words: str) -> float | None:
    """Of adapters that a list of several calls those for compute: 'Compute: 8x … 400Gb/s'."""
    part = re.search(r"compute:\s*(\d+)x[^,]*?(\d+)\s*gb(?:/s|/sec|ps)", words.lower())
    part = part or re.search(
        r"(\d+)x[^,|]*(?:infiniband|\bib\b)[^,|]*?(\d+)\s*gb(?:/s|/sec|ps)", words.lower()
    )
    return float(part[1]) * float(part[2]) if part else None


def _plain_gbit(words: str) -> float | None:
    """'400 Gbps' of a node."""
    part = re.search(r"(\d+)\s*gbps", words.lower())
    return float(part[1]) if part else None
