"""One rank of a parallelised program, on programs small enough to count by hand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from perfcast.core.collective import format_ranks, group_ranks, message_bytes, parse_ranks
from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category
from perfcast.errors import CaptureError, InputError
from perfcast.memory_use.liveness import estimate_memory
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.user_file import build_user_program, load_function
from perfcast.workload.parallel_program.virtual_ranks import capture_on_virtual_rank, virtual_rank
from perfcast.workload.shape import StepShape
from perfcast.workload.step import OptimizerChoice, Program

# What tensor parallelism returns is a view; nothing here writes into it.
pytestmark = pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor:UserWarning")

NO_OPTIMIZER = OptimizerChoice("none")


def graph_of(build: Callable[[], Program], rank: int = 0, world_size: int = 4, **options: Any) -> Graph:
    chosen = CaptureOptions(**({"optimizer": NO_OPTIMIZER} | options))
    return capture_on_virtual_rank(build, chosen, rank=rank, world_size=world_size)[0]


def collectives(graph: Graph, phase: Phase | None = None) -> list[tuple[str, int, list[int]]]:
    operations = [graph.operations[n.operation] for n in graph.nodes if phase in (None, n.phase)]
    return [
        (operation.name, message_bytes(operation), list(group_ranks(operation)))
        for operation in operations
        if operation.kind is OperationKind.COLLECTIVE
    ]


def held_bytes(graph: Graph, category: str) -> int:
    return sum(s.num_bytes for s in graph.storages if s.category == category and s.created_by < 0)


class Calls(nn.Module):
    """A module whose forward is a function, with one weight."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.zeros(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight)


def calls(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Program]:
    return lambda: Program(Calls(function), args=(torch.zeros(8, 8),))


def build_sharded() -> Program:
    module = nn.Linear(16, 8)
    fully_shard(module)
    return Program(module, args=(torch.zeros(2, 16),))


# ---- sharded weights ---------------------------------------------------------------------------------


def test_a_sharded_layer_is_gathered_twice_and_its_gradient_scattered_once():
    graph = graph_of(build_sharded)
    whole, ranks = 4 * (16 * 8 + 8), [0, 1, 2, 3]
    assert collectives(graph, Phase.FORWARD) == [("all_gather", whole, ranks)]
    assert collectives(graph, Phase.BACKWARD) == [
        ("reduce_scatter", whole, ranks)
    ]  # the root keeps its weights


def test_a_rank_holds_its_part_of_weights_gradients_and_state():
    graph = graph_of(build_sharded, optimizer=OptimizerChoice("adamw", "fused"))
    part = 4 * (16 * 8 + 8) // 4
    assert held_bytes(graph, Category.PARAMETER) == part
    assert held_bytes(graph, Category.OPTIMIZER_STATE) == 2 * part + 2 * 4  # and two counts of steps
    gradients = [s.num_bytes for s in graph.storages if s.category == Category.GRADIENT]
    assert gradients == [part]  # views of what the reduce-scatter gave


def test_ranks_of_an_uneven_split_hold_different_parts():
    def build() -> Program:
        module = nn.Linear(4, 5, bias=False)
        fully_shard(module)
        return Program(module, args=(torch.zeros(2, 4),))

    held = [held_bytes(graph_of(build, rank), Category.PARAMETER) for rank in range(4)]
    assert held == [2 * 4 * 4, 2 * 4 * 4, 2 * 4 * 4, 2 * 4 * 4]  # rows 2, 2, 1, 0, each padded to 2


def test_ranks_of_a_mesh_are_grouped_by_its_axes():
    def build() -> Program:
        mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
        module = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
        parallelize_module(module, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
        fully_shard(module, mesh=mesh["dp"])
        return Program(module, args=(torch.zeros(2, 8),))

    found = collectives(graph_of(build, rank=6, world_size=8))
    weights = 4 * (8 * 4 + 4 + 4 * 8 + 8)  # a quarter of both, and the whole of the second's bias
    assert ("all_gather", weights, [2, 6]) in found
    assert ("all_reduce", 4 * 2 * 8, [4, 5, 6, 7]) in found


def test_inference_in_steady_state_finds_the_roots_weights_gathered():
    def build() -> Program:
        module = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        fully_shard(module[0])
        fully_shard(module)
        return Program(module, args=(torch.zeros(2, 8),))

    whole = 4 * (8 * 8 + 8)
    graph = graph_of(build, training=False)
    assert collectives(graph) == [("all_gather", whole, [0, 1, 2, 3])]
    assert held_bytes(graph, Category.PARAMETER) == 2 * whole // 4 + whole


def test_a_thousand_ranks_are_captured_like_two():
    def build() -> Program:
        mesh = init_device_mesh("cpu", (128, 8), mesh_dim_names=("dp", "tp"))
        module = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
        parallelize_module(module, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(module, mesh=mesh["dp"])
        return Program(module, args=(torch.zeros(16, 1024),))

    graph = graph_of(build, rank=1000, world_size=1024)
    # The inputs need no gradient, so that the backward has nothing to reduce over the tensor-parallel ranks.
    groups = Counter((name, len(ranks), ranks[1] - ranks[0]) for name, _, ranks in collectives(graph))
    assert groups == {("all_gather", 128, 8): 1, ("reduce_scatter", 128, 8): 1, ("all_reduce", 8, 1): 1}
    assert all(1000 in ranks for _, _, ranks in collectives(graph))


# ---- collectives of the program's own ----------------------------------------------------------------


def every_collective(x: Tensor, weight: Tensor) -> Tensor:
    y = x @ weight
    z, out = y.detach().clone(), torch.empty(8, 8)
    several = [torch.empty(8, 8) for _ in range(4)]
    distributed.all_reduce(z)
    distributed.broadcast(z, 0)
    distributed.reduce(z, 0)
    distributed.all_gather(several, z)
    distributed.reduce_scatter(out, several)
    distributed.all_to_all_single(out, z)
    distributed.gather(z, None, dst=0)
    distributed.scatter(out, None, src=0)
    distributed.send(z, 2)
    distributed.recv(out, 3)
    distributed.barrier()
    return y


def test_the_message_of_a_collective_is_its_full_buffer():
    buffer = 8 * 8 * 4
    found = collectives(graph_of(calls(every_collective), rank=1, training=False))
    assert [(name, message) for name, message, _ in found] == [
        ("all_reduce", buffer),
        ("broadcast", buffer),
        ("reduce", buffer),
        ("all_gather", 4 * buffer),
        ("reduce_scatter", 4 * buffer),
        ("all_to_all", buffer),
        ("gather_to_root", 4 * buffer),
        ("scatter_from_root", 4 * buffer),
        ("send", buffer),
        ("receive", buffer),
        ("barrier", 0),
    ]


def test_a_message_between_two_ranks_of_a_group_knows_the_other():
    def sends(x: Tensor, weight: Tensor) -> Tensor:
        group = distributed.new_group([1, 3])
        distributed.send(x, group=group, group_dst=1)
        return x @ weight

    graph = graph_of(calls(sends), rank=1, training=False)
    (send,) = [o for o in graph.operations if o.name == "send"]
    assert send.attribute("peer") == 3
    assert list(group_ranks(send)) == [1, 3]


def test_waiting_for_a_collective_takes_no_memory():
    def reduces(x: Tensor, weight: Tensor) -> Tensor:
        from torch.distributed import _functional_collectives as functional

        return functional.all_reduce(x @ weight, "sum", distributed.group.WORLD) + 1

    graph = graph_of(calls(reduces), training=False)
    made = [s.num_bytes for s in graph.storages if s.created_by >= 0]
    assert made == [256, 256, 256]  # the product, its reduced copy, the sum
    assert [graph.operations[n.operation].name for n in graph.nodes] == ["mm", "all_reduce", "add"]


@pytest.mark.parametrize("ranks", [[0], [5], [0, 1, 2], [1, 9, 17], [0, 1, 8, 9], [3, 1]])
def test_ranks_are_read_as_they_were_written(ranks: list[int]):
    assert list(parse_ranks(format_ranks(ranks))) == ranks


def test_an_operation_that_is_no_collective_has_neither_message_nor_group():
    operation: Operation = graph_of(build_sharded).operations[0]
    for question in (message_bytes, group_ranks):
        with pytest.raises(ValueError, match="not a collective"):
            question(operation)


# ---- on an accelerator -------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv(self.norm(x)).unflatten(-1, (-1, 4)).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("of_parts", [True, False], ids=["plain", "distributed"])
def test_attention_and_norms_are_one_operation_on_a_ranks_part(of_parts: bool):
    def build() -> Program:
        plan = {
            "norm": SequenceParallel(),
            "qkv": ColwiseParallel(input_layouts=Shard(1), use_local_output=of_parts),
            "out": RowwiseParallel(output_layouts=Shard(1)),
        }
        module = parallelize_module(Attention(), init_device_mesh("cpu", (4,)), plan)
        return Program(module, args=(torch.zeros(2, 8, 16),))  # two of 32 positions' quarter

    graph = graph_of(build)
    operations = {o.name: o for o in graph.operations}
    assert operations["attention"].inputs[0].shape == (2, 1, 32, 4)  # one of four heads, all positions
    assert operations["_fused_rms_norm"].inputs[0].shape == (2, 8, 16)
    assert "attention_backward" in operations


def test_a_norm_of_split_rows_is_an_error_that_says_how_they_are_to_be():
    def build() -> Program:
        mesh = init_device_mesh("cpu", (4,))
        module = parallelize_module(
            nn.Sequential(nn.Linear(8, 8), nn.RMSNorm(8)),
            mesh,
            {"0": ColwiseParallel(use_local_output=False)},
        )
        return Program(module, args=(torch.zeros(2, 8),))

    with pytest.raises(InputError, match="its rows and its weight are to be whole"):
        graph_of(build, training=False)


# ---- storages that change their size -----------------------------------------------------------------


def test_a_storage_that_is_emptied_and_filled_again_counts_while_it_is_full():
    def resizes(module: nn.Module, x: Tensor) -> Tensor:
        y = x + 1  # node 0
        y.untyped_storage().resize_(0)
        z = x * 2  # node 1
        y.untyped_storage().resize_(256)  # node 2
        return z + y.sum()  # nodes 3 and 4

    class Resizes(nn.Module):
        forward = resizes

    graph, _ = capture(lambda: Program(Resizes(), args=(torch.zeros(8, 8),)), CaptureOptions(training=False))
    assert [graph.operations[n.operation].name for n in graph.nodes] == [
        "add",
        "mul",
        "resize_",
        "sum",
        "add",
    ]
    assert estimate_memory(graph, 0).timeline_bytes == (512, 512, 768, 772, 1028)


# ---- nothing is left behind, and what goes wrong -----------------------------------------------------


def fails() -> Program:
    raise ValueError("no such width")


@pytest.mark.parametrize("build", [build_sharded, fails])
def test_nothing_is_left_behind(build: Callable[[], Program], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "7")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    resize = torch.UntypedStorage.resize_
    if build is fails:
        with pytest.raises(CaptureError, match="no such width"):
            graph_of(build)
    else:
        graph_of(build)
    assert not distributed.is_initialized()
    assert os.environ["RANK"] == "7"
    assert "WORLD_SIZE" not in os.environ
    assert torch.UntypedStorage.resize_ is resize


def test_a_capture_does_not_see_the_meshes_of_the_one_before():
    def build() -> Program:
        size = distributed.get_world_size()
        mesh = init_device_mesh("cpu", (size // 4, 2, 2), mesh_dim_names=("a", "b", "c"))
        module = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
        parallelize_module(
            module, mesh["b" if size == 4 else "c"], {"0": ColwiseParallel(), "1": RowwiseParallel()}
        )
        return Program(module, args=(torch.zeros(2, 8),))

    first = collectives(graph_of(build, world_size=4))
    assert {tuple(ranks) for _, _, ranks in first} == {(0, 2)}
    second = collectives(graph_of(build, world_size=8))
    assert {tuple(ranks) for _, _, ranks in second} == {(0, 1)}
    assert collectives(graph_of(build, world_size=4)) == first


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_of_the_world_is_an_input_error(rank: int):
    with pytest.raises(InputError, match=f"rank {rank} is not one of a world of 4"):
        graph_of(build_sharded, rank=rank)


def test_a_program_that_sets_up_its_own_process_group_is_an_error():
    def build() -> Program:
        distributed.init_process_group("gloo")
        return build_sharded()

    with pytest.raises(CaptureError, match="initialize the default process group twice"):
        graph_of(build)


def test_replicas_with_a_communication_hook_are_refused():
    def build() -> Program:
        module = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
        module.register_comm_hook(None, allreduce_hook)
        return Program(module, args=(torch.zeros(2, 8),))

    with pytest.raises(CaptureError, match="with a communication hook is not captured"):
        graph_of(build)


def test_a_process_that_is_a_rank_already_cannot_be_another():
    with virtual_rank(1, 2), pytest.raises(CaptureError, match="already set up"):
        graph_of(build_sharded)


# ---- a user's file -----------------------------------------------------------------------------------

USER_FILE = """
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

def sharded(batch_size=2, rank=0, world_size=1):
    module = nn.Linear(16 * world_size, 8)
    fully_shard(module)
    return module, torch.zeros(batch_size, 16 * world_size)
"""


def test_a_users_function_learns_its_rank_and_the_world(tmp_path: Path):
    file = tmp_path / "parallel.py"
    file.write_text(USER_FILE)
    function = load_function(f"{file}:sharded")
    graph = graph_of(lambda: build_user_program(function, StepShape(batch_size=3)), rank=1)
    assert ("all_gather", 4 * (64 * 8 + 8), [0, 1, 2, 3]) in collectives(graph)
    assert held_bytes(graph, Category.INPUT) == 3 * 64 * 4
