"""A benchmark that has been played: what cannot run here is left out, and the rest played once.

Three things are tried before anything is promised: whether each call can be written at all, whether it runs
when PyTorch is asked here (a rehearsal in a process of its own), and whether the written program does, in
fresh processes with PyTorch alone. A line that fails only there is left out too, and the rest tried again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from perfcast.errors import TraceError
from perfcast.replays.communication.play import CollectiveLatency
from perfcast.replays.generate.fresh import FreshPlay, play_fresh
from perfcast.replays.generate.generate import Generated, generate
from perfcast.replays.generate.text import argument_text
from perfcast.replays.generate.tokens import label_text, operator_parts
from perfcast.replays.play.apart import run_apart
from perfcast.replays.play.bind import bind_call
from perfcast.replays.play.played import Rehearsal
from perfcast.replays.play.player import Player
from perfcast.replays.play.prepare import (
    available_bytes,
    given_bytes,
    made_peak_bytes,
    missing_device,
)
from perfcast.replays.program.program import CallKind, ReplayProgram
from perfcast.replays.request import ReplayRequest
from perfcast.replays.rewrite.leave_out import leave_out
from perfcast.replays.scale.fit_ranks import fit_together
from perfcast.units import format_bytes

#: Namespaces of operators that PyTorch alone has.
OWN_NAMESPACES = frozenset({"aten", "prims", "c10d", "_c10d_functional", "quantized"})
#: Ranks that are started for the one play; of more, one plays without collectives.
_MOST_RANKS = 8
#: Lines that are left out one after the other since they fail only in the written program.
_MOST_TRIES = 12
#: How long the written program is played to see what its gaps come to, each without and with.
_GAP_SECONDS = 10.0
#: Gaps become so much longer at most.
_MOST_FACTOR = 2.0
#: Share of the free memory that a play may take.
_MEMORY_SHARE = 0.8
#: Of the free memory; where given tensors take more, they are made when first needed.
_AHEAD_SHARE = 0.6


@dataclass(frozen=True)
class Proven:
    """A benchmark, and what came of playing it once."""

    made: Generated
    play: FreshPlay


def generate_proven(
    request: ReplayRequest,
    programs: Sequence[ReplayProgram],
    folder: str | Path,
    *,
    rehearsals: Sequence[Rehearsal] | None = None,
    wanted_seconds: Sequence[float] = (),
    is_anonymised: bool = False,
    fidelity: Mapping[str, Any] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Proven:
    """Write the programs of recorded ranks as a benchmark of all ranks, and play it once.

    Args:
        rehearsals: Of the programs, where they have been played; ``None``: they are rehearsed here.
        wanted_seconds: What all steps of each program are to take of the processor with the host's gaps.
        on_progress: Told what is done next.

    Raises:
        InputError: A folder with other files.
        TraceError: Programs of several ranks that do not fit together, or nothing of them can run.
    """
    tell = on_progress or (lambda _: None)
    programs = [leave_out(program, unwritable(program)) for program in programs]
    _check_something_is_left(programs)
    if rehearsals is None and not missing_device(programs[0]):
        tell("rehearsing")
        rehearsals = run_apart(rehearse_alone, *programs, module=request.module)
    for place, found in enumerate(rehearsals or ()):
        programs[place] = _without_failures(programs[place], found)
    for _ in range(_MOST_TRIES):
        fitted = _of_all_ranks(request, programs)
        tell("playing it once in a fresh process")
        with tempfile.TemporaryDirectory(prefix="perfcast-generated-") as trial:
            made = generate(fitted, trial)
            played = _played(made, fitted)
            factors = _gap_factors(made, fitted, played, wanted_seconds)
        failed = made.call_at(*played.place) if played.place is not None else None
        if failed is None or fitted[failed[0]].calls[failed[1]].kind is not CallKind.OPERATOR:
            break
        rank, reason = failed[0] % len(programs), played.reason.partition(": ")[2]
        programs[rank] = leave_out(programs[rank], {failed[1]: reason})
    told = played_data(played)
    fitted = tuple(_with_longer_gaps(one, factors[rank % len(factors)]) for rank, one in enumerate(fitted))
    made = generate(fitted, folder, is_anonymised=is_anonymised, fidelity=fidelity, played=told)
    return Proven(made, played)


def played_data(play: FreshPlay) -> dict[str, object]:
    """What came of the play, for the manifest."""
    data = asdict(play)
    del data["place"]
    return data


def _gap_factors(
    made: Generated, programs: Sequence[ReplayProgram], first: FreshPlay, wanted_seconds: Sequence[float]
) -> tuple[float, ...]:
    """How much longer each rank's gaps have to last so that the written program takes what is wanted.

    The written lines cost the host other than a replay's own loop, and so does a pause; played without
    gaps it takes p, with those that suit the loop q: gaps × (wanted − p) / (q − p).
    """
    if first.state != "ran" or first.is_alone or not wanted_seconds or not first.seconds:
        return (1.0,)
    steps = programs[0].num_steps
    rounds = int(min(max(_GAP_SECONDS / (first.seconds * steps), 3), 30))
    words = ["--repeat", str(rounds), "--warm-up", "2"]
    num_ranks = first.num_ranks
    without, with_gaps = (play_fresh(made, num_ranks, [*words, *more]) for more in ([], ["--host-gaps"]))
    pairs = zip(without.processor_seconds, with_gaps.processor_seconds, strict=False)
    factors = []
    for rank, (plain, paused) in enumerate(pairs):
        wanted = wanted_seconds[rank % len(wanted_seconds)] / steps
        added = paused - plain
        is_known = isfinite(wanted) and added > 0
        factors.append(min(max((wanted - plain) / added, 0.0), _MOST_FACTOR) if is_known else 1.0)
    return tuple(factors) or (1.0,)


def _with_longer_gaps(program: ReplayProgram, factor: float) -> ReplayProgram:
    if factor == 1.0:
        return program
    calls = tuple(replace(call, gap_seconds=call.gap_seconds * factor) for call in program.calls)
    return replace(program, calls=calls)


def unwritable(program: ReplayProgram) -> dict[int, str]:
    """Calls that no program with PyTorch alone can hold, each with the reason."""
    found: dict[int, str] = {}
    for index, call in enumerate(program.calls):
        if call.kind is not CallKind.OPERATOR:
            continue
        space = call.operator.partition("::")[0]
        if space not in OWN_NAMESPACES:
            found[index] = f"operators of '{label_text(space)}' are not PyTorch's own"
            continue
        try:
            operator_parts(call.operator, call.overload)
            bound = bind_call(call)
            for value in (*bound.positional, *bound.keywords.values()):
                argument_text(value, lambda _: "")
        except TraceError as error:
            found[index] = str(error)
    return found


def _check_something_is_left(programs: Sequence[ReplayProgram]) -> None:
    if all(call.kind is CallKind.IDLE for program in programs for call in program.calls):
        reason = next((one.reason for program in programs for one in program.skipped), "it is empty")
        raise TraceError(f"nothing of the recording can be written as a program: {reason}")


class _Muted:
    """Collectives that nobody takes part in: what a rank calls itself is tried alone."""

    def prepare(self, index: int) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        return lambda received, sent: None

    def prepare_wait(self, index: int) -> Callable[[], None]:
        return lambda: None

    def finish_step(self) -> None:
        return None

    def latencies(self) -> tuple[CollectiveLatency, ...]:
        return ()


def rehearse_alone(*programs: ReplayProgram) -> tuple[Rehearsal, ...]:
    """Each call of each program once, checked; collectives are left out.

    Raises:
        TraceError: Of a program not one call can run here.
    """
    return tuple(Player(program, collective_runner=_Muted()).rehearse() for program in programs)


def _without_failures(program: ReplayProgram, found: Rehearsal) -> ReplayProgram:
    """What a rehearsal found, of the operators; a program that fits other ranks has more slots."""
    failures = {
        index: reason
        for index, reason in found.failures.items()
        if program.calls[index].kind is CallKind.OPERATOR
    }
    replaced = [index for index in found.replaced if index < len(program.slots)]
    return leave_out(program, failures, replaced, found.undifferentiated)


def _of_all_ranks(request: ReplayRequest, programs: Sequence[ReplayProgram]) -> tuple[ReplayProgram, ...]:
    """What each rank of the benchmark plays: of those asked for, else of those recorded."""
    if not any(call.kind is CallKind.COLLECTIVE for program in programs for call in program.calls):
        return tuple(programs)
    num_ranks = request.num_ranks or len(programs)
    if not request.ranks.is_emulated:
        recorded = max(program.world_size for program in programs)
        num_ranks = request.ranks.world_size or request.num_ranks or max(recorded, len(programs))
    return fit_together(programs, num_ranks, request.ranks)


def _played(made: Generated, programs: Sequence[ReplayProgram]) -> FreshPlay:
    """With all ranks where the machine holds them, else with one alone."""
    away = missing_device(programs[0])
    if away:
        reason = f"it is for '{away}', which is not here; --device cpu makes one that is played here"
        return FreshPlay(state="not played", reason=reason)
    num_ranks = len(programs) if made.manifest["has_collectives"] else 1
    free = available_bytes(programs[0])
    least = max(program.least_bytes for program in programs)
    if num_ranks > _MOST_RANKS or num_ranks * least > _MEMORY_SHARE * free:
        num_ranks = 1
    if least > _MEMORY_SHARE * free:
        reason = f"it needs {format_bytes(least)}, and {format_bytes(free)} are free"
        return FreshPlay(state="not played", reason=reason)
    ahead = max(given_bytes(program) + made_peak_bytes(program) for program in programs)
    is_lean = num_ranks * ahead > _AHEAD_SHARE * free
    return play_fresh(made, num_ranks, ["--repeat", "0", *(["--lean"] if is_lean else [])])
