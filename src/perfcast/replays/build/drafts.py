"""The chosen nodes of an execution trace as drafts of calls, and what cannot be played with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from perfcast.replays.build.communication import draft_collective, waited_sequences
from perfcast.replays.build.differentiated import differentiated_nodes
from perfcast.replays.build.kernels import KernelFolder, draft_kernel
from perfcast.replays.build.select import Chosen, Selection, is_communication
from perfcast.replays.build.times import HostTimes
from perfcast.replays.play.limits import ReplayLimits
from perfcast.replays.play.operators import OperatorTable
from perfcast.replays.program.draft import Draft, NotPlayableError, draft_operator, uses_in
from perfcast.replays.program.program import CallKind, KernelSource, Skipped
from perfcast.replays.rewrite.embedding_lookups import standing_for
from perfcast.replays.rewrite.rewrite import DeviceTarget, moved_value, rewritten
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Node


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """What decides how nodes are played."""

    selection: Selection
    target: DeviceTarget
    operators: OperatorTable
    limits: ReplayLimits
    kernels: KernelFolder


@dataclass
class Drafts:
    """Calls, what is skipped, seconds of what was not asked for, and what stands for what.

    ``rebuilt`` has words for each operator that others stand for, ``kernels`` the sources of generated
    kernels; each once.
    """

    calls: list[Draft] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    unselected_seconds: list[float] = field(default_factory=list)
    rebuilt: dict[str, None] = field(default_factory=dict)
    kernels: dict[KernelSource, None] = field(default_factory=dict)


def draft_calls(
    trace: ExecutionTrace, chosen: Sequence[Chosen], times: HostTimes | None, options: DraftOptions
) -> Drafts:
    """Drafts of what was chosen, in order.

    Raises:
        TraceError: A call that asks for more memory than the limit.
    """
    found = Drafts()
    waited, differentiated = waited_sequences(trace), differentiated_nodes(trace)
    gaps = times.gaps([one.node.id for one in chosen]) if times else {}
    made_sparse: set[int] = set()
    for one in chosen:
        node = one.node
        seconds = times.seconds(node.id) if times else math.nan
        if not one.is_wanted:
            found.unselected_seconds.append(seconds)
            continue
        try:
            drafts = list(_calls_of(node, trace, waited, options, found))
            for draft in drafts:
                _note_sparse(draft, made_sparse)
        except NotPlayableError as error:
            found.skipped.append(Skipped(node.id, node.name, str(error), seconds, error.is_harmless))
            continue
        gap = gaps.get(node.id, math.nan)
        for place, draft in enumerate(drafts):  # times are the first one's, where several stand for one
            found.calls.append(
                replace(
                    draft,
                    module=one.module,
                    step=one.step,
                    recorded_seconds=math.nan if place else seconds,
                    gap_seconds=0.0 if place else gap,
                    stream=_stream(draft, times),
                    is_differentiated=node.id in differentiated,
                )
            )
    return found


def _calls_of(
    node: Node, trace: ExecutionTrace, waited: frozenset[int], options: DraftOptions, found: Drafts
) -> Iterator[Draft]:
    """What is called for a node.

    Raises:
        NotPlayableError: Nothing is.
    """
    reason = options.selection.leaves_out(node)
    if reason:
        raise NotPlayableError(reason)
    target = options.target
    if node.kernel_backend:
        draft, source = draft_kernel(node, options.kernels, target)
        found.kernels[source] = None
        yield draft
    elif is_communication(node):
        draft = draft_collective(node, trace, waited)
        yield replace(draft, arguments=tuple(moved_value(one, target) for one in draft.arguments))
    else:
        draft = rewritten(draft_operator(node, options.limits), target, options.operators)
        drafts, words = standing_for(draft, options.operators)
        if words:
            found.rebuilt[words] = None
        yield from drafts


def _stream(draft: Draft, times: HostTimes | None) -> int:
    """The device stream of an operator; collectives have one of their own wherever they are called."""
    if times is None or draft.kind is not CallKind.OPERATOR:
        return NONE
    return times.streams.get(draft.node_id, NONE)


def _note_sparse(draft: Draft, made: set[int]) -> None:
    """Keeps account of the sparse tensors that calls make: their indices and values cannot be made up."""
    missing = any(use.is_sparse and use.tensor_id not in made for use in uses_in(draft.arguments))
    if missing:
        raise NotPlayableError("nothing that is played makes its sparse tensor")
    made.update(use.tensor_id for use in draft.outputs if use is not None and use.is_sparse)
