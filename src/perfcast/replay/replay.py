"""The whole of a replay: what is read becomes a program, is played apart, and judged."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcast.errors import TraceError
from perfcast.replay.build.build import build_program, hash_of
from perfcast.replay.build.select import Selection
from perfcast.replay.build.sources import Source
from perfcast.replay.fill.fill import FillOptions
from perfcast.replay.judge.fidelity import Fidelity, judge
from perfcast.replay.judge.host_gaps import GapSource, with_host_gaps
from perfcast.replay.judge.profiling import label_seconds
from perfcast.replay.play.apart import run_apart
from perfcast.replay.play.limits import DEFAULT_LIMITS, ReplayLimits
from perfcast.replay.play.session import Played, PlayOptions, find_gaps, play_program
from perfcast.replay.program.program import ReplayProgram
from perfcast.replay.ranks.play import OFF, SCALED, RankOptions, play_rank
from perfcast.replay.ranks.ranks import run_ranks
from perfcast.replay.scale.emulate import count_untimed
from perfcast.traces.events import Trace


@dataclass(frozen=True)
class Prepared:
    """A program with what its recording tells of it. ``gaps`` is ``None`` without a timeline."""

    program: ReplayProgram
    source: Source
    gaps: GapSource | None
    label_seconds: dict[bool, float]


def prepare_source(
    source: Source,
    *,
    selection: Selection = Selection(),  # noqa: B008 (frozen)
    device: str | None = None,
    limits: ReplayLimits = DEFAULT_LIMITS,
    fills: FillOptions = FillOptions(),  # noqa: B008 (frozen)
) -> Prepared:
    """The program of one rank, with gaps and times where a timeline is at hand.

    Raises:
        TraceError: As ``build_program``.
    """
    trace = source.execution_trace
    program = build_program(
        trace, timeline=source.linked, selection=selection, device=device, limits=limits, fills=fills,
        source_hash=hash_of(source.path),
    )  # fmt: skip
    if source.linked is None:
        return Prepared(program, source, None, {})
    costs = {is_observed: label_seconds(is_observed=is_observed) for is_observed in (False, True)}
    program, gaps = with_host_gaps(program, trace, source.linked, source.timeline, label_seconds=costs)
    return Prepared(program, source, gaps, costs)


def replay(
    prepared: Prepared,
    options: PlayOptions,
    *,
    host_gaps: str = OFF,
    module: str = "",
    on_repetition: Callable[[int], None] | None = None,
) -> Fidelity:
    """Play a program in a process of its own, and put it beside its recording.

    Raises:
        TraceError: Nothing of it can run here, or gaps are wanted and no timeline tells them.
    """
    _check_gaps([prepared], host_gaps)
    program = prepared.program
    if host_gaps != OFF:
        options = replace(options, gaps_seconds=found_gaps(prepared, options, host_gaps, module=module))
    played = run_apart(
        play_program, program, options,
        options={"label_seconds": prepared.label_seconds.get(False, 0.0)},
        module=module, on_repetition=on_repetition,
    )  # fmt: skip
    return _judged(prepared, program, played, host_gaps)


def found_gaps(
    prepared: Prepared, options: PlayOptions, host_gaps: str = SCALED, *, module: str = ""
) -> tuple[float, ...]:
    """How long the host is kept busy before each call; found by a replay in a process of its own.

    Raises:
        TraceError: As ``find_gaps``, or no timeline tells gaps.
    """
    source = gap_source(prepared)
    wanted = {
        "source": source,
        "label_seconds": prepared.label_seconds[source.is_observed],
        "is_scaled": host_gaps == SCALED,
    }
    found: tuple[float, ...] = run_apart(find_gaps, prepared.program, options, options=wanted, module=module)
    return found


def gap_source(prepared: Prepared) -> GapSource:
    """Where gaps are from; with a step's processor seconds where all of it is played where it was recorded.

    Raises:
        TraceError: No timeline tells gaps.
    """
    _check_gaps([prepared], SCALED)
    assert prepared.gaps is not None
    assert prepared.source.linked is not None
    program, seconds = prepared.program, prepared.source.plain_processor_seconds
    is_on_processor = all(buffer.device == "cpu" for buffer in program.buffers)
    if seconds and _is_whole(program) and is_on_processor and prepared.source.linked.platform == "cpu":
        return replace(prepared.gaps, processor_seconds=seconds * program.num_steps)
    return prepared.gaps


def with_gaps(program: ReplayProgram, gaps_seconds: Sequence[float]) -> ReplayProgram:
    """A program that has found gaps in the place of recorded ones; as it is where none were found."""
    if len(gaps_seconds) != len(program.calls):
        return program
    calls = (replace(call, gap_seconds=gap) for call, gap in zip(program.calls, gaps_seconds, strict=True))
    return replace(program, calls=tuple(calls))


def replay_ranks(
    prepared: Sequence[Prepared],
    options: PlayOptions,
    *,
    num_ranks: int,
    ranks: RankOptions,
    module: str = "",
) -> tuple[Fidelity, ...]:
    """Play the programs of several ranks together, one process each; rank k takes program k, in turns.

    Raises:
        TraceError: A rank fails, or the ranks' programs do not fit together.
    """
    _check_gaps(prepared, ranks.host_gaps)
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for rank in range(num_ranks):
            own = prepared[rank % len(prepared)]
            task = Path(folder) / f"task{rank}"
            with task.open("wb") as file:
                gaps = None if ranks.host_gaps == OFF else gap_source(own)
                pickle.dump((own.program, gaps, own.label_seconds, options, ranks, module), file)
            jobs.append({"task": str(task), "is_replicated": len(prepared) < num_ranks})
        run_ranks(play_rank, jobs, backend=ranks.backend)
        found = []
        for rank in range(num_ranks):
            with (Path(folder) / f"task{rank}.done").open("rb") as file:
                program, played = pickle.load(file)  # written by the ranks, in a folder of our own
            found.append(_judged(prepared[rank % len(prepared)], program, played, ranks.host_gaps))
    return tuple(found)


def _check_gaps(prepared: Sequence[Prepared], host_gaps: str) -> None:
    if host_gaps != OFF and any(one.gaps is None for one in prepared):
        raise TraceError("host gaps need a timeline of the same run: --timeline, or a recorded folder")


def _judged(prepared: Prepared, program: ReplayProgram, played: Played, host_gaps: str) -> Fidelity:
    kernels, launches = _recorded_kernels(prepared)
    is_whole = _is_whole(program)
    return judge(
        program, played,
        plain_processor_seconds=prepared.source.plain_processor_seconds if is_whole else None,
        plain_wall_seconds=prepared.source.plain_wall_seconds if is_whole else None,
        recorded_kernels=kernels if is_whole else None,
        recorded_launches=launches if is_whole else float("nan"),
        host_gaps=host_gaps, notes=_notes(prepared, program, host_gaps),
    )  # fmt: skip


def _is_whole(program: ReplayProgram) -> bool:
    """Whether all of the recorded steps is played as it was."""
    return not set(program.selection) - {"mode", "device"} and program.selection.get("mode") == "all"


def _recorded_kernels(prepared: Prepared) -> tuple[dict[str, float] | None, float]:
    """Seconds by kind and launches of a step of the recording; nothing on a processor."""
    from perfcast.traces.explain.breakdown import break_down
    from perfcast.traces.explain.work import analyse

    trace: Trace | None = prepared.source.linked
    if trace is None or trace.platform == "cpu":
        return None, float("nan")
    found = break_down(analyse(trace))
    steps = max(len(found.step_seconds), 1)
    return {one.label: one.seconds / steps for one in found.kinds}, found.num_launches / steps


def _notes(prepared: Prepared, program: ReplayProgram, host_gaps: str) -> tuple[str, ...]:
    notes = []
    untimed = count_untimed(program)
    if untimed:
        notes.append(
            f"{untimed} collectives with ranks that are not here take no time, since the recording does not "
            "say how long they took: --timeline tells it, --emulate CLUSTER:RANKS forecasts it, --ranks N "
            "plays them"
        )
    if prepared.gaps is None:
        notes.append("no timeline was given: the recording's times are not known")
    elif host_gaps != OFF and prepared.gaps.is_observed:
        notes.append(
            "the host's gaps come from a step that was slowed down by recording its execution trace; the "
            "folder that 'perfcast trace record' writes has steps without"
        )
    elif host_gaps == OFF:
        notes.append("the host's own time between calls is left out: --host-gaps puts it in")
    return tuple(notes)
