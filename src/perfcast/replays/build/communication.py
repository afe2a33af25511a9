"""Collectives and waits as drafts: from ``c10d::`` operators, functional ones, and NCCL's records."""

from __future__ import annotations

from dataclasses import replace

from perfcast.replays.program.draft import Draft, NotPlayableError
from perfcast.replays.program.program import CallKind
from perfcast.replays.program.schema_text import parse_schema
from perfcast.traces.events import Collective
from perfcast.traces.execution_trace.collectives import read_record
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Node, TensorUse, tensors_in
from perfcast.traces.marks import COLLECTIVE_RECORD

#: Arguments of ``c10d::`` operators that name the root or the peer.
_ROOTS = ("root_rank", "dst", "src")
_ASYNCHRONOUS = ("async_op", "asyncOp")
#: Names of the functional operators, as NCCL's records have them.
_FUNCTIONAL = {
    "all_reduce": "allreduce",
    "all_reduce_": "allreduce",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_gather_into_tensor": "_allgather_base",
    "all_gather_into_tensor_out": "_allgather_base",
    "all_gather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "all_reduce_coalesced_": "allreduce_coalesced",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "reduce_scatter_tensor_out": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
}
#: Functional operators that return their tensor in a class of its own, which waits when it is read.
_WRAPPING = frozenset({"_wrap_tensor_autograd", "_wrap_tensor"})
#: An ``_AccumulateGrad`` that communicates is the gradient reducer of data parallelism: it does not wait.
_REDUCER = "AccumulateGrad"


def draft_collective(node: Node, trace: ExecutionTrace, waited: frozenset[int]) -> Draft:
    """One collective or wait; ``waited`` are the sequence numbers that a recorded wait names.

    Raises:
        NotPlayableError: It exchanges nothing, or in a way that is not known.
    """
    record = _record_below(node, trace)
    if node.name == COLLECTIVE_RECORD:
        return _of_record(node, trace, waited)
    if node.name.startswith("_c10d_functional::"):
        return _of_functional(node, record)
    collective = record.collective if record is not None and record.collective else node.collective
    if collective is None:
        raise NotPlayableError("not a collective that a replay knows")
    received, sent, root = _c10d_arguments(node)
    return Draft(
        node_id=node.id,
        kind=CallKind.COLLECTIVE,
        schema=node.schema,
        operator=node.name,
        overload="",
        arguments=(received, sent, root),
        outputs=(),
        collective=replace(collective, row=node.id),
        is_asynchronous=_is_asynchronous(node, trace, collective.sequence in waited),
    )


def _record_below(node: Node, trace: ExecutionTrace) -> Node | None:
    return next((child for child in trace.children.get(node.id, ()) if child.name == COLLECTIVE_RECORD), None)


def _c10d_arguments(node: Node) -> tuple[tuple[TensorUse, ...], tuple[TensorUse, ...], int | None]:
    """(received, sent, root) of a ``c10d::`` operator, by its schema."""
    schema = parse_schema(node.schema)
    lists: list[tuple[TensorUse, ...]] = []
    for described, value in zip(schema.arguments, node.inputs, strict=False):
        if described.type.startswith("Tensor") and described.name != "sparse_indices":
            lists.append(tuple(use for use in tensors_in((value,)) if use.dtype))
    root = _root(node)
    if node.name == "c10d::send":
        return (), lists[0] if lists else (), root
    if node.name == "c10d::recv_":
        return lists[0] if lists else (), (), root
    received = lists[0] if lists else ()
    return received, lists[1] if len(lists) > 1 else received, root


def _root(node: Node) -> int | None:
    """The root's or peer's rank in the group, by the schema."""
    described = parse_schema(node.schema).arguments
    values = (value for one, value in zip(described, node.inputs, strict=False) if one.name in _ROOTS)
    return next((value for value in values if type(value) is int), None)


def _of_record(node: Node, trace: ExecutionTrace, waited: frozenset[int]) -> Draft:
    """A record without a ``c10d::`` operator above it: by the places of its arguments."""
    record = read_record(node.inputs)
    if record is None:
        raise NotPlayableError("a record that does not say what it exchanges")
    sent = tuple(use for use in record.tensors if use.dtype)
    sequence = record.sequence
    if record.name == "wait":
        return Draft(node.id, CallKind.WAIT, "", COLLECTIVE_RECORD, "", (), (), waits_for_sequence=sequence)
    if node.collective is None:
        raise NotPlayableError("a record of bookkeeping", is_harmless=True)
    received = tuple(use for use in tensors_in(node.outputs) if use.dtype) or sent
    return Draft(
        node_id=node.id,
        kind=CallKind.COLLECTIVE,
        schema="",
        operator=COLLECTIVE_RECORD,
        overload="",
        arguments=(received, sent, record.place),
        outputs=(),
        collective=node.collective,
        is_asynchronous=_is_asynchronous(node, trace, node.collective.sequence in waited),
    )


def _of_functional(node: Node, record: Node | None) -> Draft:
    """``_c10d_functional``: results are new tensors; waiting for one returns it."""
    name = node.name.partition("::")[2]
    sent = tuple(use for use in tensors_in(node.inputs) if use.dtype)
    sent = sent[:1] if name.endswith("_out") else sent
    received = tuple(use for use in tensors_in(node.outputs) if use.dtype)
    if name == "wait_tensor":
        return Draft(node.id, CallKind.WAIT, node.schema, node.name, "", (sent,), ())
    if name in _WRAPPING:
        raise NotPlayableError("it only wraps a tensor that is waited for", is_harmless=True)
    if name not in _FUNCTIONAL or not sent:
        raise NotPlayableError("not a collective that a replay knows")
    known = record.collective if record is not None else None
    collective = known or Collective(
        row=node.id,
        name=_FUNCTIONAL[name],
        in_elements=sum(use.num_elements for use in sent),
        out_elements=sum(use.num_elements for use in received),
        dtype=sent[0].dtype,
        group="",
        group_size=0,
    )
    return Draft(
        node_id=node.id,
        kind=CallKind.COLLECTIVE,
        schema=node.schema,
        operator=node.name,
        overload="",
        arguments=(received, sent, _root(node)),
        outputs=(),
        collective=replace(collective, row=node.id),
        is_asynchronous=True,
    )


def _is_asynchronous(node: Node, trace: ExecutionTrace, is_waited: bool) -> bool:
    """By the operator's own argument, else by a recorded wait, else by who asks."""
    if node.schema:
        place = next(
            (i for i, one in enumerate(parse_schema(node.schema).arguments) if one.name in _ASYNCHRONOUS),
            None,
        )
        if place is not None and place < len(node.inputs):
            return node.inputs[place] is True
    if is_waited:
        return True
    return any(_REDUCER in caller.name for caller in trace.callers(node))


def waited_sequences(trace: ExecutionTrace) -> frozenset[int]:
    """The sequence numbers of the collectives that a recorded wait names."""
    records = (read_record(node.inputs) for node in trace.nodes if node.name == COLLECTIVE_RECORD)
    return frozenset(record.sequence for record in records if record is not None and record.name == "wait")
