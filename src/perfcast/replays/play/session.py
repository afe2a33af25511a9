"""A replay from start to end in one process: rehearsed, measured, then watched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from perfcast.replays.build.call_times import CallTimes
from perfcast.replays.communication.play import CollectiveLatency, CollectiveRunner
from perfcast.replays.judge.host_gaps import GapSource
from perfcast.replays.judge.own_times import own_times, relative_seconds, spins, spread, timed_calls
from perfcast.replays.judge.profiling import profile_calls, profile_memory
from perfcast.replays.judge.utilisation import Utilisation, Watch
from perfcast.replays.play.played import PlayedSteps, Preparation, Rehearsal, RunsCollectives
from perfcast.replays.play.player import Player
from perfcast.replays.program.program import CallKind, ReplayProgram
from perfcast.replays.request import PlayOptions

if TYPE_CHECKING:
    from perfcast.traces.events import Trace

#: Repetitions that are watched after the measured ones.
_WATCHED = 3
#: Longer repetitions are watched once only.
_SLOW_SECONDS = 2.0


@dataclass(frozen=True)
class Gaps:
    """How long the host is kept busy before each call, and what the program then takes.

    ``wanted_seconds`` are the processor's, of all steps together; NaN where no gaps are wanted.
    """

    seconds: tuple[float, ...] = ()
    wanted_seconds: float = math.nan


NO_GAPS = Gaps()


@dataclass(frozen=True)
class Played:
    """What came of it.

    ``times`` are the calls' own seconds and the replay's gaps, watched and without added gaps.
    ``wanted_seconds`` are the processor's that the whole program is to take with added gaps; NaN without.
    ``kernel_seconds`` by kind and ``num_launches`` are of one repetition on a device; empty and 0 on a
    processor. ``peak_bytes`` is the memory alive at the fullest moment. ``gaps_seconds`` were added before
    the calls.
    """

    steps: PlayedSteps
    rehearsal: Rehearsal
    preparation: Preparation
    times: CallTimes
    kernel_seconds: dict[str, float] = field(default_factory=dict)
    num_launches: int = 0
    peak_bytes: int = 0
    gaps_seconds: tuple[float, ...] = ()
    wanted_seconds: float = math.nan
    utilisation: Utilisation = Utilisation()  # noqa: RUF009 (frozen)
    collectives: tuple[CollectiveLatency, ...] = ()

    @property
    def added_gap_seconds(self) -> float:
        """All that was added, in all steps together."""
        return sum(self.gaps_seconds)


def play_program(
    program: ReplayProgram,
    options: PlayOptions,
    *,
    gaps: Gaps = NO_GAPS,
    collective_runner: RunsCollectives | None = None,
    on_repetition: Callable[[int], None] | None = None,
    label_seconds: float = 0.0,
) -> Played:
    """Rehearse a program, play it under the clock, then watch it.

    Args:
        gaps: How long the host is kept busy before each call, beside the replay's own time.
        label_seconds: What the profiler costs for each event.

    Raises:
        TraceError: Nothing of it can run here.
    """
    player = _player(program, options, collective_runner)
    rehearsal = player.rehearse()
    player.set_gaps(gaps.seconds)
    watch = Watch(_device_index(program))
    watch.start()
    steps = player.run(
        options.repeats,
        warm_up=options.warm_up,
        max_seconds=options.max_seconds,
        on_repetition=on_repetition,
    )
    utilisation = watch.stop()
    latencies = player.latencies()
    empty = CallTimes((float("nan"),) * len(program.calls), (float("nan"),) * len(program.calls))
    if steps.is_interrupted:
        return Played(steps, rehearsal, player.preparation, empty, utilisation=utilisation)
    is_slow = median(steps.wall_seconds) > _SLOW_SECONDS
    trace = _watched(player, options, 1 if is_slow else _WATCHED)
    kernels, launches = _kernels(trace)
    player.set_gaps(())
    return Played(
        steps,
        rehearsal,
        player.preparation,
        timed_calls(player, trace, label_seconds),
        kernels,
        launches,
        peak_bytes(player),
        gaps.seconds,
        gaps.wanted_seconds,
        utilisation,
        latencies,
    )


def find_gaps(
    program: ReplayProgram,
    options: PlayOptions,
    *,
    source: GapSource,
    label_seconds: float,
    is_scaled: bool,
    collective_runner: RunsCollectives | None = None,
) -> Gaps:
    """How long the host has to be kept busy before each call, beside what the replay itself takes.

    A profiler makes a host's gaps longer than they are, by more than its labels cost. Where the recording
    tells how long its steps took when nobody watched, all gaps together are that less what the calls take
    when nobody watches, and not more than the timelines say, which beyond that tell how they are spread.

    Args:
        is_scaled: Gaps keep their proportion to the calls' own times; else they last as recorded.

    Raises:
        TraceError: Nothing of the program can run here.
    """
    player = _player(program, options, collective_runner)
    rehearsal = player.rehearse()
    own = own_times(player, is_observed=source.is_observed, label_seconds=label_seconds)
    recorded = [
        call.recorded_seconds if call.kind is CallKind.OPERATOR else math.nan for call in program.calls
    ]
    relative = relative_seconds(recorded, own.calls.seconds) if is_scaled else 1.0
    found = spins([call.gap_seconds for call in program.calls], own.calls.gaps_seconds, relative)
    plain_seconds = median(plain for _, plain in own.turns)
    if math.isnan(source.processor_seconds):
        return Gaps(found, plain_seconds + sum(found))
    missing = [one.recorded_seconds for one in program.skipped]
    missing += [program.calls[index].recorded_seconds for index in rehearsal.failures]
    played = source.processor_seconds - sum(one for one in missing if not math.isnan(one))
    totals = [
        played / (relative_seconds(recorded, seconds) if is_scaled else 1.0) - plain
        for seconds, plain in own.turns
    ]
    seconds = spread(found, min(median(totals), sum(found)))
    return Gaps(seconds, plain_seconds + sum(seconds))


def _player(
    program: ReplayProgram, options: PlayOptions, collective_runner: RunsCollectives | None
) -> Player:
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    if collective_runner is None and any(call.kind is CallKind.COLLECTIVE for call in program.calls):
        collective_runner = CollectiveRunner(program, None)
    return Player(program, preparation=options.preparation, collective_runner=collective_runner)


def _device_index(program: ReplayProgram) -> int | None:
    """The number of the first device that is no processor."""
    names = (buffer.device for buffer in program.buffers if not buffer.device.startswith("cpu"))
    name = next(names, None)
    return None if name is None else int(name.partition(":")[2] or 0)


def _watched(player: Player, options: PlayOptions, repeats: int) -> Trace:
    path = Path(options.profile_path) if options.profile_path else None
    return profile_calls(player.play, repeats, path=path)


def _kernels(trace: Trace) -> tuple[dict[str, float], int]:
    """Seconds by kind of kernels and launches of one repetition; nothing on a processor."""
    from perfcast.traces.explain.breakdown import break_down
    from perfcast.traces.explain.work import analyse

    if trace.platform == "cpu":
        return {}, 0
    found = break_down(analyse(trace))
    repeats = len(trace.steps)
    return {share.label: share.seconds / repeats for share in found.kinds}, found.num_launches // repeats


def peak_bytes(player: Player) -> int:
    """Memory at the fullest moment: what was there before, and the most that a repetition adds."""
    import torch

    if torch.cuda.is_available() and _device_index(player.program) is not None:
        torch.cuda.reset_peak_memory_stats()
        player.play()
        return int(torch.cuda.max_memory_allocated())
    kept = player.let_go()

    def play() -> (
        None
    ):  # what the first leaves is there in the second: freed memory that was there is not told
        player.play()
        if kept:
            player.play()

    return player.lasting_bytes + profile_memory(play)
