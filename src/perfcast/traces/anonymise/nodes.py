"""Which nodes of an execution trace are needed for some of its steps."""

from __future__ import annotations

from typing import Any

from perfcast.errors import TraceError
from perfcast.traces.marks import GROUPS_NODE, STEP_MARK, is_root_name


def nodes_of_steps(nodes: list[Any], steps: tuple[int, int] | None) -> list[Any]:
    """The nodes of the steps with these places, from the first one's mark to the end of the last.

    Nodes with no part in any step (process, threads, groups) stay, so that callers are there.

    Raises:
        TraceError: The trace marks no such steps.
    """
    found = [node for node in nodes if isinstance(node, dict) and type(node.get("id")) is int]
    if len(found) < len(nodes):
        raise TraceError("a node that is not an object with a number")
    if steps is None:
        return found
    marks = sorted(node["id"] for node in found if str(node.get("name", "")).startswith(STEP_MARK))
    check_steps(steps, len(marks))
    first, last = steps
    start = marks[first]
    end = marks[last + 1] if last + 1 < len(marks) else max(node["id"] for node in found) + 1
    return [node for node in found if start <= node["id"] < end or _is_frame(node)]


def check_steps(steps: tuple[int, int], num_marked: int) -> None:
    """Refuse steps that a trace does not have.

    Raises:
        TraceError: The trace marks no such steps.
    """
    first, last = steps
    if not 0 <= first <= last < num_marked:
        raise TraceError(f"steps {first} to {last} are asked for; {num_marked} are marked, counted from 0")


def _is_frame(node: dict[str, Any]) -> bool:
    name = str(node.get("name", ""))
    return is_root_name(name) or name == GROUPS_NODE
