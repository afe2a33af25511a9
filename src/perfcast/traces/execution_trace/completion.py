"""Who called whom, by the order in which operators ended.

PyTorch notes as an operator's caller what lies on top of its thread's stack. Gloo's record of a collective
(``gloo:all_reduce``) is put onto the stack of the thread that asked for the collective whenever another
thread begins to carry it out, and taken off it whenever that one is done: what the caller does meanwhile
is noted under the wrong operator, and a stack that lost its balance stays wrong.

Two orders are not touched by this: ids rise with starts, and a file lists its nodes as they end. On one
thread, an operator that starts after another and ends before it was called by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.traces.execution_trace.nodes import Node
from perfcast.traces.marks import GLOO, is_root_name


def is_gloo_frame(name: str) -> bool:
    """Whether a node of this name marks where gloo carried out a collective, on a thread of its own."""
    return name.startswith(GLOO)


def with_callers(nodes: Sequence[Node], ended: Sequence[int]) -> list[Node]:
    """Nodes with the callers that the order of ends tells; as they are where no collective of gloo is.

    Gloo's own frames, which called nothing, hang under the root of the thread that asked. A file that does
    not end with the process was rewritten by someone: its order tells nothing, and callers stay as noted.

    Args:
        nodes: In order of their ids.
        ended: Their ids in the order in which the file lists them.
    """
    processes = {node.id for node in nodes if is_root_name(node.name) and node.parent == node.id}
    is_rewritten = bool(processes) and ended[-1] not in processes
    if is_rewritten or not any(is_gloo_frame(node.name) for node in nodes):
        return list(nodes)
    places = {node_id: place for place, node_id in enumerate(ended)}
    roots = {node.thread: node.id for node in nodes if is_root_name(node.name) and node.parent != node.id}
    stacks: dict[int, list[int]] = {}
    mended = []
    for node in nodes:
        root = roots.get(node.thread)
        if root is None or is_root_name(node.name):
            mended.append(node)
            continue
        stack = stacks.setdefault(node.thread, [])
        while stack and places[stack[-1]] < places[node.id]:
            stack.pop()
        is_frame = is_gloo_frame(node.name)
        mended.append(replace(node, parent=root if is_frame or not stack else stack[-1]))
        if not is_frame:
            stack.append(node.id)
    return mended
