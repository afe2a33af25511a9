"""The host's time for every node of a graph, in program order, and how long the device waits for it.

An eager node costs its operator by class, the views and module calls since the node before, and in a training
autograd's bookkeeping; nodes of the backward are called from C++. Compiled code launches its kernels from one
generated function per region. A CUDA graph is one launch for all its kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.graph import Graph, Phase
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import MATRIX_KINDS
from perfcast.core.tensor import Category
from perfcast.cost.host.costs import HostCosts, class_of, load_host_costs
from perfcast.cost.host.processors import HostProcessor, resolve_processor
from perfcast.cost.host.queue import exposed_host_seconds

HostMode = Literal["eager", "compiled", "graphs"]


@dataclass(frozen=True)
class HostWait:
    """What the host costs a step, in seconds.

    Attributes:
        seconds: For which the device waits.
        seconds_low, seconds_high: The same with a host as fast, and as slow, as it may be.
        busy_seconds: That the host needs to issue the step.
    """

    seconds: float
    seconds_low: float
    seconds_high: float
    busy_seconds: float


NO_WAIT = HostWait(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Host:
    """A processor and how the program on it runs.

    Attributes:
        costs: On the reference processor.
    """

    processor: HostProcessor
    mode: HostMode
    costs: HostCosts

    @property
    def spread(self) -> float:
        """How far its times may be off, as a factor either way: the program's and the processor's."""
        return math.exp(math.hypot(math.log(self.costs.spread), math.log(self.processor.spread)))

    def issue_seconds(
        self, graph: Graph, driver_bytes: Mapping[int, tuple[int, ...]] | None = None
    ) -> Floats:
        """Of the host for each node, from the node before it to its own issue, shape [nodes].

        Args:
            driver_bytes: Requests for memory that a node makes of the driver; none in steady state.
        """
        if not graph.nodes:
            return np.zeros(0)
        if self.mode == "graphs":
            seconds = _as_one_graph(graph, self.costs)
        else:
            seconds = _eagerly(graph, self.costs)
            if self.mode == "compiled":
                seconds = np.where(_is_compiled(graph), _compiled(graph, self.costs), seconds)
        for node, requests in (driver_bytes or {}).items():
            seconds[node] += (
                len(requests) * self.costs.driver_request + sum(requests) * self.costs.driver_byte
            )
        return self.processor.slowness * seconds

    def pace_seconds(self, graph: Graph) -> float:
        """Of the host from one kernel of a graph to the next, on average; 0 of one that runs none."""
        kernels = sum(not graph.operations[node.operation].is_free for node in graph.nodes)
        return float(self.issue_seconds(graph).sum()) / kernels if kernels else 0.0

    def wait(
        self,
        graph: Graph,
        node_seconds: Floats,
        driver_bytes: Mapping[int, tuple[int, ...]] | None = None,
        part: Flags | None = None,
        waited_for: Flags | None = None,
    ) -> HostWait:
        """How long the device waits for the host in a step whose nodes take so long, shape [nodes].

        Args:
            part: Nodes that begin with an idle device and whose end is waited for; None: the whole step.
            waited_for: Nodes whose result the host reads before it goes on: the next finds an idle device.
        """
        inside = np.ones(len(graph.nodes), dtype=bool) if part is None else part
        issue = np.where(inside, self.issue_seconds(graph, driver_bytes), 0.0)
        free = np.array([graph.operations[node.operation].is_free for node in graph.nodes], dtype=bool)
        runs = inside & ~free
        paces, kernels = np.diff(np.cumsum(issue)[runs], prepend=0.0), node_seconds[runs]
        cuts = np.zeros(0, dtype=np.int64) if waited_for is None else np.flatnonzero(waited_for[runs]) + 1
        stretches = list(zip(np.split(kernels, cuts), np.split(paces, cuts), strict=True))
        mid, low, high = (
            sum(exposed_host_seconds(some, factor * pace) for some, pace in stretches)
            for factor in (1.0, 1 / self.spread, self.spread)
        )
        return HostWait(mid, low, high, float(issue.sum()))


def host_of(device: Device, mode: HostMode, processor: str | None = None) -> Host:
    """The host of a device; ``processor`` by name, None for what such machines usually have.

    Raises:
        UnknownNameError: No processor of this name.
    """
    return Host(resolve_processor(processor, device), mode, load_host_costs())


def _eagerly(graph: Graph, costs: HostCosts) -> Floats:
    eager = costs.eager
    operators = np.array([eager.operators[class_of(o)] for o in graph.operations])
    operators += eager.tensor * np.array([float(o.attribute("num_tensors") or 0) for o in graph.operations])
    nodes = graph.nodes
    operator = operators[np.array([node.operation for node in nodes])]
    views = np.array([node.num_views for node in nodes], dtype=np.float64)
    calls = np.array([node.num_calls for node in nodes], dtype=np.float64)
    is_forward = np.array([node.phase is Phase.FORWARD or node.recomputed for node in nodes])
    is_backward = np.array([node.phase is Phase.BACKWARD and not node.recomputed for node in nodes])
    records = is_forward & any(node.phase is Phase.BACKWARD for node in nodes)
    seconds = operator + eager.view * views + eager.module_call * calls
    seconds += np.where(records, eager.recorded_operator + eager.recorded_view * views, 0.0)
    in_engine = eager.backward_share * operator + eager.backward_node + eager.backward_view * views
    in_optimizer = operator + eager.backward_view * views
    found: Floats = np.where(is_backward, in_engine, np.where(is_forward, seconds, in_optimizer))
    return found


def _is_compiled(graph: Graph) -> Flags:
    """Optimizers run as they are."""
    return np.array([node.phase is not Phase.OPTIMIZER for node in graph.nodes], dtype=bool)


def _compiled(graph: Graph, costs: HostCosts) -> Floats:
    """Of one generated function per forward and backward."""
    compiled = costs.compiled
    parameters = sum(storage.category == Category.PARAMETER for storage in graph.storages)
    region = compiled.region + compiled.parameter * parameters
    by_operation = np.array(
        [
            0.0 if o.is_free else compiled.library if o.kind in MATRIX_KINDS else compiled.kernel
            for o in graph.operations
        ]
    )
    phases = [node.phase for node in graph.nodes]
    begins = np.array([i == 0 or phase is not phases[i - 1] for i, phase in enumerate(phases)], dtype=bool)
    seconds: Floats = by_operation[np.array([node.operation for node in graph.nodes])] + region * begins
    return seconds


def _as_one_graph(graph: Graph, costs: HostCosts) -> Floats:
    seconds = np.full(len(graph.nodes), costs.graph_kernel)
    seconds[0] += costs.graph_launch
    return seconds
