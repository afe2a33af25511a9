"""What the host costs a step on one device, and which of its options mean something there."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.arrays import Floats
from perfcast.core.forecast.device import HostShare
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.cost.host.issue import HostMode, host_of
from perfcast.cost.host.processors import resolve_processor
from perfcast.cost.model import CostModel, KnowsHost
from perfcast.errors import PlanError
from perfcast.prediction.request.one_device import Request

#: Operators whose result decides what runs next: the host waits for it, and a CUDA graph cannot.
_READ_BACK = frozenset(
    {"nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave"}
)


def host_mode(request: Request) -> HostMode:
    """How the host issues the program."""
    if request.cuda_graphs:
        return "graphs"
    return "compiled" if request.compile else "eager"


def knows_host(device: Device, cost_model: CostModel | None) -> bool:
    """Whether a host issues the kernels and prices leave it out."""
    return not device.is_cpu and isinstance(cost_model, KnowsHost) and bool(cost_model.host_seconds)


def check_host(request: Request, device: Device, cost_model: CostModel) -> None:
    """Refuse options of a host where none is forecast.

    Raises:
        PlanError: A processor or CUDA graphs on a processor, or with a cost model that knows no host.
        UnknownNameError: No processor of this name.
    """
    resolve_processor(request.host, device)
    given = [
        name
        for name, value in (("--host", request.host), ("--cuda-graphs", request.cuda_graphs or None))
        if value is not None
    ]
    if given and device.is_cpu:
        raise PlanError(
            f"{', '.join(given)}: {device.name} is a processor, which issues no kernels to another"
        )
    if given and not knows_host(device, cost_model):
        raise PlanError(f"{', '.join(given)}: {cost_model.name} knows no host; take --cost-model learned")


def host_share(
    graph: Graph, node_seconds: Floats, request: Request, device: Device, cost_model: CostModel | None
) -> HostShare | None:
    """What the host costs a step whose nodes take so long; None where it is never late.

    Raises:
        PlanError: A CUDA graph of a step whose host reads results back.
    """
    if not knows_host(device, cost_model):
        return None
    if request.cuda_graphs:
        _check_graphable(graph)
    host = host_of(device, host_mode(request), request.host)
    wait = host.wait(graph, node_seconds)
    graphed = replace(host, mode="graphs").wait(graph, node_seconds)
    return HostShare(
        processor=host.processor.name,
        title=host.processor.title,
        is_chosen=host.processor.is_chosen,
        mode=host.mode,
        busy_seconds=wait.busy_seconds,
        waits_seconds=wait.seconds,
        waits_seconds_low=wait.seconds_low,
        waits_seconds_high=wait.seconds_high,
        saved_by_graphs_seconds=max(wait.seconds - graphed.seconds, 0.0),
    )


def _check_graphable(graph: Graph) -> None:
    read = sorted({o.name for o in graph.operations if o.name.split(".")[0] in _READ_BACK})
    if read:
        raise PlanError(
            f"--cuda-graphs: the host reads back what {', '.join(read)} finds; it cannot be graphed"
        )
