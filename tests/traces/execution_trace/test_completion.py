from __future__ import annotations

from perfcast.traces.execution_trace.completion import with_callers
from perfcast.traces.execution_trace.nodes import Node

PROCESS, THREAD = "[pytorch|profiler|execution_trace|process]", "[pytorch|profiler|execution_trace|thread]"


def node(node_id: int, parent: int, name: str, thread: int = 1) -> Node:
    return Node(node_id, parent, name, (), (), (), (), "", 0, -1, 0, thread)


def recorded(gloo: str = "gloo:all_reduce") -> list[Node]:
    """A collective in ``backward``; what comes after was noted below it, or below what it displaced."""
    return [
        node(1, 1, PROCESS, thread=0),
        node(2, 1, THREAD),
        node(3, 2, "backward"),
        node(4, 3, "c10d::allreduce_"),
        node(5, 4, gloo),
        node(6, 5, "aten::mm"),
        node(7, 6, "aten::t"),
        node(8, 5, "aten::add"),
    ]


ENDED = [2, 4, 7, 6, 5, 3, 8, 1]


def test_callers_are_those_that_start_before_and_end_after():
    callers = {one.id: one.parent for one in with_callers(recorded(), ENDED)}
    assert callers == {1: 1, 2: 1, 3: 2, 4: 3, 5: 2, 6: 3, 7: 6, 8: 2}


def test_without_collectives_of_gloo_callers_stay_as_noted():
    nodes = recorded("aten::view")
    assert with_callers(nodes, ENDED) == nodes


def test_a_file_in_another_order_than_of_ends_tells_nothing():
    nodes = recorded()
    assert with_callers(nodes, [one.id for one in nodes]) == nodes


def test_threads_have_stacks_of_their_own():
    nodes = [*recorded(), node(9, 1, THREAD, thread=2), node(10, 9, "aten::mul", thread=2)]
    ended = [2, 9, 4, 10, 7, 6, 5, 3, 8, 1]
    assert with_callers(nodes, ended)[-1].parent == 9
