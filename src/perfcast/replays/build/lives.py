"""What a recording says of memory beside what calls use: lasting gradients, what operators hold within."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from perfcast.replays.program.program import Buffer, ReplayCall
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import ExecutionTrace, tensors_in

_ACCUMULATION = "torch::autograd::AccumulateGrad"
_ZEROING = "Optimizer.zero_grad#"


def with_lasting_gradients(
    buffers: Sequence[Buffer],
    calls: Sequence[ReplayCall],
    trace: ExecutionTrace,
    by_storage: Mapping[int, Sequence[int]],
) -> list[Buffer]:
    """Buffers of which those that became a parameter's gradient stay: until the next ``zero_grad``.

    Where that comes earlier in the step than the gradient, or where the trace does not say when it is (a loop
    that sets them to ``None`` itself: then when the next step begins), the next repetition begins with them.

    Args:
        by_storage: Storage of the trace → the buffers that it became.
    """
    ids = [call.node_id for call in calls]
    zeroed = [bisect_left(ids, node.id) for node in trace.nodes if node.name.startswith(_ZEROING)]
    found = list(buffers)
    for node in trace.nodes:
        if not node.name.endswith(_ACCUMULATION):
            continue
        at = bisect_left(ids, node.id)
        for use in tensors_in(node.inputs):
            for number in by_storage.get(use.storage, ()):
                own = found[number]
                if own.maker != NONE and own.first_call < at <= len(calls) and own.stays_until == NONE:
                    found[number] = _lasting(own, at, zeroed, len(calls))
    return found


def _lasting(buffer: Buffer, made: int, zeroed: Sequence[int], num_calls: int) -> Buffer:
    after = next((place for place in zeroed if place >= made), None)
    if after is not None:
        return replace(buffer, last_call=max(buffer.last_call, min(after, num_calls) - 1))
    return replace(buffer, stays_until=next((place for place in zeroed if place > 0), 0))


def with_inner_bytes(
    calls: Sequence[ReplayCall], trace: ExecutionTrace, outer: Container[int]
) -> list[ReplayCall]:
    """Calls with the memory that the operators below them held at once and gave back.

    Args:
        outer: Storages of the trace that calls have among their arguments and results.
    """
    ids = [call.node_id for call in calls]
    changes: dict[int, list[tuple[int, int]]] = {}
    for number, storage in enumerate(trace.storages):
        if storage.maker == NONE or number in outer:
            continue
        at = bisect_left(ids, storage.first_node + 1) - 1
        if at >= 0 and storage.first_node > ids[at] and storage.last_node <= trace.last_below[ids[at]]:
            own = changes.setdefault(at, [])
            own += [(storage.first_node, storage.num_bytes), (storage.last_node + 1, -storage.num_bytes)]
    return [
        replace(call, inner_bytes=_most(changes[index])) if index in changes else call
        for index, call in enumerate(calls)
    ]


def _most(changes: Sequence[tuple[int, int]]) -> int:
    return max(0, *accumulate(num_bytes for _, num_bytes in sorted(changes)))
