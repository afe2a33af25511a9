from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.profiler import ExecutionTraceObserver

from made_up_traces import execution_trace, node, tensor
from perfcast.errors import TraceError
from perfcast.replays.build.build import build_program
from perfcast.replays.build.select import Selection
from perfcast.replays.play.limits import ReplayLimits
from perfcast.replays.program.program import CallKind, Fill, ReplayProgram, SlotUse, slots_in
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.reader import read_execution_trace

FLOAT, LONG = "Tensor(float)", "Tensor(long int)"
RELU = "aten::relu(Tensor self) -> Tensor"
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
VIEW = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"
EMBEDDING = (
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor"
)


def relu(node_id: int, source: int, result: int, shape: list[int], parent: int = 2, **attributes: Any):
    return node(
        node_id,
        "aten::relu",
        parent,
        inputs=[(tensor(source, source + 1000, shape), FLOAT, shape)],
        outputs=[(tensor(result, result + 1000, shape), FLOAT, shape)],
        schema=RELU,
        **attributes,
    )


def built(folder: Path, nodes: list[dict[str, Any]], **options: Any) -> ReplayProgram:
    return build_program(execution_trace(folder, nodes), **options)


def test_a_chain_of_calls_hands_tensors_on_and_gives_only_the_first(tmp_path: Path):
    program = built(tmp_path, [relu(3, 10, 11, [4, 5]), relu(4, 11, 12, [4, 5])])
    assert [call.operator for call in program.calls] == ["aten::relu", "aten::relu"]
    assert program.calls[1].arguments == (SlotUse(program.calls[0].outputs[0]),)
    assert [buffer.is_given for buffer in program.buffers] == [True, False, False]
    assert [(b.first_call, b.last_call) for b in program.buffers] == [(0, 0), (0, 1), (1, 1)]
    assert program.least_bytes == 2 * 80
    assert program.peak_bytes == 3 * 80  # what was there before stays


def test_a_view_shares_its_buffer_and_a_labels_children_are_played(tmp_path: Path):
    shape = [(tensor(10, 1010, [6]), FLOAT, [6]), ([2, 3], "GenericList[Int,Int]", [[], []])]
    nodes = [
        node(3, "## forward ##"),
        node(4, "aten::view", 3, inputs=shape,
             outputs=[(tensor(11, 1010, [2, 3]), FLOAT, [2, 3])], schema=VIEW),
        node(5, "aten::relu", 3, inputs=[(tensor(11, 1010, [2, 3]), FLOAT, [2, 3])],
             outputs=[(tensor(12, 1012, [2, 3]), FLOAT, [2, 3])], schema=RELU),
    ]  # fmt: skip
    program = built(tmp_path, nodes)
    assert [call.module for call in program.calls] == ["## forward ##"] * 2
    assert program.calls[0].arguments[1] == (2, 3)
    view = program.slots[program.calls[0].outputs[0]]
    assert (view.buffer, view.shape, view.strides) == (0, (2, 3), (3, 1))


def test_indices_stay_below_the_rows_through_a_copy(tmp_path: Path):
    index = (tensor(20, 1020, [8], size=8), LONG, [8])
    copy = (tensor(21, 1021, [8], size=8), LONG, [8])
    nodes = [
        node(3, "aten::clone", inputs=[index], outputs=[copy],
             schema="aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"),
        node(4, "aten::embedding", inputs=[(tensor(22, 1022, [100, 4]), FLOAT, [100, 4]), copy],
             outputs=[(tensor(23, 1023, [8, 4]), FLOAT, [8, 4])], schema=EMBEDDING),
    ]  # fmt: skip
    program = built(tmp_path, nodes)
    filled = program.slots[next(slots_in(program.calls[0].arguments))].filling
    assert filled is not None
    assert (filled.kind, filled.low, filled.high) == (Fill.UNIFORM, 0, 99)


def test_computed_indices_are_replaced_where_they_lead_somewhere(tmp_path: Path):
    index, sums = (tensor(20, 1020, [8], size=8), LONG, [8]), (tensor(21, 1021, [8], size=8), LONG, [8])
    nodes = [
        node(3, "aten::add", inputs=[index, index, (1, "Int", [])], outputs=[sums], schema=ADD),
        node(4, "aten::embedding", inputs=[(tensor(22, 1022, [100, 4]), FLOAT, [100, 4]), sums],
             outputs=[(tensor(23, 1023, [8, 4]), FLOAT, [8, 4])], schema=EMBEDDING),
    ]  # fmt: skip
    program = built(tmp_path, nodes)
    looked = program.slots[list(slots_in(program.calls[1].arguments))[1]]
    assert program.buffers[looked.buffer].is_given
    assert looked.filling is not None
    assert looked.filling.high == 99


def test_device_and_processor_only_operators_change_for_a_processor(tmp_path: Path):
    shape = [2, 3]
    cuda = [*tensor(10, 1010, shape)[:5], "cuda:0"]
    made = [*tensor(11, 1011, shape)[:5], "cuda:0"]
    nodes = [
        node(3, "aten::pin_memory", inputs=[(tensor(9, 1009, shape), FLOAT, shape), ("<None>", "None", [])],
             outputs=[(tensor(8, 1008, shape), FLOAT, shape)],
             schema="aten::pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)"),
        node(4, "aten::relu", inputs=[(cuda, FLOAT, shape)], outputs=[(made, FLOAT, shape)], schema=RELU),
    ]  # fmt: skip
    program = built(tmp_path, nodes, device="cpu")
    assert [call.operator for call in program.calls] == ["aten::clone", "aten::relu"]
    assert {slot.device for slot in program.slots} == {"cpu"}


def test_what_cannot_be_called_is_named_with_its_reason(tmp_path: Path):
    nodes = [
        relu(3, 10, 11, [2]),
        node(4, "triton_poi_0", kernel_backend="triton", schema=""),
        node(5, "aten::no_such_operator", schema="aten::no_such_operator() -> ()"),
    ]
    program = built(tmp_path, nodes)
    assert [call.operator for call in program.calls] == ["aten::relu"]
    assert [(one.operator, "generated" in one.reason) for one in program.skipped] == [
        ("triton_poi_0", True),
        ("aten::no_such_operator", False),
    ]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (node(3, "evil::run", schema="evil::run() -> ()"), "outside the namespaces"),
        (node(3, "aten::x'); f('", schema="aten::x'); f('() -> ()"), "no operator's schema"),
        (node(3, "aten::from_file", schema="aten::from_file() -> Tensor"), "refused"),
        (relu(3, 10, 11, [1 << 40]), "limit"),
    ],
)
def test_hostile_traces_are_refused(tmp_path: Path, bad: dict[str, Any], message: str):
    with pytest.raises(TraceError, match=message):
        built(tmp_path, [bad])


def test_the_limit_of_a_tensor_can_be_raised(tmp_path: Path):
    nodes = [relu(3, 10, 11, [1 << 20])]
    with pytest.raises(TraceError, match="limit"):
        built(tmp_path, nodes, limits=ReplayLimits(max_tensor_bytes=1 << 20))
    built(tmp_path, nodes, limits=ReplayLimits(max_tensor_bytes=1 << 22))


def test_lists_of_operators_and_steps_choose_what_is_played(tmp_path: Path):
    nodes = [
        node(3, "ProfilerStep#1"),
        relu(4, 10, 11, [2], parent=3),
        node(5, "ProfilerStep#2"),
        relu(6, 11, 12, [2], parent=5),
        relu(7, 12, 13, [2], parent=5),
    ]
    assert [call.step for call in built(tmp_path, nodes).calls] == [0, 1, 1]
    assert len(built(tmp_path, nodes, selection=Selection(steps=(1, 1))).calls) == 2
    skipping = built(tmp_path, nodes, selection=Selection(allow=("aten::*",), steps=(0, 0)))
    assert len(skipping.calls) == 1
    for selection in (Selection(skip=("aten::relu",)), Selection(steps=(0, 2)), Selection(module="none"),
                      Selection(mode="communication")):  # fmt: skip
        with pytest.raises(TraceError):
            built(tmp_path, nodes, selection=selection)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(st.integers(10, 16), st.integers(10, 16), st.integers(1, 9)), min_size=1, max_size=12)
)
def test_no_slot_is_used_outside_its_buffers_life(tmp_path: Path, calls: list[tuple[int, int, int]]):
    nodes = [
        relu(3 + place, source, result + 100 * place, [size])
        for place, (source, result, size) in enumerate(calls)
    ]
    program = built(tmp_path, nodes)
    for index, call in enumerate(program.calls):
        for slot in (*slots_in(call.arguments), *(one for one in call.outputs if one != NONE)):
            buffer = program.buffers[program.slots[slot].buffer]
            assert buffer.first_call <= index <= buffer.last_call
            assert program.slots[slot].span_bytes[1] <= buffer.num_bytes
            assert program.slots[slot].maker <= index
    assert max(b.num_bytes for b in program.buffers) <= program.peak_bytes
    assert program.peak_bytes <= sum(buffer.num_bytes for buffer in program.buffers)


def test_a_recorded_training_step_is_covered_whole(tmp_path: Path):
    path = tmp_path / "step.json"
    model = torch.nn.Sequential(
        torch.nn.Embedding(50, 8), torch.nn.Dropout(0.5), torch.nn.LayerNorm(8), torch.nn.Linear(8, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    indices, targets = torch.randint(50, (6,)), torch.randint(10, (6,))
    observer = ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    torch.nn.functional.cross_entropy(model(indices), targets).backward()
    optimizer.step()
    observer.stop()
    observer.unregister_callback()
    program = build_program(read_execution_trace(path))
    assert program.skipped == ()
    assert all(call.kind is CallKind.OPERATOR for call in program.calls)
    names = {call.operator for call in program.calls}
    assert "aten::dropout" not in names, "its mask is read by the backward pass"
    highs = {
        slot.filling.high for slot in program.slots if slot.filling and slot.is_whole and slot.shape == (6,)
    }
    assert highs == {49, 9}
