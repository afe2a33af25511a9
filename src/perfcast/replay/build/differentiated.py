"""Which calls autograd noted in the recording: those that a backward node answers."""

from __future__ import annotations

from perfcast.replay.program.program import CallKind, ReplayProgram, slots_in
from perfcast.replay.program.schema_text import parse_schema
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
        if _is_in_backward(trace, node.id):
            continue
        current = node.id
        while current not in found:
            found.add(current)
            parent = trace.by_id[current].parent
            if parent == current or parent not in trace.by_id:
                break
            current = parent
    return frozenset(found)


def _is_in_backward(trace: ExecutionTrace, node_id: int) -> bool:
    """Whether a backward label called it."""
    current = node_id
    for _ in range(len(trace.nodes)):
        parent = trace.by_id[current].parent
        if parent == current or parent not in trace.by_id:
            return False
        if trace.by_id[parent].scope == SCOPE_BACKWARD:
            return True
        current = parent
    return False


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
