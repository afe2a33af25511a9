"""The event loop: flows start, drain and arrive, and with each event the rates change.

Time moves from one event to the next; all that happens at one moment (to 1e-12 of the time) happens together:
arrivals first, then drains, then starts, each in the order of kinds. What repeats itself is not played again:
when the state of a moment is that of an earlier one but for the number of messages sent, as many such periods
as nothing else disturbs are skipped.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.fair_share import fair_rates
from perfcast.simulate.network.period import Moment, Waits, num_periods
from perfcast.simulate.network.symmetry import Kinds

#: Moments and remains that differ by less than this part are the same.
SAME = 1e-12
#: After so many events, a stretch in which every flow that moves has sent so many messages counts as steady.
LONG_EVENTS, LONG_STEPS = 20_000, 500
#: Rates that are remembered, over all sets of active flows.
MOST_REMEMBERED = 10_000_000


@dataclass(eq=False, slots=True)
class Play:
    """The state of a simulation; all arrays have an entry for each kind of flow.

    Attributes:
        sent, arrived: Messages that have left altogether, and that are there.
        left_bytes: Of the message under way.
        flying: Heap of (arrival time, sequence, kinds whose message arrives).
        finish_seconds: When the last message arrived.
        is_exact: Whether all was played or repeated itself; see ``skip``.
    """

    kinds: Kinds
    waits: Waits
    now_seconds: float
    sent: Integers
    arrived: Integers
    is_active: Flags
    left_bytes: Floats
    finish_seconds: Floats
    flying: list[tuple[float, int, Integers]] = field(default_factory=list)
    sequence: int = 0
    num_events: int = 0
    is_exact: bool = True
    remembered: dict[bytes, Floats] = field(default_factory=dict)

    def rates(self) -> Floats:
        """Bytes a second of one flow of each kind now."""
        key = np.packbits(self.is_active).tobytes()
        if key not in self.remembered:
            if len(self.remembered) * len(self.sent) >= MOST_REMEMBERED:
                self.remembered.clear()
            self.remembered[key] = fair_rates(self.kinds.shares, self.is_active)
        return self.remembered[key]


def play(kinds: Kinds) -> Play:
    """Run to the end.

    Raises:
        PlanError: Flows that wait for each other in a circle.
    """
    count = kinds.num_kinds
    state = Play(
        kinds=kinds,
        waits=Waits(kinds.waiting, kinds.awaited, kinds.lag, kinds.num_messages),
        now_seconds=0.0,
        sent=np.zeros(count, np.int64),
        arrived=np.zeros(count, np.int64),
        is_active=np.zeros(count, np.bool_),
        left_bytes=np.zeros(count),
        finish_seconds=np.zeros(count),
    )
    anchor, since, patience = look(state), 0, 1
    while (state.arrived < kinds.num_messages).any():
        start(state)
        is_alike = bool((state.is_active == anchor.is_active).all())
        if (is_alike and skip(state, anchor)) or since == patience:
            anchor, since, patience = look(state), 0, patience * 2
        since += 1
        advance(state)
    return state


def start(state: Play) -> None:
    """Begin every message that may begin; messages without bytes leave at once."""
    kinds = state.kinds
    while True:
        is_ready = ~state.is_active & (state.sent < kinds.num_messages)
        is_ready &= kinds.start_seconds <= state.now_seconds * (1 + SAME)
        is_ready &= state.waits.are_over(state.sent, state.arrived)
        if not is_ready.any():
            return
        state.is_active |= is_ready
        state.left_bytes[is_ready] = kinds.message_bytes[is_ready]
        empty = is_ready & (kinds.message_bytes == 0)
        if not empty.any():
            return
        let_fly(state, empty)


def let_fly(state: Play, drained: Flags) -> None:
    """The last byte has left: it arrives after the latency."""
    state.is_active &= ~drained
    state.sent[drained] += 1
    state.left_bytes[drained] = 0.0
    which = np.flatnonzero(drained)
    latencies = state.kinds.latency_seconds[which]
    for latency in sorted(set(latencies.tolist())):
        entry = (state.now_seconds + latency, state.sequence, which[latencies == latency])
        heapq.heappush(state.flying, entry)
        state.sequence += 1


def advance(state: Play) -> None:
    """Go to the next arrival, drain or start.

    Raises:
        PlanError: Nothing is under way and nothing will start.
    """
    kinds, now = state.kinds, state.now_seconds
    rates = state.rates()
    drain_seconds = np.full(kinds.num_kinds, np.inf)
    np.divide(state.left_bytes, rates, out=drain_seconds, where=state.is_active)
    later = kinds.start_seconds[kinds.start_seconds > now * (1 + SAME)]
    following = min(
        state.flying[0][0] if state.flying else np.inf,
        now + float(drain_seconds.min(initial=np.inf)),
        float(later.min(initial=np.inf)),
    )
    if not np.isfinite(following):
        stuck = int(np.argmax(state.arrived < kinds.num_messages))
        flow = int(np.argmax(kinds.flow_kind == stuck))
        raise PlanError(f"flow {flow} waits for ever: flows wait for each other in a circle")
    state.now_seconds, state.num_events = following, state.num_events + 1
    limit = following * (1 + SAME)
    while state.flying and state.flying[0][0] <= limit:
        _, _, which = heapq.heappop(state.flying)
        state.arrived[which] += 1
        over = which[state.arrived[which] == kinds.num_messages[which]]
        state.finish_seconds[over] = following
    drained = state.is_active & (now + drain_seconds <= limit)
    state.left_bytes -= rates * (following - now)
    let_fly(state, drained)


def look(state: Play) -> Moment:
    """The state as it can be compared with that of another moment."""
    entries = [(at - state.now_seconds, which) for at, _, which in sorted(state.flying, key=lambda e: e[:2])]
    flying = np.concatenate([np.zeros(0, np.int64), *(which for _, which in entries)])
    offsets = np.concatenate([np.zeros(0), *(np.full(len(which), at) for at, which in entries)])
    order = np.lexsort((flying, np.round(offsets, 15)))
    return Moment(
        state.now_seconds,
        state.sent.copy(),
        state.arrived.copy(),
        state.is_active.copy(),
        state.left_bytes.copy(),
        flying[order],
        offsets[order],
    )


def skip(state: Play, anchor: Moment) -> bool:
    """Repeat what happened since the anchor as often as it surely happens again; whether that was some times.

    What goes on for long without ever being quite the same is taken to go on at its average pace.
    """
    moment, kinds = look(state), state.kinds
    is_repeat = moment.repeats(anchor, kinds.message_bytes)
    is_steady = state.num_events > LONG_EVENTS and moment.steps_since(anchor) >= LONG_STEPS
    if not (is_repeat or is_steady):
        return False
    times = num_periods(anchor, moment, state.waits)
    period = moment.now_seconds - anchor.now_seconds
    later = kinds.start_seconds[kinds.start_seconds > moment.now_seconds]
    if len(later):
        times = min(times, int((float(later.min()) - moment.now_seconds) / period) - 1)
    if times < 1:
        return False
    steps = times * (moment.sent - anchor.sent)
    state.sent += steps
    state.arrived += steps
    state.now_seconds += times * period
    state.flying = [(at + times * period, number, which) for at, number, which in state.flying]
    state.is_exact &= is_repeat
    return True
