"""Which calls autograd noted in the recording: those that a backward node answers."""

from __future__ import annotations

from perfcast.replays.program.program import CallKind, ReplayProgram, slots_in
from perfcast.replays.program.schema_text import parse_schema
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import SCOPE_BACKWARD, ExecutionTrace


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

    Where nothing is written (no optimizer is in the program), all that differentiated calls read.
    """
    written: set[int] = set()
    read: set[int] = set()
    for call in program.calls:
        if call.kind is not CallKind.OPERATOR:
            continue
        if call.is_differentiated:
            read.update(slots_in(call.arguments))
            continue
        arguments = zip(parse_schema(call.schema).arguments, call.arguments, strict=False)
        used = slots_in(tuple(value for argument, value in arguments if argument.is_written))
        written.update(program.slots[index].buffer for index in used)
    given = {
        index
        for index in read
        if program.slots[index].maker == NONE and program.buffers[program.slots[index].buffer].is_given
    }
    updated = {index for index in given if program.slots[index].buffer in written}
    return frozenset(updated or given)
