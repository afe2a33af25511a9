from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_up_traces import execution_trace, node, tensor
from perfcast.errors import TraceError
from perfcast.replays.build.communication import draft_collective, waited_sequences
from perfcast.replays.program.draft import Draft, NotPlayableError
from perfcast.replays.program.program import CallKind
from perfcast.traces.execution_trace.nodes import TensorUse

BROADCAST = (
    "c10d::broadcast_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup process_group, "
    "int root_rank, int root_tensor, bool asyncOp, int timeout) -> (Tensor[], "
    "__torch__.torch.classes.c10d.Work)"
)
GROUP = ("<Object>", "Object", [])


def one(tensor_id: int, size: int) -> tuple[Any, str, Any]:
    return (tensor(tensor_id, tensor_id + 1000, [size]), "Tensor(float)", [size])


def many(*sizes: int, first: int = 10) -> tuple[Any, str, Any]:
    values = [tensor(first + place, 1000 + first + place, [size]) for place, size in enumerate(sizes)]
    words = ",".join(["Tensor(float)"] * len(sizes))
    return (values, f"GenericList[{words}]", [[size] for size in sizes])


def whole(value: int) -> tuple[Any, str, Any]:
    return (value, "Int", [])


def record(node_id: int, name: str, *sent: Any, sequence: int = 7, rank: int = 0, **attributes: Any) -> Any:
    inputs = [*sent, whole(sequence), (["0", "default_pg"], "Tuple[String,String]", [[], []]), whole(rank),
              (name, "String", [])]  # fmt: skip
    told = {"collective_name": name, "pg_name": "0", "pg_size": 2, "dtype": "Float", **attributes}
    return node(node_id, "record_param_comms", inputs=inputs, outputs=[*sent], schema="", **told)


def drafted(folder: Path, *nodes: Any, at: int = 3) -> Draft:
    trace = execution_trace(folder, list(nodes))
    return draft_collective(trace.by_id[at], trace, waited_sequences(trace))


def sizes(argument: Any) -> list[int]:
    return [use.num_elements for use in argument if isinstance(use, TensorUse)]


def functional(name: str, inputs: list[Any], outputs: list[Any], arguments: str) -> Any:
    schema = f"_c10d_functional::{name}({arguments}) -> Tensor"
    return node(3, f"_c10d_functional::{name}", inputs=inputs, outputs=outputs, schema=schema)


def test_a_c10d_operator_says_root_and_whether_its_caller_waits(tmp_path: Path):
    inputs = [many(8), GROUP, whole(1), whole(0), (True, "Bool", []), whole(-1)]
    below = record(4, "broadcast", many(8), in_msg_nelems=8, out_msg_nelems=8)
    below["ctrl_deps"] = 3
    nodes = [node(3, "c10d::broadcast_", inputs=inputs, schema=BROADCAST), below]
    draft = drafted(tmp_path, *nodes)
    assert draft.kind is CallKind.COLLECTIVE
    assert draft.is_asynchronous
    received, sent, root = draft.arguments
    assert received == sent
    assert (sizes(received), root) == ([8], 1)
    assert draft.collective is not None
    assert (draft.collective.name, draft.collective.group, draft.collective.sequence) == ("broadcast", "0", 7)


def test_a_record_alone_is_asynchronous_if_a_wait_names_it(tmp_path: Path):
    sent = many(8)
    collective = record(3, "allreduce", sent, in_msg_nelems=8, out_msg_nelems=8)
    waiting = node(5, "record_param_comms", schema="", collective_name="wait",
                   inputs=[whole(7), (["", ""], "Tuple[String,String]", [[], []]), whole(1),
                           ("wait", "String", [])])  # fmt: skip
    assert drafted(tmp_path, collective, waiting).is_asynchronous
    assert not drafted(tmp_path, collective).is_asynchronous
    wait = drafted(tmp_path, collective, waiting, at=5)
    assert (wait.kind, wait.waits_for_sequence) == (CallKind.WAIT, 7)


@pytest.mark.parametrize(
    ("name", "outputs", "wanted"),
    [
        ("all_gather_into_tensor_coalesced", many(8, 4, first=20), "allgather_into_tensor_coalesced"),
        ("reduce_scatter_tensor_coalesced", many(2, 1, first=20), "reduce_scatter_tensor_coalesced"),
        ("all_reduce_coalesced_", many(4, 2), "allreduce_coalesced"),
    ],
)
def test_functional_collectives_of_several_tensors_keep_them_all(tmp_path: Path, name, outputs, wanted):
    inputs = [many(4, 2), whole(2), ("0", "String", [])]
    draft = drafted(tmp_path, functional(name, inputs, [outputs], "Tensor[] inputs, int size, str group"))
    assert draft.collective is not None
    assert draft.collective.name == wanted
    received, sent, root = draft.arguments
    assert (sizes(sent), root) == ([4, 2], None)
    assert len(sizes(received)) == 2


def test_where_a_functional_collective_writes_is_not_what_it_sends(tmp_path: Path):
    inputs = [one(10, 8), ("sum", "String", []), whole(2), ("0", "String", []), one(11, 4)]
    schema = "Tensor input, str reduce_op, int group_size, str group_name, *, Tensor(a!) out"
    draft = drafted(tmp_path, functional("reduce_scatter_tensor_out", inputs, [one(11, 4)], schema))
    assert [sizes(part) for part in draft.arguments[:2]] == [[4], [8]]


def test_a_functional_broadcast_has_its_root(tmp_path: Path):
    inputs = [one(10, 8), whole(3), ("0", "String", [])]
    node_ = functional("broadcast", inputs, [one(11, 8)], "Tensor input, int src, str group_name")
    assert drafted(tmp_path, node_).arguments[2] == 3


def test_what_exchanges_nothing_is_said_so(tmp_path: Path):
    with pytest.raises(NotPlayableError, match="not a collective"):
        drafted(tmp_path, functional("unknown", [one(10, 8)], [one(11, 8)], "Tensor input"))
    with pytest.raises((NotPlayableError, TraceError), match=r"bookkeeping|does not say"):
        drafted(tmp_path, node(3, "record_param_comms", schema="", inputs=[whole(1)]))
