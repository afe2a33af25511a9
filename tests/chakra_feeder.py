"""How ASTRA-sim issues the nodes of Chakra traces, in a few lines, to be held against what is written.

As in astra-sim/workload (Workload.cc, HardwareResource.cc and the third feeder): a node is free when all
that it depends on has ended; of free nodes the lowest id goes first; a processor, an accelerator and its
network each do one thing at a time, timers nothing; durations are whole microseconds, and a nanosecond where
they are 0; collectives of a group run when all of it has issued them, and take what a ring of links takes;
messages when both ends have.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from perfcast.traces.chakra.trace import ChakraNode, ChakraTrace, ChakraWorkload

NANOS_PER_MICRO = 1000
METADATA, COMPUTE, SEND, RECEIVE, COLLECTIVE = 1, 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER = 0, 2, 5, 6, 7


@dataclass
class _Rank:
    trace: ChakraTrace
    waits_for: dict[int, set[int]] = field(default_factory=dict)
    free: set[int] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    issued: Counter[str] = field(default_factory=Counter)
    left: int = 0

    def __post_init__(self) -> None:
        ids = {node.id for node in self.trace.nodes}
        for node in self.trace.nodes:
            deps = set(node.data_deps) | set(node.ctrl_deps)
            assert deps <= ids, f"node {node.id} depends on a node that is not there"
            self.waits_for[node.id] = deps
        self.free = {node for node, deps in self.waits_for.items() if not deps}
        self.left = len(ids)

    def end(self, node_id: int) -> None:
        self.left -= 1
        for other, deps in self.waits_for.items():
            if node_id in deps:
                deps.remove(node_id)
                if not deps:
                    self.free.add(other)


def attribute(node: ChakraNode, name: str, default: object = None) -> object:
    """An attribute as the feeder finds it; one without default must be there."""
    for one in node.attributes:
        if one.name == name:
            return one.value
    assert default is not None, f"attribute {name} not found in node {node.id}"
    return default


def run(workload: ChakraWorkload, bytes_per_nano: float, latency_nanos: float) -> dict[int, int]:
    """Nanoseconds until each rank has finished; fails where ASTRA-sim would stop or never end."""
    ranks = {trace.rank: _Rank(trace) for trace in workload.traces}
    groups = {group.name: set(group.ranks) for group in workload.groups}
    running: list[tuple[int, int, int]] = []
    met: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    now, ended = 0, {}
    while True:
        for number, rank in ranks.items():
            for node_id in sorted(rank.free):
                node = rank.trace.by_id[node_id]
                unit = _unit(node)
                if unit in rank.busy:
                    continue
                rank.free.discard(node_id)
                if node.type == METADATA:
                    rank.end(node_id)
                    continue
                rank.busy |= {unit} if unit else set()
                if node.type in (SEND, RECEIVE):
                    _send(met, number, node, running, now, bytes_per_nano, latency_nanos)
                elif node.type == COLLECTIVE and attribute(node, "comm_type") != BROADCAST:
                    _meet(met, groups, ranks, number, node, running, now, bytes_per_nano, latency_nanos)
                else:
                    running.append((now + max(1, node.duration_micros * NANOS_PER_MICRO), number, node_id))
        if not running:
            break
        running.sort()
        now, number, node_id = running.pop(0)
        ranks[number].busy.discard(_unit(ranks[number].trace.by_id[node_id]))
        ranks[number].end(node_id)
        if not ranks[number].left:
            ended[number] = now
    assert len(ended) == len(ranks), "ranks wait for each other"
    return ended


def _unit(node: ChakraNode) -> str:
    if attribute(node, "is_timer_op", False):
        return ""
    if attribute(node, "is_cpu_op", False):
        return "processor"
    if node.type == RECEIVE:
        return ""
    return "accelerator" if node.type == COMPUTE else "network"


def _meet(met, groups, ranks, number, node, running, now, bytes_per_nano, latency_nanos) -> None:
    assert node.type == COLLECTIVE
    assert not attribute(node, "is_cpu_op", False), "a collective on a processor"
    name = attribute(node, "pg_name", "0")
    members = groups[name] if name not in ("", "0") else set(ranks)
    place = ranks[number].issued[name]
    ranks[number].issued[name] += 1
    here = met.setdefault((name, place), [])
    here.append((number, node.id))
    if {rank for rank, _ in here} == members:
        size, kind = attribute(node, "comm_size"), attribute(node, "comm_type")
        others = len(members) - 1
        assert size // len(members) > 0, "a message of no bytes"
        moved = {
            ALL_REDUCE: 2 * size * others / len(members), ALL_GATHER: size * others,
            REDUCE_SCATTER: size * others / len(members), ALL_TO_ALL: size * others / len(members),
        }[kind]  # fmt: skip
        steps = others * (2 if kind == ALL_REDUCE else 1)
        took = round(moved / bytes_per_nano + steps * latency_nanos)
        running += [(now + took, rank, node_id) for rank, node_id in here]


def _send(met, number, node, running, now, bytes_per_nano, latency_nanos) -> None:
    source, target = attribute(node, "comm_src", number), attribute(node, "comm_dst", number)
    assert number == (source if node.type == SEND else target), "a message of another rank"
    size = attribute(node, "comm_size")
    here = met.setdefault((f"{source} to {target}", attribute(node, "comm_tag"), size), [])
    here.append((number, node.id))
    if len(here) == 2:
        took = round(size / bytes_per_nano + latency_nanos)
        running += [(now + took, rank, node_id) for rank, node_id in here]
