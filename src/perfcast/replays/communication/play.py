"""Collectives and waits of a program, carried out as it is played.

What can be prepared is prepared: the group, the method, its options and splits. In the measured part a
collective is one call of the group's method, and a wait is one of the work's. A collective that is not
carried out (``emulated_seconds``) takes as long as it is told, from when it starts, one after another on
one group, as on a device's stream for collectives; whoever waits for it waits so long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfcast.errors import TraceError
from perfcast.replays.communication.agreement import disagreement, parts_of
from perfcast.replays.communication.calls import Start, start_function
from perfcast.replays.communication.delays import Delays, delays_of
from perfcast.replays.communication.groups import GroupKey, group_of, groups_of_program
from perfcast.replays.communication.shapes import bus_bytes, shape_of
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, slots_in
from perfcast.replays.ranks.context import RankContext
from perfcast.traces.collectives.sizes import canonical_name

Play = Callable[[Sequence[Any], Sequence[Any]], None]
#: Latencies kept of one collective: the first ones of very long runs.
_MOST_LATENCIES = 10_000


@dataclass(frozen=True, slots=True)
class CollectiveLatency:
    """One collective of a program as it was replayed.

    ``seconds`` of each repetition, from its start until it was waited for: the collective's own time where
    the caller waits for it at once. ``bus_bytes`` is what crosses the slowest link of a ring, NaN
    where the collective takes no time at all, since none is known.
    """

    call: int
    name: str
    bus_bytes: float
    seconds: tuple[float, ...]
    is_asynchronous: bool
    is_emulated: bool

    @property
    def median_seconds(self) -> float:
        """Over the repetitions; NaN where there was none."""
        ordered = sorted(self.seconds)
        return ordered[len(ordered) // 2] if ordered else float("nan")

    @property
    def bus_bytes_per_second(self) -> float:
        """NCCL's bus bandwidth, by the median time."""
        return self.bus_bytes / self.median_seconds if self.median_seconds > 0 else float("nan")


@dataclass
class _UnderWay:
    """What one collective has going: its work, when it started, and the times that it took."""

    work: Any = None
    started: float = 0.0
    seconds: list[float] = field(default_factory=list)


class CollectiveRunner:
    """Carries out the collectives of one program on one rank.

    Args:
        context: This process among the others; ``None`` where it is alone: every collective is emulated.
        is_blocking: Each collective starts when all ranks are there, and is waited for at once.

    All ranks make theirs together.

    Raises:
        TraceError: The program is of another number of ranks, or the ranks' programs do not fit together.
    """

    def __init__(
        self, program: ReplayProgram, context: RankContext | None, *, is_blocking: bool = False
    ) -> None:
        self._program, self._context, self._is_blocking = program, context, is_blocking
        self._under_way: dict[int, _UnderWay] = {}
        self._delays: Delays = delays_of(program)
        if context is not None:
            _check_reach(program, context)
            problem = disagreement(context.gather(parts_of(program)))
            if problem:
                raise TraceError(f"the ranks do not exchange the same {problem}")
            context.make_groups(groups_of_program(program))

    def prepare(self, index: int) -> Play:
        """A function that starts the collective at a call; it takes the tensors received and sent.

        Raises:
            TraceError: It cannot be exchanged here.
        """
        call = self._program.calls[index]
        if call.kind is not CallKind.COLLECTIVE or call.collective is None:
            raise TraceError(f"call {index} ({call.operator}) is no collective")
        state = self._under_way.setdefault(index, _UnderWay())
        if self._is_emulated(call):
            return self._delayed(call, state)
        start = self._start(call)
        if self._is_blocking:
            return self._together(start, state)
        return _asynchronous(start, state) if call.is_asynchronous else _at_once(start, state)

    def prepare_wait(self, index: int) -> Callable[[], None]:
        """A function that waits for the collective that the call at ``index`` waits for."""
        state = self._under_way.setdefault(self._program.calls[index].waits_for, _UnderWay())
        return lambda: _wait(state)

    def finish_step(self) -> None:
        """Wait for what is still under way."""
        for state in self._under_way.values():
            if state.work is not None:
                _wait(state)

    def latencies(self) -> tuple[CollectiveLatency, ...]:
        """What each collective took, in the order of calls."""
        found = []
        for index in sorted(self._under_way):
            call = self._program.calls[index]
            if call.collective is not None:
                found.append(
                    CollectiveLatency(
                        call=index,
                        name=canonical_name(call.collective.name),
                        bus_bytes=bus_bytes(self._program, call) if call.emulated_seconds else math.nan,
                        seconds=tuple(self._under_way[index].seconds),
                        is_asynchronous=call.is_asynchronous and not self._is_blocking,
                        is_emulated=self._is_emulated(call),
                    )
                )
        return tuple(found)

    def forget(self) -> None:
        """Drop the latencies so far (of warming up)."""
        for state in self._under_way.values():
            state.seconds.clear()

    def _is_emulated(self, call: ReplayCall) -> bool:
        return self._context is None or not math.isnan(call.emulated_seconds)

    def _delayed(self, call: ReplayCall, state: _UnderWay) -> Play:
        seconds = call.communication_seconds if math.isnan(call.emulated_seconds) else call.emulated_seconds
        if math.isnan(seconds):
            raise TraceError(
                f"{call.operator} (node {call.node_id}) has nobody to exchange with here, and the recording "
                "does not say how long it took: give its timeline, --ranks, or a cluster (--emulate)"
            )
        key = self._key(call)
        start: Start = lambda received, sent: self._delays.start(key, seconds)  # noqa: E731
        return _asynchronous(start, state) if call.is_asynchronous else _at_once(start, state)

    def _key(self, call: ReplayCall) -> GroupKey:
        assert call.collective is not None
        return group_of(call.collective, self._program.groups, self._program.world_size)

    def _start(self, call: ReplayCall) -> Start:
        assert call.collective is not None
        assert self._context is not None
        key, context = self._key(call), self._context
        _check_devices(self._program, call, context)
        root = call.arguments[2] if len(call.arguments) > 2 else None
        return start_function(
            call.collective,
            shape_of(self._program, call),
            root if type(root) is int else 0,
            context.group(key),
            is_asynchronous=call.is_asynchronous,
            is_gloo=context.is_gloo,
        )

    def _together(self, start: Start, state: _UnderWay) -> Play:
        context = self._context
        assert context is not None

        def play(received: Sequence[Any], sent: Sequence[Any]) -> None:
            context.synchronize()
            context.barrier()
            state.started = time.perf_counter()
            work = start(received, sent)
            if work is not None:
                work.wait()
            context.synchronize()
            _note(state)

        return play


def _asynchronous(start: Start, state: _UnderWay) -> Play:
    def play(received: Sequence[Any], sent: Sequence[Any]) -> None:
        state.started = time.perf_counter()
        state.work = start(received, sent)

    return play


def _at_once(start: Start, state: _UnderWay) -> Play:
    def play(received: Sequence[Any], sent: Sequence[Any]) -> None:
        state.started = time.perf_counter()
        work = start(received, sent)
        if work is not None:
            work.wait()
        _note(state)

    return play


def _wait(state: _UnderWay) -> None:
    work, state.work = state.work, None
    if work is not None:
        work.wait()
        _note(state)


def _note(state: _UnderWay) -> None:
    if len(state.seconds) < _MOST_LATENCIES:
        state.seconds.append(time.perf_counter() - state.started)


def _check_reach(program: ReplayProgram, context: RankContext) -> None:
    """Every collective that is carried out is among ranks that are there."""
    furthest = max((max(key.ranks) for key in groups_of_program(program)), default=0)
    if furthest >= context.world_size or context.rank != program.rank:
        raise TraceError(
            f"rank {program.rank} of {program.world_size} was recorded, and rank {context.rank} of "
            f"{context.world_size} plays it: scale it (--world-size) or emulate the others (--emulate)"
        )


def _check_devices(program: ReplayProgram, call: ReplayCall, context: RankContext) -> None:
    """Gloo's collectives are of a processor's memory, NCCL's of a GPU's."""
    devices = {program.slots[slot].device.partition(":")[0] for slot in slots_in(call.arguments)}
    wanted = "cpu" if context.is_gloo else "cuda"
    if devices - {wanted}:
        other = "gloo" if "cpu" in devices else "nccl"
        raise TraceError(
            f"{context.backend} sends memory of '{wanted}', and {call.operator} (node {call.node_id}) "
            f"has tensors on {', '.join(sorted(devices))}: replay with --device {wanted}, "
            f"or --backend {other}"
        )
