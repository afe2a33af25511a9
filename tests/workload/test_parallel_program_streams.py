"""What runs beside what: streams and waits of captured programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from perfcast.core.graph import Phase
from perfcast.workload.capture.capture import CaptureOptions
from perfcast.workload.parallel_program.streams import VirtualStreams
from perfcast.workload.parallel_program.virtual_ranks import RankCapture, RankCaptures
from perfcast.workload.step import OptimizerChoice, Program


class Calls(nn.Module):
    """A module whose forward is a function, with one weight."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.zeros(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


def capture(build: Callable[[], Program], rank: int = 0, world_size: int = 4, **options: Any) -> RankCapture:
    chosen = CaptureOptions(optimizer=OptimizerChoice("none"), **options)
    return RankCaptures(build, chosen, world_size).capture(rank)


def capture_calls(function: Callable[[Tensor, Tensor], Tensor]) -> RankCapture:
    return capture(lambda: Program(Calls(function), args=(torch.zeros(8, 8),)), training=False)


def rows(captured: RankCapture) -> list[tuple[str, str, list[int]]]:
    """Operation, stream and waits of each node."""
    plan, graph = captured.streams, captured.graph
    return [
        (graph.operations[node.operation].name, plan.names[stream], list(after))
        for node, stream, after in zip(graph.nodes, plan.streams, plan.after, strict=True)
    ]


WORLD = "group 0:4:1"


# ---- collectives of one's own ------------------------------------------------------------------------


def test_a_collective_runs_behind_what_was_issued_and_the_next_call_behind_it():
    def reduces(x: Tensor, weight: Tensor) -> Tensor:
        y = x @ weight
        distributed.all_reduce(y)
        return y + 1

    assert rows(capture_calls(reduces)) == [
        ("mm", "compute", []), ("all_reduce", WORLD, [0]), ("add", "compute", [1]),
    ]  # fmt: skip


def test_an_asynchronous_collective_is_waited_for_where_the_program_waits():
    def overlaps(x: Tensor, weight: Tensor) -> Tensor:
        y = x @ weight
        work = distributed.all_reduce(y, async_op=True)
        z = x * 2
        work.wait()
        return y + z

    assert rows(capture_calls(overlaps)) == [
        ("mm", "compute", []), ("all_reduce", WORLD, [0]), ("mul", "compute", []), ("add", "compute", [1]),
    ]  # fmt: skip


def test_what_is_never_waited_for_holds_nothing_back():
    def forgets(x: Tensor, weight: Tensor) -> Tensor:
        y = x.clone()
        distributed.all_reduce(y, async_op=True)
        return x @ weight

    assert [after for _, _, after in rows(capture_calls(forgets))] == [[], [0], []]


def test_a_functional_collective_is_waited_for_when_its_result_is_used():
    def overlaps(x: Tensor, weight: Tensor) -> Tensor:
        y = functional.all_reduce(x @ weight, "sum", distributed.group.WORLD)
        z = x * 2
        return y + z

    assert rows(capture_calls(overlaps)) == [
        ("mm", "compute", []), ("all_reduce", WORLD, [0]), ("mul", "compute", []), ("add", "compute", [1]),
    ]  # fmt: skip


def test_views_of_a_functional_collectives_result_do_not_wait():
    def views(x: Tensor, weight: Tensor) -> Tensor:
        y = functional.all_reduce(x @ weight, "sum", distributed.group.WORLD).view(4, 16)
        z = x * 2
        return y.sum() + z

    waits = {name: after for name, _, after in rows(capture_calls(views))}
    assert waits["mul"] == []
    assert waits["sum"] == [1]


def test_the_gradient_of_a_functional_collective_comes_through():
    gather_with_gradient = getattr(
        functional, "all_gather_single_autograd", functional.all_gather_tensor_autograd
    )  # renamed in torch 2.13

    def gathers(x: Tensor, weight: Tensor) -> Tensor:
        return gather_with_gradient(x @ weight, 0, distributed.group.WORLD) * 2

    captured = capture(lambda: Program(Calls(gathers), args=(torch.zeros(8, 8),)))
    assert [name for name, _, _ in rows(captured) if name in ("all_gather", "reduce_scatter", "mm")] == [
        "mm", "all_gather", "reduce_scatter", "mm",
    ]  # fmt: skip


# ---- messages ----------------------------------------------------------------------------------------


def test_messages_to_two_ranks_run_side_by_side_and_what_is_batched_is_the_groups():
    def collectives(x: Tensor, weight: Tensor) -> Tensor:
        a, b = torch.empty_like(x), torch.empty_like(x)
        works = [distributed.isend(x, 1), distributed.irecv(a, 3)]
        operations = [distributed.P2POp(distributed.isend, x, 1), distributed.P2POp(distributed.irecv, b, 3)]
        for work in (*works, *distributed.batch_isend_irecv(operations)):
            work.wait()
        return a + b

    streams = [
        (name, stream)
        for name, stream, _ in rows(capture_calls(collectives))
        if "pair" in stream or "gr" in stream
    ]
    assert streams == [
        ("send", "pair 0,1 of 0:4:1"), ("receive", "pair 0,3 of 0:4:1"), ("send", WORLD), ("receive", WORLD),
    ]  # fmt: skip


# ---- streams of one's own ----------------------------------------------------------------------------


def test_streams_and_events_of_the_program_are_followed():
    side = {}

    def beside(x: Tensor, weight: Tensor) -> Tensor:
        stream = side.setdefault("stream", torch.cpu.Stream())
        y = x + 1
        stream.wait_stream(torch.cpu.current_stream())
        with torch.cpu.stream(stream):
            z = y * 2
            event = stream.record_event()
        w = x @ weight
        torch.cpu.current_stream().wait_event(event)
        return z + w

    assert rows(capture_calls(beside)) == [
        ("add", "compute", []), ("mul", "side 1", [0]), ("mm", "compute", []), ("add", "compute", [1]),
    ]  # fmt: skip


def test_a_host_that_waits_holds_all_streams_back():
    side = {}

    def beside(x: Tensor, weight: Tensor) -> Tensor:
        stream = side.setdefault("stream", torch.cpu.Stream())
        y = x + 1
        torch.cpu.synchronize()
        with torch.cpu.stream(stream):
            z = y * 2
        stream.synchronize()
        return z + 1

    assert [after for _, _, after in rows(capture_calls(beside))] == [[], [0], [1]]


def test_an_event_is_of_the_moment_when_it_was_recorded():
    side = {}

    def beside(x: Tensor, weight: Tensor) -> Tensor:
        stream = side.setdefault("stream", torch.cpu.Stream())
        event = torch.cpu.Event()
        y = x + 1
        event.record()
        z = x * 2
        with torch.cpu.stream(stream):
            event.wait()
            w = y - 1
        event.synchronize()
        return z + w

    waits = {name: after for name, _, after in rows(capture_calls(beside))}
    assert waits["sub"] == [0]


def test_the_devices_streams_are_put_back():
    before = torch.cpu.Stream, torch.cpu.current_stream, functional._maybe_wrap_tensor
    with VirtualStreams().in_place():
        assert torch.cpu.current_stream().name == "compute"
    assert (torch.cpu.Stream, torch.cpu.current_stream, functional._maybe_wrap_tensor) == before


# ---- FSDP2 -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sharded() -> RankCapture:
    def build() -> Program:
        mesh = init_device_mesh("cpu", (4,))
        module = nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(4)))
        for layer in module:
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        return Program(module, args=(torch.zeros(2, 16),))

    return capture(build)


def ancestors(captured: RankCapture, node: int) -> set[int]:
    """All nodes that have ended before a node starts."""
    plan, found, waiting = captured.streams, set[int](), [node]
    while waiting:
        one = waiting.pop()
        stream = plan.streams[one]
        earlier = [other for other in range(one) if plan.streams[other] == stream][-1:]
        new = {*plan.after[one], *earlier} - found
        found |= new
        waiting.extend(new)
    return found


def nodes_named(captured: RankCapture, name: str, phase: Phase) -> list[int]:
    graph = captured.graph
    return [
        index
        for index, node in enumerate(graph.nodes)
        if graph.operations[node.operation].name == name and node.phase is phase
    ]


def test_weights_are_gathered_beside_the_layer_before(sharded: RankCapture):
    gathers = nodes_named(sharded, "all_gather", Phase.FORWARD)
    products = nodes_named(sharded, "mm", Phase.FORWARD)
    assert len(gathers) == len(products) == 4
    for layer in range(1, 4):
        assert gathers[layer] in ancestors(sharded, products[layer])
        assert products[layer - 1] not in ancestors(sharded, gathers[layer])


def test_weights_of_two_layers_are_gathered_at_most(sharded: RankCapture):
    """The copy that a gather fills is given up when the layer after the next begins to gather."""
    gathers = nodes_named(sharded, "all_gather", Phase.FORWARD)
    products = nodes_named(sharded, "mm", Phase.FORWARD)
    assert products[0] in ancestors(sharded, gathers[3])


def test_gradients_are_scattered_beside_the_backward(sharded: RankCapture):
    scatters = nodes_named(sharded, "reduce_scatter", Phase.BACKWARD)
    products = nodes_named(sharded, "mm", Phase.BACKWARD)
    assert len(scatters) == 4
    last = products[-1]
    assert scatters[-1] not in ancestors(sharded, last)
    assert any(product in ancestors(sharded, scatters[0]) for product in products)
    assert not all(product in ancestors(sharded, scatters[0]) for product in products)


def test_one_communicator_has_one_queue(sharded: RankCapture):
    collectives = [s for name, s, _ in rows(sharded) if name in ("all_gather", "reduce_scatter")]
    assert set(collectives) == {WORLD}
