"""Captures of whole parallel programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from perfcast.core.collective import message_bytes
from perfcast.core.graph import Phase
from perfcast.core.operation import OperationKind
from perfcast.core.work import Stream
from perfcast.errors import CaptureError, InputError, ModelError
from perfcast.workload.capture.capture import CaptureOptions
from perfcast.workload.models.user_file import build_user_program, load_function
from perfcast.workload.parallel_program.calls import RankCalls, calls_of
from perfcast.workload.parallel_program.capture import (
    ParallelProgram,
    RankProgram,
    capture_parallel_program,
    translated,
)
from perfcast.workload.parallel_program.shards import part_shape, shardings_of
from perfcast.workload.parallel_program.virtual_ranks import RankCaptures, virtual_rank
from perfcast.workload.shape import StepShape
from perfcast.workload.step import OptimizerChoice, Program

# What a row-wise layer returns is a view; nothing here writes into it.
pytestmark = pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor:UserWarning")
OPTIONS = CaptureOptions(optimizer=OptimizerChoice("sgd"))


def two_axes(tensor_parallel: int, width: int = 8, outer: int = 8) -> Program:
    replicas = distributed.get_world_size() // tensor_parallel
    mesh = init_device_mesh("cpu", (replicas, tensor_parallel), mesh_dim_names=("dp", "tp"))
    module = nn.Sequential(nn.Linear(outer, width), nn.Linear(width, outer))
    parallelize_module(module, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    fully_shard(module, mesh=mesh["dp"])
    return Program(module, args=(torch.zeros(2, outer),))


def stages(micro_batches: int = 2, replicas: int = 1) -> Program:
    """One layer a stage, sharded over its replicas. torch 2.10 wants a micro-batch for each stage."""
    size = distributed.get_world_size() // replicas
    mesh = init_device_mesh("cpu", (size, replicas), mesh_dim_names=("pp", "dp"))
    index = mesh["pp"].get_local_rank()
    module = nn.Linear(8, 8)
    fully_shard(module, mesh=mesh["dp"])
    stage = PipelineStage(module, index, size, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = ScheduleGPipe(stage, micro_batches, loss_fn=lambda output, _: output.sum())
    x = torch.zeros(2 * micro_batches, 8)

    def step() -> None:
        schedule.step(*((x,) if index == 0 else ()), target=x if index == size - 1 else None)

    return Program(module, run=step)


def kinds(rank: RankProgram) -> list[str]:
    operations = [rank.graph.operations[node.operation] for node in rank.graph.nodes]
    return [o.name for o in operations if o.kind is OperationKind.COLLECTIVE]


def calls(program: ParallelProgram, index: int = 0) -> RankCalls:
    return calls_of(program, program.ranks[index], program.ranks[index].graph)


# ---- which ranks -------------------------------------------------------------------------------------


def test_a_thousand_equal_ranks_are_captured_twice():
    program = capture_parallel_program(lambda: two_axes(8, 1024, 128), OPTIONS, 1024)
    assert program.num_captured == 2
    assert [(rank.rank, rank.num_equal) for rank in program.ranks] == [(0, 1024)]
    assert [axis.size for axis in program.axes] == [8, 128]


@pytest.mark.parametrize(("width", "num_classes"), [(8, 1), (12, 2)])
def test_uneven_shards_are_classes_whether_or_not_all_ranks_are_captured(width: int, num_classes: int):
    """12 columns over 2 ranks are 6 each, over 4 replicas 2, 2, 2 and 0."""
    found = capture_parallel_program(lambda: two_axes(2, width), OPTIONS, 8)
    every = capture_parallel_program(lambda: two_axes(2, width), OPTIONS, 8, captures_all=True)
    assert found.class_of_rank == every.class_of_rank
    assert len(found.ranks) == num_classes
    assert (found.num_captured, every.num_captured) == (2, 8)


def test_stages_are_classes_and_their_replicas_equal():
    found = capture_parallel_program(lambda: stages(micro_batches=4, replicas=2), OPTIONS, 8)
    every = capture_parallel_program(
        lambda: stages(micro_batches=4, replicas=2), OPTIONS, 8, captures_all=True
    )
    assert found.class_of_rank == every.class_of_rank == (0, 0, 1, 1, 1, 1, 2, 2)
    assert found.num_captured < 8


def test_flops_are_of_all_ranks():
    program = capture_parallel_program(lambda: stages(), OPTIONS, 2)
    # Of each stage a forward and a gradient of weights; of the second a gradient of its input too.
    assert program.flops == (2 + 3) * 2 * (4 * 8 * 8)
    assert program.recompute_flops == 0


def test_the_group_of_an_operation_is_moved_to_the_first_rank():
    program = capture_parallel_program(lambda: two_axes(2), OPTIONS, 8, captures_all=True)
    capture = RankCaptures(lambda: two_axes(2), OPTIONS, 8).capture(5)
    operations = {translated(o, 5) for o in capture.graph.operations}
    assert operations == set(program.ranks[0].graph.operations)


def test_parts_of_other_ranks_are_as_those_ranks_have_them():
    def build(rank: int) -> nn.Module:
        with virtual_rank(rank, 12):
            mesh = init_device_mesh("cpu", (4, 3), mesh_dim_names=("dp", "tp"))
            module = nn.Sequential(nn.Linear(13, 37), nn.Linear(37, 11))
            parallelize_module(module, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
            fully_shard(module, mesh=mesh["dp"])
            module.known = shardings_of(module)  # type: ignore[assignment]
            return module

    known = build(0).known
    for rank in range(12):
        own = [tuple(parameter._local_tensor.shape) for parameter in build(rank).parameters()]
        assert [part_shape(sharding, rank) for sharding in known] == own


def test_a_world_of_no_ranks_is_an_input_error():
    with pytest.raises(InputError, match="a world of 0 ranks"):
        capture_parallel_program(lambda: two_axes(1), OPTIONS, 0)


# ---- pipelines ---------------------------------------------------------------------------------------


def test_a_stage_sends_what_it_makes_and_gets_its_gradient_back():
    program = capture_parallel_program(lambda: stages(micro_batches=3), OPTIONS, 3)
    assert [kinds(rank) for rank in program.ranks] == [
        ["send"] * 3 + ["receive"] * 3,
        ["receive", "send"] * 6,
        ["receive"] * 3 + ["send"] * 3,
    ]
    sends = [o for rank in program.ranks for o in rank.graph.operations if o.name == "send"]
    assert {message_bytes(o) for o in sends} == {2 * 8 * 4}


def test_what_runs_in_the_engine_is_the_backward():
    program = capture_parallel_program(lambda: stages(), OPTIONS, 2)
    graph = program.ranks[0].graph
    phases = [node.phase for node in graph.nodes if graph.operations[node.operation].name in ("addmm", "mm")]
    assert phases == [Phase.FORWARD] * 2 + [Phase.BACKWARD] * 2


def test_ranks_that_wait_for_each_other_are_an_error():
    def build() -> Program:
        rank, heard = distributed.get_rank(), [None]
        distributed.recv_object_list(heard, src=1 - rank)
        distributed.send_object_list(heard, dst=1 - rank)
        return two_axes(1)

    with pytest.raises(CaptureError, match="rank 0 waits for object 0 of rank 1, which sends none"):
        capture_parallel_program(build, OPTIONS, 2)


def test_objects_travel_from_rank_to_rank():
    def build() -> Program:
        rank, size = distributed.get_rank(), distributed.get_world_size()
        width = [8]
        if rank > 0:
            distributed.recv_object_list(width, src=rank - 1)
        if rank < size - 1:
            distributed.send_object_list([width[0] + 8], dst=rank + 1)
        everyone = [None] * size
        distributed.all_gather_object(everyone, rank)
        distributed.broadcast_object_list(width, src=0)
        return Program(nn.Linear(width[0], 1), args=(torch.zeros(1, width[0]),))

    captured = RankCaptures(build, OPTIONS, 3).capture(2)
    assert captured.program.args[0].shape == (1, 24)


# ---- replicas ----------------------------------------------------------------------------------------


def test_gradients_are_reduced_in_buckets_the_first_of_a_megabyte():
    """Six layers of 256 KiB: the last four fill the first bucket, in the order of the backward."""

    def build() -> Program:
        module = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(6)))
        return Program(DistributedDataParallel(module), args=(torch.zeros(2, 256),))

    (rank,) = capture_parallel_program(build, OPTIONS, 4).ranks
    operations = [rank.graph.operations[node.operation] for node in rank.graph.nodes]
    sizes = [message_bytes(o) for o in operations if o.name == "all_reduce"]
    assert sizes == [4 * 256 * 256 * 4, 2 * 256 * 256 * 4]


def test_gradients_that_are_accumulated_are_not_reduced():
    def build() -> Program:
        module = DistributedDataParallel(nn.Linear(8, 8))
        x = torch.zeros(2, 8)

        def step() -> None:
            with module.no_sync():
                module(x).sum().backward()
            module(x).sum().backward()

        return Program(module, run=step)

    (rank,) = capture_parallel_program(build, OPTIONS, 2).ranks
    assert kinds(rank) == ["all_reduce"]


# ---- calls -------------------------------------------------------------------------------------------


def test_calls_run_on_the_stream_of_their_mesh_axis():
    program = capture_parallel_program(lambda: two_axes(2), OPTIONS, 8)
    streams = {(call.operation.name, call.stream) for call in calls(program).calls if call.is_collective}
    assert streams == {
        ("all_gather", Stream.DATA), ("reduce_scatter", Stream.DATA), ("all_reduce", Stream.TENSOR),
    }  # fmt: skip


def test_without_a_name_it_is_what_runs_there_that_tells():
    def build() -> Program:
        class Collectives(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(8, 8))

            def forward(self, x: Tensor) -> Tensor:
                out = torch.empty_like(x)
                distributed.all_to_all_single(out, x, group=distributed.new_group([0, 1]))
                distributed.isend(x, 1).wait()
                return out @ self.weight

        return Program(Collectives(), args=(torch.zeros(8, 8),))

    program = capture_parallel_program(build, CaptureOptions(training=False), 2)
    streams = {call.operation.name: call.stream for call in calls(program).calls if call.is_collective}
    assert streams == {"all_to_all": Stream.EXPERT, "send": Stream.PIPELINE}


def test_a_message_is_priced_between_two_ranks_and_a_collective_with_its_like():
    program = capture_parallel_program(lambda: stages(micro_batches=4, replicas=2), OPTIONS, 8)
    sends = [call.operation for call in calls(program).calls if call.operation.name == "send"]
    assert {(o.attribute("ranks"), o.attribute("group_size")) for o in sends} == {("0:4:2", 2)}
    gathers = [call.operation for call in calls(program).calls if call.operation.name == "all_gather"]
    assert {o.attribute("num_groups") for o in gathers} == {4}


def test_calls_wait_for_calls_alone():
    program = capture_parallel_program(lambda: two_axes(2), OPTIONS, 8)
    one = calls(program)
    assert len(one.calls) == len(one.lanes) == len(one.phases) == len(one.collectives)
    for index, call in enumerate(one.calls):
        assert not call.operation.is_free
        assert all(other < index for other in call.after)
    first_product = next(i for i, call in enumerate(one.calls) if call.operation.name == "addmm")
    copied = max(i for i, call in enumerate(one.calls[:first_product]) if call.operation.name == "all_gather")
    waits = {other for call in one.calls[copied + 1 : first_product + 1] for other in call.after}
    assert copied in waits


# ---- a user's file -----------------------------------------------------------------------------------

USER_FILE = """
import torch
from torch import nn

def steps(batch_size=2):
    module = nn.Linear(4, 4)
    x = torch.zeros(batch_size, 4)
    return module, lambda: module(x).sum().backward()

def nothing():
    return nn.Linear(4, 4), 3
"""


def test_a_users_function_may_return_the_step_itself(tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text(USER_FILE)
    function = load_function(f"{file}:steps")
    program = capture_parallel_program(
        lambda: build_user_program(function, StepShape(batch_size=3)), OPTIONS, 2
    )
    assert program.ranks[0].program.batch_size == 3
    names = {o.name for o in program.ranks[0].graph.operations}
    assert {"addmm", "mm"} <= names


def test_what_is_neither_inputs_nor_a_step_is_an_error(tmp_path: Path):
    file = tmp_path / "own.py"
    file.write_text(USER_FILE)
    with pytest.raises((ModelError, InputError), match="inputs must be"):
        build_user_program(load_function(f"{file}:nothing"), StepShape())
