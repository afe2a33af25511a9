"""From an execution trace, and the timeline recorded with it where there is one, to a replay program."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcast.errors import TraceError
from perfcast.replays.build.drafts import DraftOptions, draft_calls
from perfcast.replays.build.kernels import KernelFolder
from perfcast.replays.build.lives import with_inner_bytes, with_lasting_gradients
from perfcast.replays.build.select import Selection, choose
from perfcast.replays.build.tensors import place_tensors
from perfcast.replays.build.times import HostTimes, host_times
from perfcast.replays.communication.waits import place_waits
from perfcast.replays.fill.fill import FillOptions, fill_given
from perfcast.replays.play.limits import DEFAULT_LIMITS, ReplayLimits
from perfcast.replays.play.operators import InstalledOperators, OperatorTable
from perfcast.replays.program.draft import Draft
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, Skipped
from perfcast.replays.program.strides import with_strides
from perfcast.replays.rewrite.rewrite import target_of
from perfcast.traces.events import NONE, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.files.archive import open_members
from perfcast.traces.link.traces import TraceLink, link, repaired
from perfcast.units import format_bytes


def build_program(
    execution_trace: ExecutionTrace,
    *,
    timeline: Trace | None = None,
    selection: Selection = Selection(),  # noqa: B008 (frozen)
    device: str | None = None,
    limits: ReplayLimits = DEFAULT_LIMITS,
    operators: OperatorTable | None = None,
    fills: FillOptions = FillOptions(),  # noqa: B008 (frozen)
    runs_kernels: bool = False,
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
        runs_kernels: Whether saved sources of generated kernels, beside recorded values, may be run.
        source_hash: SHA-256 of the trace's bytes.

    Raises:
        TraceError: The selection leaves nothing, the timeline is of another run, an operator outside the
            allowed namespaces, more calls or a tensor larger than the limit, or recorded values that their
            operator cannot take.
    """
    operators = operators or InstalledOperators()
    linked = _linked(execution_trace, timeline)
    trace, times = with_strides(linked.trace), linked.times
    chosen = choose(trace, selection, operators, limits.namespaces)
    if len(chosen) > limits.max_calls:
        raise TraceError(
            f"'{trace.source}' holds {len(chosen):,} calls, more than the limit of {limits.max_calls:,}; "
            "choose fewer steps"
        )
    target = target_of(trace, device)
    options = DraftOptions(
        selection=selection,
        target=target,
        operators=operators,
        limits=limits,
        kernels=KernelFolder(fills.folder, runs_kernels),
    )
    drafted = draft_calls(trace, chosen, times, options)
    if not drafted.calls:
        raise TraceError(_nothing_playable(trace, drafted.skipped))
    placed = place_tensors(drafted.calls, limits)
    calls = with_inner_bytes(placed.calls, trace, placed.by_storage)
    program = ReplayProgram(
        calls=tuple(_with_waits(calls, drafted.calls)),
        slots=tuple(placed.slots),
        buffers=tuple(with_lasting_gradients(placed.buffers, placed.calls, trace, placed.by_storage)),
        groups=trace.process_groups,
        skipped=tuple(drafted.skipped),
        rank=_rank(timeline),
        world_size=_world_size(trace, timeline),
        num_steps=max(one.step for one in chosen) + 1,
        source=trace.source,
        source_hash=source_hash,
        selection={**selection.described(), "device": target.device},
        rebuilt=tuple(drafted.rebuilt),
        kernels=tuple(drafted.kernels),
        num_unselected=len(drafted.unselected_seconds),
        unselected_seconds=math.fsum(one for one in drafted.unselected_seconds if not math.isnan(one)),
    )
    program = place_waits(fill_given(program, trace, fills), trace, timeline, linked.link)
    if program.least_bytes > limits.max_program_bytes:
        raise TraceError(
            f"the replay needs {format_bytes(program.least_bytes)} at once, more than the limit of "
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
