"""Operators that are not played themselves: what they called is played in their place.

An operator does nothing of its own, or nothing that a replay could repeat by calling it, where

* it is composite (without a kernel of its own) and hides a result that others read later, as
  ``aten::dropout`` hides its mask: so the others read the real one, and memory lives as recorded,
* Python took it over, for a tensor of a class of its own (DTensor, of tensor parallelism and FSDP2) or under
  a mode: its tensors are whole ones that no rank holds, the calls below have those that are there,
* it was called again with tensors of other types, as autocast does: without autocast it would compute in
  the wrong type,
* it is not one of PyTorch's (an operator in Python of the user's or a library's, one of a newer PyTorch) and
  all that it hands out was written by known operators below it. Where it was not, a kernel of its own is
  hidden there, which nothing stands for.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable

from perfcast.errors import TraceError
from perfcast.replays.play.operators import OperatorTable, full_name
from perfcast.replays.program.schema_text import SchemaArgument, parse_schema
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Node, Value, tensors_in
from perfcast.traces.marks import COMPILED_GRAPH

#: Labels of the dispatcher where it hands an operator to Python (c10's ``PythonFallbackKernel``).
_IN_PYTHON = frozenset({"PythonSubclass", "PythonDispatchMode"})
#: Callers among which one that is called again is looked for: the dispatcher calls it at once.
_NEAR = 3
#: Operators that only reserve memory: what they hand out is not written.
_RESERVING = ("aten::empty", "aten::new_empty", "aten::resize_", "aten::set_")


def deeper_nodes(
    trace: ExecutionTrace, operators: OperatorTable, namespaces: frozenset[str]
) -> frozenset[int]:
    """Ids of what is played as what it called; ``namespaces`` are those that a replay calls."""
    found = _hiding(trace, operators) | _taken_over(trace)
    for node in trace.nodes:
        if not node.schema or node.id in found or _is_known(node, operators, namespaces):
            continue
        if _is_made_of_known(node, trace, operators, namespaces):
            found.add(node.id)
    return frozenset(found)


def count_hidden_graphs(trace: ExecutionTrace) -> int:
    """Runs of compiled graphs below which no generated kernel was recorded: their code is no operator."""
    kernels = [node.id for node in trace.nodes if node.kernel_backend]
    found = 0
    for node in trace.nodes:
        if node.name.startswith(COMPILED_GRAPH):
            place = bisect.bisect_right(kernels, node.id)
            found += place == len(kernels) or kernels[place] > trace.last_below[node.id]
    return found


def _hiding(trace: ExecutionTrace, operators: OperatorTable) -> set[int]:
    """Composites below which memory is made that none of their results holds and that is used later."""
    handed: dict[int, set[int]] = {}
    found: set[int] = set()
    for number, storage in enumerate(trace.storages):
        maker = trace.by_id.get(storage.maker) if storage.maker != NONE else None
        for caller in trace.callers(maker) if maker is not None else ():
            if not caller.is_operator:
                break
            if caller.id not in handed:
                handed[caller.id] = _storages(caller.outputs)
            if storage.last_node > trace.last_below[caller.id] and number not in handed[caller.id]:
                found.add(caller.id)
    return {one for one in found if operators.is_composite(_name(trace.by_id[one]))}


def _taken_over(trace: ExecutionTrace) -> set[int]:
    """Operators below which Python took over, or one is called again with other types."""
    found: set[int] = set()
    for node in trace.nodes:
        if node.name in _IN_PYTHON:
            _mark(node, trace, found)
        elif node.schema:
            near = itertools.islice(trace.callers(node), _NEAR)
            first = next((one for one in near if _is_again(one, node)), None)
            if first is not None:
                found.add(first.id)
                _mark(first, trace, found)
    return found


def _mark(node: Node, trace: ExecutionTrace, found: set[int]) -> None:
    """Add what called a node, up to what was added before: long ways pay once."""
    for caller in trace.callers(node):
        if caller.id in found:
            return
        found.add(caller.id)


def _is_again(caller: Node, node: Node) -> bool:
    if caller.schema != node.schema:
        return False
    both = zip(caller.input_types, node.input_types, strict=False)
    return any(one != other and "Tensor(" in one and "Tensor(" in other for one, other in both)


def _is_known(node: Node, operators: OperatorTable, namespaces: frozenset[str]) -> bool:
    try:
        schema = parse_schema(node.schema)
    except TraceError:
        return True  # whoever drafts it refuses it
    return schema.namespace in namespaces and operators.exists(full_name(schema))


def _is_made_of_known(
    node: Node, trace: ExecutionTrace, operators: OperatorTable, namespaces: frozenset[str]
) -> bool:
    """Whether known operators below wrote all that a node hands out."""
    wanted = _written(node) - _viewed(node)
    written: set[int] = set()
    below = list(trace.children.get(node.id, ()))
    while below:
        one = below.pop()
        if one.schema and _is_known(one, operators, namespaces):
            if not one.name.startswith(_RESERVING):
                written |= _written(one) - _viewed(one)
        else:
            below.extend(trace.children.get(one.id, ()))
    return bool(wanted) and wanted <= written


def _written(node: Node) -> set[int]:
    """Storages of a node's results and of the arguments that it changes."""
    changed = (value for one, value in _with_values(node) if one.is_written)
    return _storages(node.outputs) | _storages(changed)


def _viewed(node: Node) -> set[int]:
    """Storages of arguments that results are only views of."""
    return _storages(value for one, value in _with_values(node) if one.is_viewed and not one.is_written)


def _with_values(node: Node) -> list[tuple[SchemaArgument, Value]]:
    try:
        described = parse_schema(node.schema).arguments
    except TraceError:
        return []
    return list(zip(described, node.inputs, strict=False))


def _storages(values: Iterable[Value]) -> set[int]:
    return {use.storage for use in tensors_in(tuple(values)) if use.storage != NONE}


def _name(node: Node) -> str:
    return node.schema.partition("(")[0]
