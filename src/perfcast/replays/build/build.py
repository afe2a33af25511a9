"""From an execution trace, and the timeline recorded with it where there is one, to a replay program."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcast.errors import TraceError
from perfcast.replays.build.communication import draft_collective, waited_sequences
from perfcast.replays.build.differentiated import differentiated_nodes
from perfcast.replays.build.select import Chosen, Selection, choose, is_communication
from perfcast.replays.build.tensors import place_tensors
from perfcast.replays.build.times import HostTimes, host_times
from perfcast.replays.communication.waits import place_waits
from perfcast.replays.fill.fill import FillOptions, fill_given
from perfcast.replays.play.limits import DEFAULT_LIMITS, ReplayLimits
from perfcast.replays.play.operators import InstalledOperators, OperatorTable
from perfcast.replays.program.draft import Draft, NotPlayableError, draft_operator, uses_in
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, Skipped
from perfcast.replays.program.strides import with_strides
from perfcast.replays.rewrite.rewrite import DeviceTarget, moved_value, rewritten, target_of
from perfcast.traces.events import NONE, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.files.archive import open_members
from perfcast.traces.link.traces import TraceLink, link, repaired
from perfcast.units import format_bytes


@dataclass(frozen=True)
class _Drafted:
    drafts: list[Draft]
    skipped: list[Skipped]


def build_program(
    execution_trace: ExecutionTrace,
    *,
    timeline: Trace | None = None,
    selection: Selection = Selection(),  # noqa: B008 (frozen)
    device: str | None = None,
    limits: ReplayLimits = DEFAULT_LIMITS,
    operators: OperatorTable | None = None,
    fills: FillOptions = FillOptions(),  # noqa: B008 (frozen)
    source_hash: str = "",
) -> ReplayProgram:
    """The calls that repeat a recorded step, with their tensors and memory.

    Args:
        execution_trace: What was called.
        timeline: When it was called, of the same run: gaps between calls, and their recorded times.
        selection: What of it is played.
        device: Where it is played ('cpu', 'cuda:0'); ``None``: where it was recorded.
        limits: Bounds on memory, and the namespaces whose operators are called.
        operators: What can be called; ``None``: the installed PyTorch.
        fills: What is known of the whole numbers in given tensors.
        source_hash: SHA-256 of the trace's bytes.

    Raises:
        TraceError: The selection leaves nothing, the timeline is of another run, an operator outside the
            allowed namespaces, more calls or a tensor larger than the limit, or recorded values that their
            operator cannot take.
    """
    operators = operators or InstalledOperators()
    linked = _linked(execution_trace, timeline)
    trace, times = with_strides(linked.trace), linked.times
    chosen = choose(trace, selection, operators)
    if len(chosen) > limits.max_calls:
        raise TraceError(
            f"'{trace.source}' holds {len(chosen):,} calls, more than the limit of {limits.max_calls:,}; "
            "choose fewer steps"
        )
    target = target_of(trace, device)
    drafted = _draft(trace, chosen, selection, times, target, operators, limits)
    if not drafted.drafts:
        raise TraceError(_nothing_playable(trace, drafted.skipped))
    placed = place_tensors(drafted.drafts, limits)
    program = ReplayProgram(
        calls=tuple(_with_waits(placed.calls, drafted.drafts)),
        slots=tuple(placed.slots),
        buffers=tuple(placed.buffers),
        groups=trace.process_groups,
        skipped=tuple(drafted.skipped),
        rank=_rank(timeline),
        world_size=_world_size(trace, timeline),
        num_steps=max(one.step for one in chosen) + 1,
        source=trace.source,
        source_hash=source_hash,
        selection={**selection.described(), "device": target.device},
    )
    program = place_waits(fill_given(program, trace, fills), trace, timeline, linked.link)
    if program.peak_bytes > limits.max_program_bytes:
        raise TraceError(
            f"the replay needs {format_bytes(program.peak_bytes)} at once, more than the limit of "
            f"{format_bytes(limits.max_program_bytes)}; raise the limit if you trust the trace"
        )
    return program


def hash_of(path: str | Path) -> str:
    """SHA-256 of a trace's bytes after decompression; of an archive, of its files one after the other.

    Raises:
        TraceError: It cannot be read, or is larger than readers take.
    """
    digest = hashlib.sha256()
    for member in open_members(path):
        for block in member.blocks:
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class _Linked:
    """The trace with callers as they were, and when they were called."""

    trace: ExecutionTrace
    link: TraceLink | None = None
    times: HostTimes | None = None


def _linked(execution_trace: ExecutionTrace, timeline: Trace | None) -> _Linked:
    if timeline is None:
        return _Linked(execution_trace)
    found = link(execution_trace, timeline)
    return _Linked(repaired(execution_trace, timeline, found), found, host_times(timeline, found))


def _draft(
    trace: ExecutionTrace,
    chosen: Sequence[Chosen],
    selection: Selection,
    times: HostTimes | None,
    target: DeviceTarget,
    operators: OperatorTable,
    limits: ReplayLimits,
) -> _Drafted:
    drafts: list[Draft] = []
    skipped: list[Skipped] = []
    waited, differentiated = waited_sequences(trace), differentiated_nodes(trace)
    gaps = times.gaps([one.node.id for one in chosen]) if times else {}
    made_sparse: set[int] = set()
    for one in chosen:
        node = one.node
        if not one.is_wanted:
            continue
        seconds = times.seconds(node.id) if times else math.nan
        try:
            reason = selection.leaves_out(node)
            if reason:
                raise NotPlayableError(reason)
            if is_communication(node):
                draft = draft_collective(node, trace, waited)
                draft = replace(draft, arguments=tuple(moved_value(one, target) for one in draft.arguments))
            else:
                draft = rewritten(draft_operator(node, limits), target, operators)
            _note_sparse(draft, made_sparse)
        except NotPlayableError as error:
            skipped.append(Skipped(node.id, node.name, str(error), seconds, error.is_harmless))
            continue
        gap = gaps.get(node.id, math.nan)
        drafts.append(
            replace(
                draft,
                module=one.module,
                step=one.step,
                recorded_seconds=seconds,
                gap_seconds=gap,
                stream=_stream(draft, times),
                is_differentiated=node.id in differentiated,
            )
        )
    return _Drafted(drafts, skipped)


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


def _with_waits(calls: Sequence[ReplayCall], drafts: Sequence[Draft]) -> list[ReplayCall]:
    """Waits that know the call of their collective; one whose collective is not played becomes idle time."""
    by_sequence: dict[int, int] = {}
    by_buffer: dict[int, int] = {}
    found = []
    for index, (call, draft) in enumerate(zip(calls, drafts, strict=True)):
        if call.kind is CallKind.COLLECTIVE and call.collective is not None:
            by_sequence[call.collective.sequence] = index
            for use in draft.arguments[0] if isinstance(draft.arguments[0], tuple) else ():
                by_buffer[getattr(use, "storage", NONE)] = index
        if call.kind is CallKind.WAIT:
            sent = draft.arguments[0] if draft.arguments else ()
            lives = [getattr(use, "storage", NONE) for use in sent] if isinstance(sent, tuple) else []
            partner = (
                by_sequence.get(draft.waits_for_sequence, NONE) if draft.waits_for_sequence != NONE else NONE
            )
            partner = next((by_buffer[life] for life in lives if life in by_buffer), partner)
            kind = CallKind.WAIT if partner != NONE else CallKind.IDLE
            call = replace(call, kind=kind, waits_for=partner)
        found.append(call)
    return found


def _nothing_playable(trace: ExecutionTrace, skipped: Sequence[Skipped]) -> str:
    reasons = dict.fromkeys(f"{one.operator[:60]}: {one.reason}" for one in skipped)
    return f"nothing of '{trace.source}' can be played here: {'; '.join(list(reasons)[:6])}"


def _rank(timeline: Trace | None) -> int:
    return timeline.rank if timeline is not None else 0


def _world_size(trace: ExecutionTrace, timeline: Trace | None) -> int:
    if timeline is not None and timeline.world_size > 1:
        return timeline.world_size
    return max((max(group.ranks, default=0) + 1 for group in trace.process_groups), default=1)
