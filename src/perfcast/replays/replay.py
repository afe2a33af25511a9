"""The whole of a replay: prepared programs are played, apart or by several ranks together, and judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from perfcast.measure.collectives.environment import Place
from perfcast.replays.build.deeper import count_hidden_graphs
from perfcast.replays.judge.fidelity import Fidelity, judge
from perfcast.replays.judge.host_gaps import HostGaps
from perfcast.replays.play.apart import run_apart
from perfcast.replays.play.prepare import missing_device
from perfcast.replays.play.session import NO_GAPS, Played, find_gaps, play_program
from perfcast.replays.prepare import Prepared, prepare_rank
from perfcast.replays.program.program import CallKind, ReplayProgram
from perfcast.replays.ranks.context import RankContext
from perfcast.replays.ranks.play import RankTask, play_rank
from perfcast.replays.ranks.ranks import run_as_rank, run_ranks
from perfcast.replays.request import ReplayRequest
from perfcast.replays.scale.emulate import count_untimed
from perfcast.replays.scale.fit_ranks import fit_to_ranks


def replay(
    request: ReplayRequest,
    prepared: Sequence[Prepared],
    *,
    on_repetition: Callable[[int], None] | None = None,
) -> tuple[Fidelity, ...]:
    """Play the programs of all ranks, and put each beside its recording.

    A rank that is alone plays in a process of its own; several play together, one process each, and rank k
    takes program k, in turns.

    Args:
        prepared: The request's programs (``prepare``).
        on_repetition: Called with the number of each repetition of a rank that is alone.

    Raises:
        TraceError: Nothing can run here, a rank fails, the ranks' programs do not fit together, or gaps are
            wanted and no timeline tells them.
    """
    num_ranks = request.num_ranks or len(prepared)
    if num_ranks == 1:
        return (_replay_alone(request, prepared[0], on_repetition),)
    own = [prepared[rank % len(prepared)] for rank in range(num_ranks)]
    tasks = [_task(request, one, is_replicated=len(prepared) < num_ranks) for one in own]
    played = run_ranks(play_rank, tasks, backend=request.ranks.backend)
    return tuple(_judged(one, *result, request.host_gaps) for one, result in zip(own, played, strict=True))


def replay_as_rank(request: ReplayRequest, place: Place) -> tuple[Fidelity, ...] | None:
    """Prepare and play as one of the ranks that a launcher started.

    Returns:
        On rank 0 what every rank found, in order; ``None`` on the others.

    Raises:
        TraceError, InputError: As ``prepare`` and ``replay``, or the other ranks do not come, or stop.
    """
    prepared, is_replicated = prepare_rank(request, place.rank, place.world_size)
    own = replace(request, module="")  # preparing has run it in this process
    task = _task(own, prepared, is_replicated=is_replicated)

    def play(context: RankContext) -> Fidelity:
        return _judged(prepared, *play_rank(task, context), request.host_gaps)

    found = run_as_rank(play, place, backend=request.ranks.backend)
    return None if found is None else tuple(found)


def with_measured_gaps(
    request: ReplayRequest, prepared: Sequence[Prepared], found: Sequence[Fidelity]
) -> tuple[Fidelity, ...]:
    """What was found of each prepared program, with the gaps that a host is kept busy for here.

    Gaps as recorded hold what a call's own caller costs, which a replay pays too: only a play tells how much
    of them is left. Where none has (nothing was played, or without gaps) and a timeline tells gaps, the
    programs are played once for that, by the recorded ranks; where the device is not here, what was found
    stays.

    Raises:
        TraceError: As ``replay``.
    """
    own = tuple(found[: len(prepared)])
    is_known = bool(own) and all(one.played.gaps_seconds for one in own)
    if is_known or any(one.gaps is None for one in prepared) or missing_device(prepared[0].program):
        return own
    gaps: HostGaps = "scaled" if request.host_gaps == "off" else request.host_gaps
    once = replace(request.play, repeats=1, warm_up=0, profile_path="")
    as_recorded = replace(request.ranks, world_size=None, cluster=None, is_emulated=False)
    asked = replace(request, host_gaps=gaps, play=once, num_ranks=None, ranks=as_recorded)
    return replay(asked, prepared)


def with_gaps(program: ReplayProgram, gaps_seconds: Sequence[float]) -> ReplayProgram:
    """A program that has found gaps in the place of recorded ones; as it is where none were found."""
    if len(gaps_seconds) != len(program.calls):
        return program
    calls = (replace(call, gap_seconds=gap) for call, gap in zip(program.calls, gaps_seconds, strict=True))
    return replace(program, calls=tuple(calls))


def _task(request: ReplayRequest, prepared: Prepared, *, is_replicated: bool) -> RankTask:
    return RankTask(
        request=request,
        program=prepared.program,
        gaps=None if request.host_gaps == "off" else prepared.gap_source,
        label_seconds=prepared.label_seconds,
        is_replicated=is_replicated,
    )


def _replay_alone(
    request: ReplayRequest, prepared: Prepared, on_repetition: Callable[[int], None] | None
) -> Fidelity:
    """Others' part in collectives only takes its time."""
    program = prepared.program
    if any(call.kind is CallKind.COLLECTIVE for call in program.calls):
        program = fit_to_ranks(program, None, request.ranks)
        prepared = replace(prepared, program=program)
    gaps = NO_GAPS
    if request.host_gaps != "off":
        source = prepared.gap_source
        wanted: Mapping[str, object] = {
            "source": source,
            "label_seconds": prepared.label_seconds[source.is_observed],
            "is_scaled": request.host_gaps == "scaled",
        }
        gaps = run_apart(find_gaps, program, request.play, options=wanted, module=request.module)
    played = run_apart(
        play_program,
        program,
        request.play,
        options={"gaps": gaps, "label_seconds": prepared.label_seconds.get(False, 0.0)},
        module=request.module,
        on_repetition=on_repetition,
    )
    return _judged(prepared, program, played, request.host_gaps)


def _judged(prepared: Prepared, program: ReplayProgram, played: Played, host_gaps: HostGaps) -> Fidelity:
    """``program`` is the prepared one as it fits the ranks that are there."""
    own = replace(prepared, program=program)
    is_as_recorded = program.world_size == prepared.program.world_size
    is_compared = own.is_whole and is_as_recorded
    kernels, launches = _recorded_kernels(own) if is_compared else (None, math.nan)
    return judge(
        program,
        played,
        plain_processor_seconds=own.source.plain_processor_seconds if is_compared else None,
        plain_wall_seconds=own.source.plain_wall_seconds if is_compared else None,
        recorded_kernels=kernels,
        recorded_launches=launches,
        host_gaps=host_gaps,
        is_as_recorded=is_as_recorded,
        notes=(*_notes(own, host_gaps), *_world_note(prepared.program, program)),
    )


def _world_note(recorded: ReplayProgram, played: ReplayProgram) -> tuple[str, ...]:
    if recorded.world_size == played.world_size:
        return ()
    return (
        f"played as one of {played.world_size} ranks, recorded as one of {recorded.world_size}: the "
        "recording's times are not set beside these",
    )


def _recorded_kernels(prepared: Prepared) -> tuple[dict[str, float] | None, float]:
    """Seconds by kind and launches of a step of the recording; nothing on a processor."""
    from perfcast.traces.explain.breakdown import break_down
    from perfcast.traces.explain.work import analyse

    trace = prepared.source.linked
    if trace is None or trace.platform == "cpu":
        return None, math.nan
    found = break_down(analyse(trace))
    steps = max(len(found.step_seconds), 1)
    return {one.label: one.seconds / steps for one in found.kinds}, found.num_launches / steps


def _compiled_note(prepared: Prepared, host_gaps: HostGaps) -> tuple[str, ...]:
    """Generated code for a processor is no operator: nothing in a trace stands for it."""
    hidden = count_hidden_graphs(prepared.source.execution_trace)
    if not hidden:
        return ()
    kept = (
        "--host-gaps keeps the host busy in its place"
        if host_gaps == "off"
        else "the host is kept busy in its place"
    )
    return (
        f"{hidden} compiled graphs (torch.compile) run code of their own, which the recording has no "
        f"operators for: only the operators that they call are played and counted; {kept}",
    )


def _notes(prepared: Prepared, host_gaps: HostGaps) -> tuple[str, ...]:
    notes = [*prepared.program.rebuilt, *prepared.program.assumed, *_compiled_note(prepared, host_gaps)]
    untimed = count_untimed(prepared.program)
    if untimed:
        notes.append(
            f"{untimed} collectives with ranks that are not here take no time, since the recording does not "
            "say how long they took: --timeline tells it, --emulate CLUSTER:RANKS forecasts it, --ranks N "
            "plays them"
        )
    if prepared.gaps is None:
        notes.append("no timeline was given: the recording's times are not known")
    elif host_gaps != "off" and prepared.gaps.is_observed:
        notes.append(
            "the host's gaps come from a step that was slowed down by recording its execution trace; the "
            "folder that 'perfcast trace record' writes has steps without"
        )
    elif host_gaps == "off":
        notes.append("the host's own time between calls is left out: --host-gaps puts it in")
    return tuple(notes)
