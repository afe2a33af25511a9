"""When the state of a simulation repeats, and how often it surely repeats again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers

#: Remains and offsets that differ by less than this part of a message or of a period are the same.
SAME = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class Waits:
    """Who waits for whom; see ``FlowSet``.

    Attributes:
        num_messages: Of each flow.
    """

    waiting: Integers
    awaited: Integers
    lag: Integers
    num_messages: Integers

    def are_over(self, sent: Integers, arrived: Integers) -> Flags:
        """Whether the next message of each flow has all that it waits for."""
        short = arrived[self.awaited] < self.needed(sent)
        over: Flags = np.bincount(self.waiting[short], minlength=len(sent)) == 0
        return over

    def needed(self, sent: Integers) -> Integers:
        """How many messages of the awaited flow each dependency asks for."""
        asked: Integers = sent[self.waiting] - self.lag + 1
        return np.minimum(asked, self.num_messages[self.awaited])


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """The state of a simulation when all that may start has started.

    Attributes:
        flying, offset_seconds: Flows with a message between drain and arrival, and how long until then.
    """

    now_seconds: float
    sent: Integers
    arrived: Integers
    is_active: Flags
    left_bytes: Floats
    flying: Integers
    offset_seconds: Floats

    def steps_since(self, earlier: Moment) -> int:
        """The fewest messages that a flow that moved has sent since; none: 0."""
        steps = self.sent - earlier.sent
        return int(steps[steps > 0].min(initial=np.iinfo(np.int64).max)) if steps.any() else 0

    def repeats(self, earlier: Moment, message_bytes: Floats) -> bool:
        """Whether this is the earlier moment again, but for the time and the messages sent."""
        period = self.now_seconds - earlier.now_seconds
        return (
            len(self.flying) == len(earlier.flying)
            and period > 0
            and bool((self.is_active == earlier.is_active).all())
            and bool((self.flying == earlier.flying).all())
            and bool((self.sent > earlier.sent).any())
            and bool((abs(self.left_bytes - earlier.left_bytes) <= SAME * message_bytes).all())
            and bool((abs(self.offset_seconds - earlier.offset_seconds) <= SAME * period).all())
        )


def num_periods(anchor: Moment, moment: Moment, waits: Waits) -> int:
    """How often what happened from anchor to moment happens again with nothing new.

    No flow may come to its end, and no dependency that was open, or held a flow back, may change that. A
    dependency between flows that move equally stays as it is; others are given a period's room.
    """
    steps = moment.sent - anchor.sent
    moving = steps > 0
    times = int(((waits.num_messages - moment.sent)[moving] // steps[moving]).min()) - 1
    awaited_done = anchor.arrived[waits.awaited] == waits.num_messages[waits.awaited]
    ended = anchor.sent[waits.waiting] == waits.num_messages[waits.waiting]
    step, drift = steps[waits.waiting], steps[waits.awaited] - steps[waits.waiting]
    matters = ~awaited_done & ~ended & (drift != 0)
    step, drift = step[matters], drift[matters]
    asked = (moment.sent[waits.waiting] - waits.lag + 1)[matters]
    asked = np.where(waits.lag[matters] < 0, waits.needed(moment.sent)[matters], asked)
    spare = moment.arrived[waits.awaited][matters] - asked
    room = np.full(len(drift), np.iinfo(np.int64).max)
    losing = drift < 0
    room[losing] = (spare[losing] - step[losing]) // -drift[losing]
    held = (drift > 0) & (step == 0) & (spare < 0)
    room[held] = (-spare[held] - 1) // drift[held] - 1
    catching = (drift > 0) & (step > 0) & (spare - drift < step)
    room[catching] = 0
    return min(times, int(room.min(initial=np.iinfo(np.int64).max)))
