"""A folder that ASTRA-sim 2 takes as it is: a workload of Chakra traces, and what it runs on.

``workload.N.et`` for every rank N, ``comm_groups.json``, ``system.json``, ``network.yml`` and
``remote_memory.json`` for the analytical network, ``logical_topology.json`` for the packet-level one, and
``run.sh`` with the command. What ASTRA-sim does with a trace (astra-sim/workload of github.com/astra-sim):

* a node is issued when all that it depends on has ended, the lowest id first; a processor, an accelerator and
  its network each do one thing at a time;
* a node's duration counts, in microseconds, at least one nanosecond (0 µs is written as such);
* collectives are carried out by the algorithms of ``system.json`` from ``comm_size``, what one rank puts in:
  all-reduce, all-gather, reduce-scatter and all-to-all; a broadcast takes its recorded duration; other kinds
  are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcast.core.machine.cluster import Cluster
from perfcast.errors import TraceError
from perfcast.files.writing import make_folder, write_text_atomically
from perfcast.traces.chakra.collectives import WORLD
from perfcast.traces.chakra.order import missing_dependencies
from perfcast.traces.chakra.play import collective_members, lonely_messages
from perfcast.traces.chakra.trace import (
    ChakraAttribute,
    ChakraNode,
    ChakraTrace,
    ChakraWorkload,
    CollectiveType,
    NodeType,
)
from perfcast.traces.chakra.writer import write_chakra
from perfcast.units import GIB, MICRO, MILLI

PREFIX = "workload"
#: What ASTRA-sim carries out itself.
_CARRIED_OUT = frozenset(
    {
        CollectiveType.ALL_REDUCE,
        CollectiveType.ALL_GATHER,
        CollectiveType.REDUCE_SCATTER,
        CollectiveType.ALL_TO_ALL,
    }
)
#: Attributes whose absence ASTRA-sim refuses, by the type of node.
_NEEDED: Mapping[int, tuple[str, ...]] = {
    NodeType.COLLECTIVE: ("comm_type", "comm_size"),
    NodeType.SEND: ("comm_dst", "comm_size", "comm_tag"),
    NodeType.RECEIVE: ("comm_src", "comm_size", "comm_tag"),
}


@dataclass(frozen=True)
class NetworkDimension:
    """One dimension of ASTRA-sim's analytical network, the innermost first.

    Attributes:
        topology: 'Ring', 'Switch' or 'FullyConnected'.
        bytes_per_second, latency_seconds: Of a link.
    """

    topology: str
    size: int
    bytes_per_second: float
    latency_seconds: float


def dimensions_of(cluster: Cluster) -> tuple[NetworkDimension, ...]:
    """A cluster's levels that join more than one child; none of a single device."""
    return tuple(
        NetworkDimension(
            "Switch" if level.link.is_switched else "Ring",
            level.size,
            level.link.bytes_per_second,
            level.link.latency_seconds,
        )
        for level in cluster.levels
        if level.size > 1
    )


def network_of(workload: ChakraWorkload) -> tuple[NetworkDimension, ...]:
    """A ring with the bandwidth and latency that the workload's collectives reach at best.

    A collective among n ranks moves bytes over each link of a ring in some steps: 2 (n - 1) / n of what one
    rank puts in and 2 (n - 1) steps for an all-reduce, half of both for a reduce-scatter or an all-to-all,
    (n - 1) times its part in n - 1 steps for an all-gather; a message moves its own in one. Bandwidth is the
    most bytes a second of all, latency the shortest step.

    Raises:
        TraceError: Several ranks, but no collective or message whose size and duration are known.
    """
    ranks, sizes = len(workload.traces), {group.name: len(group.ranks) for group in workload.groups}
    rates, steps = [], []
    for trace in workload.traces:
        for node in trace.nodes:
            members = sizes.get(node.group, ranks)
            moved, count = _ring(node, members)
            if moved and node.duration_micros:
                rates.append(moved / node.seconds)
                steps.append(node.seconds / count)
    if not rates and ranks > 1:
        raise TraceError(
            "no collective or message of a known size tells how fast the network is: name it "
            "(--cluster NAME:N), or give the execution traces too, which know sizes"
        )
    return (NetworkDimension("Ring", ranks, max(rates), min(steps)),) if ranks > 1 else ()


def _ring(node: ChakraNode, members: int) -> tuple[float, int]:
    """Bytes over each link of a ring, and steps; 0 for what is no collective or message of a known size."""
    if node.type in (NodeType.SEND, NodeType.RECEIVE):
        return float(node.number("comm_size")), 1
    if node.type != NodeType.COLLECTIVE or members < 2:
        return 0.0, 0
    size, others = node.number("comm_size"), members - 1
    match node.number("comm_type", -1):
        case CollectiveType.ALL_REDUCE:
            return 2 * size * others / members, 2 * others
        case CollectiveType.REDUCE_SCATTER | CollectiveType.ALL_TO_ALL:
            return size * others / members, others
        case CollectiveType.ALL_GATHER:
            return float(size * others), others
    return 0.0, 0


def write_folder(workload: ChakraWorkload, folder: str | Path) -> tuple[Path, ...]:
    """One file for each rank, and the process groups; returns what was written.

    Raises:
        TraceError: Two traces of one rank.
        InputError: The folder cannot be written.
    """
    if len({trace.rank for trace in workload.traces}) < len(workload.traces):
        raise TraceError("two of the traces are of one rank: give one recording for each rank")
    place = make_folder(folder)
    written = []
    for trace in workload.traces:
        written.append(place / f"{PREFIX}.{trace.rank}.et")
        write_chakra(trace, written[-1])
    groups = {group.name: list(group.ranks) for group in workload.groups}
    written.append(place / "comm_groups.json")
    write_text_atomically(written[-1], json.dumps(groups, indent=2) + "\n")
    return tuple(written)


def write_astra_sim(
    workload: ChakraWorkload, folder: str | Path, network: Sequence[NetworkDimension]
) -> tuple[Path, ...]:
    """The folder of a workload of all ranks on a network.

    Raises:
        TraceError: Ranks or numbers that ASTRA-sim would not take.
        InputError: The folder cannot be written.
    """
    fitted = fit_for_astra_sim(workload)
    ranks = len(fitted.traces)
    size = 1
    for dimension in network:
        size *= dimension.size
    if size != ranks:
        raise TraceError(f"a network of {size} devices for {ranks} ranks")
    found = objections(fitted)
    if found:
        raise TraceError(f"ASTRA-sim would not take it: {found[0]}")
    written = list(write_folder(fitted, folder))
    for name, text in _files(network, bool(fitted.groups)).items():
        written.append(Path(folder) / name)
        write_text_atomically(written[-1], text)
    return tuple(written)


def _files(network: Sequence[NetworkDimension], has_groups: bool) -> dict[str, str]:
    system = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        **{f"{kind}-implementation": [_ALGORITHMS[d.topology] for d in network] for kind in _KINDS},
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        "peak-perf": 900,
        "roofline-enabled": 0,
        "boost-mode": 0,
        "replay-only": 0,
        "trace-enabled": 0,
        "track-local-mem": 0,
    }
    return {
        "system.json": json.dumps(system, indent=2) + "\n",
        "network.yml": _network_text(network),
        "remote_memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}, indent=2) + "\n",
        "logical_topology.json": json.dumps({"logical-dims": [str(d.size) for d in network]}, indent=2)
        + "\n",
        "run.sh": _command(has_groups),
    }


_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_ALGORITHMS: Mapping[str, str] = {"Ring": "ring", "Switch": "ring", "FullyConnected": "direct"}


def _network_text(network: Sequence[NetworkDimension]) -> str:
    def row(values: Sequence[object]) -> str:
        return f"[ {', '.join(map(str, values))} ]"

    return (
        f"topology: {row([d.topology for d in network])}\n"
        f"npus_count: {row([d.size for d in network])}\n"
        f"bandwidth: {row([round(d.bytes_per_second / GIB, 6) for d in network])}  # GB/s of 2^30 bytes\n"
        f"latency: {row([round(d.latency_seconds / (MICRO * MILLI), 3) for d in network])}  # ns\n"
    )


def _command(has_groups: bool) -> str:
    groups = '"$here/comm_groups.json"' if has_groups else "empty"
    return f"""#!/bin/sh
# ASTRA_SIM is the path of AstraSim_Analytical_Congestion_Unaware or _Aware, built from
# github.com/astra-sim/astra-sim (build/astra_analytical/build.sh).
here=$(cd "$(dirname "$0")" && pwd)
exec "${{ASTRA_SIM:?}}" \\
  --workload-configuration="$here/{PREFIX}" \\
  --comm-group-configuration={groups} \\
  --system-configuration="$here/system.json" \\
  --network-configuration="$here/network.yml" \\
  --remote-memory-configuration="$here/remote_memory.json"
"""


def fit_for_astra_sim(workload: ChakraWorkload) -> ChakraWorkload:
    """The same with what ASTRA-sim cannot carry out taking its duration, and no message of less than a byte.

    Messages of which only one end, or no size, was recorded become computing: the simulator would wait for
    the other end for ever.

    Raises:
        TraceError: One rank alone; ranks that are not 0, 1, …
    """
    if len(workload.traces) == 1:
        raise TraceError(
            "ASTRA-sim takes two ranks or more (its network refuses a single device), and this is one: give "
            "the recordings of all ranks, or leave --astra-sim out"
        )
    ranks = sorted(trace.rank for trace in workload.traces)
    if ranks != list(range(len(ranks))):
        raise TraceError(
            f"ASTRA-sim needs all ranks from 0 on; there are {', '.join(map(str, ranks[:8]))}"
            f"{' …' if len(ranks) > 8 else ''}"
        )
    sizes = {group.name: len(group.ranks) for group in workload.groups}
    lonely = lonely_messages(workload)
    traces = tuple(
        replace(
            trace,
            nodes=tuple(
                _fitted(node, sizes.get(node.group, len(ranks)), node.id in lonely[trace.rank])
                for node in trace.nodes
            ),
        )
        for trace in workload.traces
    )
    return replace(workload, traces=traces)


def _fitted(node: ChakraNode, members: int, is_lonely: bool) -> ChakraNode:
    if node.type in (NodeType.SEND, NodeType.RECEIVE):
        is_known = not is_lonely and node.number("comm_size") > 0
        return node if is_known else replace(node, type=NodeType.COMPUTE)
    if node.type != NodeType.COLLECTIVE:
        return node
    size, kind = node.number("comm_size"), node.number("comm_type", -1)
    if kind in _CARRIED_OUT and size > 0:
        return _with(node, "comm_size", max(size, members))
    return _with(node, "comm_type", int(CollectiveType.BROADCAST))


def _with(node: ChakraNode, name: str, value: int) -> ChakraNode:
    attributes = tuple(
        ChakraAttribute(one.name, one.kind, value, one.description) if one.name == name else one
        for one in node.attributes
    )
    return replace(node, attributes=attributes)


def objections(workload: ChakraWorkload) -> tuple[str, ...]:
    """What ASTRA-sim's reader would stumble over, in words; nothing if it takes the workload."""
    found = [objection for trace in workload.traces for objection in _of_rank(trace, workload)]
    if len(workload.traces) > 1:
        found += [
            f"rank {rank}: node {node} is a message of which no other trace has the other end"
            for rank, nodes in lonely_messages(workload).items()
            for node in sorted(nodes)
        ]
    try:
        collective_members(workload)
    except TraceError as error:
        found.append(str(error))
    return tuple(found)


def _of_rank(trace: ChakraTrace, workload: ChakraWorkload) -> list[str]:
    name, known = f"rank {trace.rank}", {group.name: group.ranks for group in workload.groups}
    found = [
        f"{name}: node {node} depends on {other}, which is not there"
        for node, other in missing_dependencies(trace)
    ]
    if not any(not node.data_deps and node.type != NodeType.METADATA for node in trace.nodes):
        found.append(f"{name}: no node to begin with")
    for node in trace.nodes:
        where = f"{name}: node {node.id}"
        needed = _NEEDED.get(node.type, ())
        found += [f"{where} has no {attribute}" for attribute in needed if node.value(attribute) is None]
        if not NodeType.INVALID <= node.type <= NodeType.COLLECTIVE:
            found.append(f"{where} is of type {int(node.type)}, which is not simulated")
        if needed and node.is_on_host:
            found.append(f"{where} communicates, but runs on a processor")
        if node.group not in ("", WORLD) and trace.rank not in known.get(node.group, ()):
            found.append(f"{where} is of process group {node.group}, in which the rank is not")
        if node.type == NodeType.COLLECTIVE and node.number("comm_type", -1) not in (
            *_CARRIED_OUT,
            CollectiveType.BROADCAST,
        ):
            found.append(f"{where} is a collective that is not simulated")
    return found
