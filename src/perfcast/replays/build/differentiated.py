"""Which calls autograd noted in the recording: those that a backward node answers."""

from __future__ import annotations

from collections.abc import Iterable

from perfcast.replays.program.program import Argument, CallKind, ReplayProgram, slots_in
from perfcast.replays.program.schema_text import parse_schema
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import SCOPE_BACKWARD, ExecutionTrace

#: Arguments of norms that no gradient is defined for (PyTorch's derivatives.yaml).
_STATISTICS = ("running_mean", "running_var")


def differentiated_nodes(trace: ExecutionTrace) -> frozenset[int]:
    """Ids of forward nodes that made a node of autograd's graph, and of all that called them.

    A node made in the forward pass and the label of its backward carry the same sequence number.
    """
    answered = {
        node.sequence_number
        for node in trace.nodes
        if node.scope == SCOPE_BACKWARD and node.sequence_number >= 0
    }
    found: set[int] = set()
    for node in trace.nodes:
        if node.scope == SCOPE_BACKWARD or node.sequence_number not in answered or not node.schema:
            continue
        callers = list(trace.callers(node))
        if not any(caller.scope == SCOPE_BACKWARD for caller in callers):
            found.update(one.id for one in (node, *callers))
    return frozenset(found)


def parameters(program: ReplayProgram) -> frozenset[int]:
    """Given slots that require a gradient: read by a differentiated call, written by one that is not.

    Where nothing is written (no optimizer is in the program), all that differentiated calls read. Running
    statistics, which data parallelism writes too, and what a differentiated call writes into, are none.
    """
    written: set[int] = set()
    read: set[int] = set()
    constant: set[int] = set()
    for call in program.calls:
        if call.kind is not CallKind.OPERATOR:
            continue
        arguments = list(zip(parse_schema(call.schema).arguments, call.arguments, strict=False))
        changed = _buffers(program, (value for argument, value in arguments if argument.is_written))
        if not call.is_differentiated:
            written |= changed
            continue
        read.update(slots_in(call.arguments))
        constant |= changed
        constant |= _buffers(
            program, (value for argument, value in arguments if argument.name in _STATISTICS)
        )
    given = {
        index
        for index in read
        if program.slots[index].maker == NONE
        and program.buffers[program.slots[index].buffer].is_given
        and program.slots[index].buffer not in constant
    }
    updated = {index for index in given if program.slots[index].buffer in written}
    return frozenset(updated or given)


def _buffers(program: ReplayProgram, arguments: Iterable[Argument]) -> set[int]:
    return {program.slots[index].buffer for index in slots_in(tuple(arguments))}
