"""Which nodes of an execution trace are played: the first operator on each path, and where to go deeper.

From the roots down, labels (autograd's nodes, optimizers, marked ranges) are passed through, and the first
operator on a path is taken with all that it calls; in the place of some, what they called is (``deeper``).

Data loaders are left out. A collective is one node: the ``c10d::`` operator with the record below it, or the
record alone.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from perfcast.errors import TraceError
from perfcast.replays.build.deeper import deeper_nodes
from perfcast.replays.play.limits import NAMESPACES
from perfcast.replays.play.operators import OperatorTable
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import (
    SCOPE_BACKWARD,
    ExecutionTrace,
    Node,
)
from perfcast.traces.marks import COLLECTIVE_RECORD, GLOO, STEP_MARK, is_root_name

_OPTIMIZER, _LOADER = "Optimizer.step#", "DataLoader"
_BACKWARD = "autograd::engine::evaluate_function: "
_COMMUNICATION_NAMESPACES = ("c10d::", "_c10d_functional::")

#: What kinds of calls are played.
PlayedKinds = Literal["all", "compute", "communication"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What of a trace is played.

    Attributes:
        steps: Numbers of the first and the last step, from 0; ``None``: all of them.
        module: Text in a label's name: only what ran under such labels, and the backward of it.
        mode: Which kinds of calls.
        allow: Patterns ('aten::*') of operators to play; empty: all.
        skip: Patterns of operators not to play.
    """

    steps: tuple[int, int] | None = None
    module: str = ""
    mode: PlayedKinds = "all"
    allow: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def described(self) -> dict[str, str]:
        """In words, for a manifest."""
        words: dict[str, str] = {"mode": self.mode}
        if self.steps is not None:
            words["steps"] = f"{self.steps[0]} to {self.steps[1]}"
        if self.module:
            words["module"] = self.module
        if self.allow:
            words["allow"] = ", ".join(self.allow)
        if self.skip:
            words["skip"] = ", ".join(self.skip)
        return words

    def leaves_out(self, node: Node) -> str:
        """Why an operator is not played, '' where it is."""
        if any(fnmatchcase(node.name, pattern) for pattern in self.skip):
            return "on the list of what to skip"
        if self.allow and not any(fnmatchcase(node.name, pattern) for pattern in self.allow):
            return "not on the list of what to play"
        return ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One node that is played. ``module`` is the path of labels above it, ``step`` the step's number.

    ``is_wanted`` is false for what the selection's mode or module leave out: it is not played, and
    neither are the gaps before it.
    """

    node: Node
    module: str
    step: int
    is_wanted: bool


def choose(
    trace: ExecutionTrace,
    selection: Selection,
    operators: OperatorTable,
    namespaces: frozenset[str] = NAMESPACES,
) -> tuple[Chosen, ...]:
    """The operators and collectives of a trace in order, those that the selection leaves out marked.

    ``namespaces`` are those whose operators are called.

    Raises:
        TraceError: No such steps, no such module, or nothing left to play.
    """
    deeper = deeper_nodes(trace, operators, namespaces)
    steps = _Steps(trace)
    wanted_steps = _wanted_steps(selection, steps.num_steps, trace.source)
    found = [(node, path) for node, path in _walk(trace, deeper) if steps.number(node.id) in wanted_steps]
    found.sort(key=lambda pair: pair[0].id)
    modules = _with_backward(trace, found)
    chosen = tuple(
        Chosen(node, module, steps.number(node.id) - wanted_steps.start, _is_wanted(node, module, selection))
        for (node, _), module in zip(found, modules, strict=True)
    )
    if not any(one.is_wanted for one in chosen):
        raise TraceError(_nothing(trace, selection, modules))
    return chosen


def is_communication(node: Node) -> bool:
    """Whether it exchanges, or waits for a collective."""
    return node.name == COLLECTIVE_RECORD or node.name.startswith(_COMMUNICATION_NAMESPACES)


def _is_wanted(node: Node, module: str, selection: Selection) -> bool:
    if selection.mode != "all" and is_communication(node) != (selection.mode == "communication"):
        return False
    return selection.module in module


def _nothing(trace: ExecutionTrace, selection: Selection, modules: Sequence[str]) -> str:
    if selection.module and not any(selection.module in module for module in modules):
        labels = dict.fromkeys(part for module in modules for part in module.split("/") if part)
        known = ", ".join(list(labels)[:12]) or "none"
        return f"no label of '{trace.source}' holds '{selection.module}'; its labels: {known}"
    return f"'{trace.source}' holds nothing to play with this selection"


def _wanted_steps(selection: Selection, num_steps: int, source: str) -> range:
    first, last = selection.steps or (0, num_steps - 1)
    if not 0 <= first <= last < num_steps:
        raise TraceError(f"'{source}' has steps 0 to {num_steps - 1}; {first} to {last} are asked for")
    return range(first, last + 1)


class _Steps:
    """Numbers of steps by node id: from the profiler's marks, else from the optimizers' ends."""

    def __init__(self, trace: ExecutionTrace) -> None:
        marks = [node.id for node in trace.nodes if node.name.startswith(STEP_MARK)]
        self._starts = marks or _after_optimizers(trace)

    @property
    def num_steps(self) -> int:
        return len(self._starts)

    def number(self, node_id: int) -> int:
        """-1 before the first step."""
        return bisect.bisect_right(self._starts, node_id) - 1


def _after_optimizers(trace: ExecutionTrace) -> list[int]:
    """Where steps start: at the trace's start, and after each run of optimizers that a backward follows."""
    starts = [trace.nodes[0].id]
    is_backward_seen, is_over = False, False
    for node in trace.nodes:
        if node.name.startswith(_OPTIMIZER):
            is_over = is_backward_seen
            boundary = trace.last_below[node.id] + 1
        elif node.name.startswith(_BACKWARD):
            if is_over:
                starts.append(boundary)
                is_over = False
            is_backward_seen = True
    return starts


def _walk(trace: ExecutionTrace, deeper: frozenset[int]) -> Iterator[tuple[Node, str]]:
    """Operators and collectives at the right depth, each with the path of the labels above it."""
    stack: list[tuple[Node, str]] = [(root, "") for root in reversed(trace.roots)]
    while stack:
        node, path = stack.pop()
        if _LOADER in node.name:
            continue
        if _is_taken(trace, node, deeper):
            yield node, path
            continue
        below = path if node.is_operator else _longer(path, node)
        stack.extend((child, below) for child in reversed(trace.children.get(node.id, ())))


def _is_taken(trace: ExecutionTrace, node: Node, deeper: frozenset[int]) -> bool:
    if node.name == COLLECTIVE_RECORD or node.collective is not None:
        return True
    if not node.is_operator:
        return False
    return node.id not in deeper


def _longer(path: str, node: Node) -> str:
    is_plain = is_root_name(node.name) or node.name.startswith((STEP_MARK, _BACKWARD, GLOO))
    if is_plain or node.scope == SCOPE_BACKWARD:
        return path
    name = node.name.replace("/", "|")
    return f"{path}/{name}" if path else name


def _with_backward(trace: ExecutionTrace, found: Sequence[tuple[Node, str]]) -> list[str]:
    """Label paths; a backward operator without labels of its own takes its forward operator's."""
    forward: dict[int, str] = {}
    for node, path in found:
        if node.scope != SCOPE_BACKWARD and path and node.sequence_number >= 0:
            forward.setdefault(node.sequence_number, path)
    return [path or forward.get(_forward_sequence(trace, node), "") for node, path in found]


def _forward_sequence(trace: ExecutionTrace, node: Node) -> int:
    """The sequence number of the backward node that called this one, ``NONE`` where none did."""
    backward = (one.sequence_number for one in trace.callers(node) if one.scope == SCOPE_BACKWARD)
    return next(backward, NONE)
