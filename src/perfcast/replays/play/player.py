"""A program played: memory prepared, every call made ready, then called again and again under a clock.

What a replay itself costs is kept out of what is measured: arguments are made once, given tensors are
there before the clock starts, and the loop only calls functions without arguments (``runners``). With
*lazy* preparation a given buffer is allocated right before its first use and freed after its last; that
time is taken off the clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from time import perf_counter, process_time

from perfcast.errors import TraceError
from perfcast.replays.build.differentiated import parameters
from perfcast.replays.communication.play import CollectiveLatency
from perfcast.replays.play.played import PlayedSteps, Preparation, Rehearsal, RunsCollectives
from perfcast.replays.play.prepare import (
    Memory,
    available_bytes,
    given_buffers,
    given_bytes,
    made_peak_bytes,
    stand_in,
)
from perfcast.replays.play.runners import (
    FAILURES,
    WINDOW_EVENTS,
    Findings,
    ResultSpots,
    Runner,
    checked_runner,
    checked_window_runner,
    gradient_runner,
    plain_runner,
    put,
    spin_runner,
    spinning_overhead_seconds,
    stream_switch,
    window_runner,
)
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, slots_in
from perfcast.replays.program.spots import LaidOutCall, Spot, lay_out
from perfcast.traces.events import NONE

#: Share of the free memory that preparing all given tensors in advance may take.
_MAX_SHARE_AHEAD = 0.6
#: Repetitions that are measured although time is over, and how many such as it has to hold: of longer ones a
#: single one does, without warm-up beyond the rehearsal.
_LEAST_REPEATS, _HELD_REPEATS = 5, 10
#: Share of the recorded memory that tensors which only a replay needs may take all along; larger ones are
#: made when they are needed.
_MAX_SHARE_MADE_UP = 0.01


class Player:
    """Plays one program on this machine.

    Args:
        collective_runner: Carries out collectives and waits; without one they fail.
        seed: Of what given tensors are filled with.

    Raises:
        TraceError: The memory is not there, or a device is not.
    """

    def __init__(
        self,
        program: ReplayProgram,
        *,
        preparation: Preparation = Preparation.AUTO,
        collective_runner: RunsCollectives | None = None,
        seed: int = 0,
    ) -> None:
        self.program = program
        self.preparation = _chosen(preparation, program)
        self._collective_runner = collective_runner
        self._layout = lay_out(program)
        self._memory = Memory(program, seed)
        self._findings = Findings()
        self._is_rehearsed = False
        self._paused = [0.0, 0.0]
        self._runners: list[Runner] = []
        self._owners: list[int] = []
        self._gaps: list[float] = []
        self._parameters = parameters(program)
        self._given = given_buffers(program)
        self._passing = self._too_large(
            {i: program.buffers[i].num_bytes for i in self._given if program.buffers[i].made_up}
        )
        self._standing: frozenset[int] = frozenset()  # replaced slots whose stand-ins stay
        self._slots_of_given: dict[int, list[int]] = {buffer: [] for buffer in self._given}
        for index, slot in enumerate(program.slots):
            if slot.buffer in self._slots_of_given and slot.maker == NONE:
                self._slots_of_given[slot.buffer].append(index)
        self._bind_collectives()
        self._is_on_device = any(buffer.device.startswith("cuda") for buffer in program.buffers)

    def rehearse(self) -> Rehearsal:
        """Make each call once, checked; later repetitions leave out what failed.

        Raises:
            TraceError: Not one call can run here.
        """
        for buffer in self._ahead():
            self._bring(buffer)
        for index in self._layout.orphans:
            self._findings.replaced[index] = "no call returns a tensor of its buffer"
        self._play(self._list_runners(self._checked))
        calls = [entry for entry in self._layout.entries if entry.call.kind is not CallKind.IDLE]
        if calls and len(self._findings.failures) >= len(calls):
            raise TraceError(f"no call can run here: {next(iter(self._findings.failures.values()))}")
        sizes = {index: self.program.slots[index].num_bytes for index in self._findings.replaced}
        self._standing = frozenset(sizes) - self._too_large(sizes)
        for index in self._standing:
            self._stand_in(index)
        self._is_rehearsed = True
        self.set_gaps(())
        found = self._findings
        return Rehearsal(dict(found.failures), dict(found.replaced), tuple(sorted(found.undifferentiated)))

    def set_gaps(self, gaps_seconds: Sequence[float]) -> None:
        """Keep the host busy for so long before each call (one number a call); empty: for no time."""
        overhead = spinning_overhead_seconds() if len(gaps_seconds) else 0.0
        self._gaps = [max(gap - overhead, 0.0) if gap == gap else 0.0 for gap in gaps_seconds]
        self._runners, self._owners = [], []
        is_noted = False
        switch = stream_switch(is_on_device=self._is_on_device)
        for runner, owner in self._list_runners(self._plain):
            change = switch(self.program.calls[owner].stream)
            if change is not None:
                self._runners.append(change)
                self._owners.append(owner)
            if self._is_differentiated(owner) != is_noted:
                is_noted = not is_noted
                self._runners.append(gradient_runner(is_noted))
                self._owners.append(owner)
            self._runners.append(runner)
            self._owners.append(owner)
        change = switch(NONE)
        if change is not None:
            self._runners.append(change)
            self._owners.append(len(self.program.calls) - 1)

    @property
    def lasting_bytes(self) -> int:
        """Memory that is there all along: of given tensors, and of what stands for others."""
        ahead = sum(self.program.buffers[buffer].num_bytes for buffer in self._ahead())
        return ahead + sum(self.program.slots[index].num_bytes for index in self._standing)

    def let_go(self) -> bool:
        """Frees what a repetition left for the next one; whether there was any."""
        kept = self._layout.kept
        was_any = any(one is not None for one in kept)
        kept[:] = [None] * len(kept)
        return was_any

    def latencies(self) -> tuple[CollectiveLatency, ...]:
        """How long each collective took, in all repetitions so far."""
        return () if self._collective_runner is None else self._collective_runner.latencies()

    def expected_events(self) -> list[tuple[str, int]]:
        """Names of the outermost operators that a repetition runs, each with its call (``NONE``: of none)."""
        slots, replaced = self.program.slots, self._findings.replaced
        names: list[tuple[str, int]] = []
        for entry in self._layout.entries:
            for taken in entry.windows:
                if taken.slot not in replaced:
                    is_same_type = slots[taken.source].dtype == slots[taken.slot].dtype
                    names += [(name, NONE) for name in WINDOW_EVENTS[is_same_type]]
            if entry.call.kind is not CallKind.IDLE and entry.index not in self._findings.failures:
                names.append((entry.call.operator, entry.index))
        return names

    def play(self) -> None:
        """All calls once.

        Raises:
            TraceError: A call fails that ran in the rehearsal.
        """
        self._play(zip(self._runners, self._owners, strict=True))

    def run(
        self,
        repeats: int,
        *,
        warm_up: int = 3,
        max_seconds: float = float("inf"),
        on_repetition: Callable[[int], None] | None = None,
    ) -> PlayedSteps:
        """Play the program again and again; an interrupt ends it, and what was played is kept.

        Args:
            max_seconds: When they have passed and a few repetitions are measured, no other is begun; one does
                where it takes longer than a tenth of that.

        Raises:
            TraceError: A call fails that ran in the rehearsal.
        """
        if not self._is_rehearsed:
            self.rehearse()
        wall: list[float] = []
        processor: list[float] = []
        is_interrupted = False
        end, least = perf_counter() + max_seconds, _LEAST_REPEATS
        try:
            with _collector_paused():
                for repetition in range(warm_up + repeats):
                    if len(wall) >= least and perf_counter() > end:
                        break
                    seconds = self._timed()
                    if seconds[0] * _HELD_REPEATS > max_seconds > 0.0:
                        warm_up, least = 0, 1
                    if repetition >= warm_up and len(wall) < repeats:
                        wall.append(seconds[0])
                        processor.append(seconds[1])
                    if on_repetition is not None:
                        on_repetition(repetition)
        except KeyboardInterrupt:
            is_interrupted = True
        return PlayedSteps(tuple(wall), tuple(processor), self.program.num_steps, is_interrupted)

    def _timed(self) -> tuple[float, float]:
        """Wall and processor seconds of one repetition."""
        self._restore()
        self._paused[:] = (0.0, 0.0)
        self._synchronize()
        wall, processor = perf_counter(), process_time()
        self.play()
        if self._collective_runner is not None:
            self._collective_runner.finish_step()
        self._synchronize()
        processor_end, wall_end = process_time(), perf_counter()
        return wall_end - wall - self._paused[0], processor_end - processor - self._paused[1]

    def _play(self, runners: Iterator[tuple[Runner, int]] | zip[tuple[Runner, int]]) -> None:
        import torch

        current = -1
        try:
            with torch.no_grad():
                for run, current in runners:  # noqa: B007
                    run()
        except FAILURES as error:
            call = self.program.calls[current]
            raise TraceError(f"{describe_call(self.program, call)} failed: {error}") from error

    def _restore(self) -> None:
        """Whole numbers of given buffers that calls write into are as they were before the first step."""
        if self.preparation is not Preparation.AHEAD:
            return
        written = {slot for entry in self._layout.entries for slot in entry.written}
        for buffer in {self.program.slots[slot].buffer for slot in written}:
            if self.program.buffers[buffer].is_given:
                self._memory.fill(buffer, only_whole_numbers=True)

    def _synchronize(self) -> None:
        if self._is_on_device:
            import torch

            torch.accelerator.synchronize()

    def _bind_collectives(self) -> None:
        for entry in self._layout.entries:
            if entry.call.kind not in (CallKind.COLLECTIVE, CallKind.WAIT):
                continue
            if self._collective_runner is None:
                entry.problem = "collectives need other ranks"
            elif entry.call.kind is CallKind.COLLECTIVE:
                entry.function = self._collective_runner.prepare(entry.index)
            else:
                entry.function = self._collective_runner.prepare_wait(entry.index)

    # --- what runs, in order -------------------------------------------------------------------------

    def _list_runners(
        self, runners_of: Callable[[LaidOutCall, Sequence[Spot]], Iterator[Runner]]
    ) -> Iterator[tuple[Runner, int]]:
        """Runners with the calls that they belong to; allocation and freeing where preparation is lazy."""
        starts: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        ahead = set(self._ahead())
        for buffer in self._given:
            if buffer not in ahead:
                starts.setdefault(max(self.program.buffers[buffer].first_call, 0), []).append(buffer)
                ends.setdefault(self.program.buffers[buffer].last_call, []).append(buffer)
        orphans: dict[int, list[int]] = {}
        for slot, first in self._layout.orphans.items():
            orphans.setdefault(first, []).append(slot)
        for entry in self._layout.entries:
            if entry.index in starts:
                yield self._off_the_clock(self._bring, starts[entry.index]), entry.index
            yield from ((runner, entry.index) for runner in self._stand_ins(orphans.get(entry.index, ())))
            for runner in runners_of(entry, self._clears(entry)):
                yield runner, entry.index
            if entry.index in ends:
                yield self._off_the_clock(self._drop, ends[entry.index]), entry.index

    def _checked(self, entry: LaidOutCall, clears: Sequence[Spot]) -> Iterator[Runner]:
        targets = self._layout.targets
        for taken in entry.windows:
            yield checked_window_runner(taken, self.program, targets[taken.slot], self._findings)
        if entry.call.kind is not CallKind.IDLE:
            yield checked_runner(entry, self.program, targets, clears, self._findings)

    def _plain(self, entry: LaidOutCall, clears: Sequence[Spot]) -> Iterator[Runner]:
        targets, replaced = self._layout.targets, self._findings.replaced
        if self._gaps and self._gaps[entry.index] > 0:
            yield spin_runner(self._gaps[entry.index])
        for taken in entry.windows:
            if taken.slot not in replaced:
                yield window_runner(taken, self.program, targets[taken.slot])
            else:
                yield from self._stand_ins((taken.slot,))
        if entry.call.kind is CallKind.IDLE:
            return
        if entry.index not in self._findings.failures:
            yield plain_runner(entry, ResultSpots.of(entry, targets, replaced), clears)
        elif clears:
            yield lambda: put(None, clears)
        yield from self._stand_ins([slot for slot in entry.call.outputs if slot in replaced])

    def _stand_ins(self, slots: Sequence[int]) -> Iterator[Runner]:
        """Makes tensors in the place of those that do not come out, where they do not stay."""
        passing = [slot for slot in slots if slot not in self._standing]
        if passing:
            yield self._off_the_clock(self._stand_in, passing)

    def _stand_in(self, slot: int) -> None:
        put(stand_in(self.program.slots[slot]), self._layout.targets[slot])

    def _clears(self, entry: LaidOutCall) -> tuple[Spot, ...]:
        """The places of a call's tensors that do not stay there for the next repetition."""
        stays = self._standing
        return tuple(spot for spot, slot in entry.spots if slot not in stays and not self._is_kept(slot))

    def _is_differentiated(self, index: int) -> bool:
        call = self.program.calls[index]
        is_operator = call.kind is CallKind.OPERATOR
        return is_operator and call.is_differentiated and index not in self._findings.undifferentiated

    def _is_kept(self, index: int) -> bool:
        slot = self.program.slots[index]
        is_ahead = self.preparation is Preparation.AHEAD and slot.buffer not in self._passing
        return is_ahead and slot.maker == NONE and slot.buffer in self._slots_of_given

    def _ahead(self) -> list[int]:
        """Given buffers that are there from before the first call on."""
        if self.preparation is Preparation.LAZILY:
            return []
        return [buffer for buffer in self._given if buffer not in self._passing]

    def _too_large(self, sizes: Mapping[int, int]) -> frozenset[int]:
        """What of things that the recording did not have is not kept all along: the largest ones."""
        left = int(self.program.peak_bytes * _MAX_SHARE_MADE_UP)
        ordered = sorted(sizes, key=lambda one: (sizes[one], one))
        totals = zip(ordered, accumulate(sizes[one] for one in ordered), strict=True)
        return frozenset(one for one, total in totals if total > left)

    def _bring(self, buffer: int) -> None:
        self._memory.allocate(buffer)
        for index in self._slots_of_given[buffer]:
            tensor = self._memory.tensor(index)
            if index in self._parameters and tensor.is_floating_point():
                tensor.requires_grad_()
            put(tensor, self._layout.targets[index])

    def _drop(self, buffer: int) -> None:
        for index in self._slots_of_given[buffer]:
            put(None, self._layout.targets[index])
        self._memory.free(buffer)

    def _off_the_clock(self, change: Callable[[int], None], buffers: Sequence[int]) -> Runner:
        """Something done for buffers while the clock stands still."""

        def run() -> None:
            wall, processor = perf_counter(), process_time()
            for buffer in buffers:
                change(buffer)
            self._paused[1] += process_time() - processor
            self._paused[0] += perf_counter() - wall

        return run


def _chosen(preparation: Preparation, program: ReplayProgram) -> Preparation:
    if preparation is not Preparation.AUTO:
        return preparation
    needed = given_bytes(program) + made_peak_bytes(program)
    fits = needed <= _MAX_SHARE_AHEAD * available_bytes(program)
    return Preparation.AHEAD if fits else Preparation.LAZILY


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection under the clock."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def describe_call(program: ReplayProgram, call: ReplayCall) -> str:
    """Operator, node and shapes: what a person needs to find it in the trace."""
    slots = [program.slots[index] for index in slots_in(call.arguments)]
    shapes = ", ".join(f"{slot.dtype}{list(slot.shape)}" for slot in slots[:6])
    more = ", …" if len(slots) > 6 else ""
    return f"{call.name} (node {call.node_id}) on ({shapes}{more})"
