"""Flows: messages between devices, in sequence, that may have to wait for messages of other flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.arrays import ints, runs

#: A lag that asks for all messages of the other flow.
ALL = -(2**62)


@dataclass(frozen=True, eq=False, slots=True)
class FlowSet:
    """Flows in columns. A flow sends its messages one after the other, each as soon as it may.

    Message k of ``waiting`` may leave when message ``k - lag`` of ``awaited`` has arrived (the last one, if
    that has fewer; none, if ``k - lag`` is negative). A ring has lag 1: what a rank passes on is what it
    received a step ago; a pipelined tree lag 0; a second stage lag ``ALL``.

    Attributes:
        source, destination: Device of each flow.
        message_bytes: Of one message of each flow.
        num_messages: Of each flow, at least one.
        start_seconds: Before which a flow sends nothing.
        waiting, awaited, lag: Of each dependency.
    """

    source: Integers
    destination: Integers
    message_bytes: Floats
    num_messages: Integers
    start_seconds: Floats
    waiting: Integers
    awaited: Integers
    lag: Integers

    @property
    def num_flows(self) -> int:
        """Rows."""
        return len(self.source)

    @property
    def flow_bytes(self) -> Floats:
        """All that each flow carries."""
        return self.message_bytes * self.num_messages


def make_flows(
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    message_bytes: npt.ArrayLike,
    num_messages: npt.ArrayLike = 1,
    start_seconds: npt.ArrayLike = 0.0,
    waits: Sequence[npt.ArrayLike] | None = None,
) -> FlowSet:
    """Flows from columns or scalars; ``waits`` are the columns waiting, awaited and lag.

    Raises:
        PlanError: Bytes or starts that are negative or not finite, flows without messages, or a dependency on
            a flow that is not there.
    """
    source, destination = ints(source).reshape(-1), ints(destination).reshape(-1)
    sizes = np.broadcast_to(np.asarray(message_bytes, np.float64), source.shape).copy()
    starts = np.broadcast_to(np.asarray(start_seconds, np.float64), source.shape).copy()
    counts = np.broadcast_to(ints(num_messages), source.shape).copy()
    columns = waits or (ints([]), ints([]), ints([]))
    waiting = ints(columns[0])
    awaited, lag = ints(columns[1]), np.broadcast_to(ints(columns[2]), waiting.shape).copy()
    for name, values in (("bytes", sizes), ("start", starts)):
        wrong = ~np.isfinite(values) | (values < 0)
        if wrong.any():
            raise PlanError(f"a flow's {name} must be finite and not negative, not {values[wrong][0]}")
    if len(counts) and counts.min() < 1:
        raise PlanError(f"a flow has at least one message, not {counts.min()}")
    for ends in (waiting, awaited):
        if len(ends) and not 0 <= ends.min() <= ends.max() < len(source):
            raise PlanError(f"a dependency names a flow that is not among the {len(source)}")
    return FlowSet(source, destination, sizes, counts, starts, waiting, awaited, lag)


def together(sets: Sequence[FlowSet]) -> FlowSet:
    """All flows of several sets at once, in order; they meet only on the links."""
    offsets = np.cumsum([0, *(flows.num_flows for flows in sets)])
    return FlowSet(
        source=np.concatenate([s.source for s in sets]),
        destination=np.concatenate([s.destination for s in sets]),
        message_bytes=np.concatenate([s.message_bytes for s in sets]),
        num_messages=np.concatenate([s.num_messages for s in sets]),
        start_seconds=np.concatenate([s.start_seconds for s in sets]),
        waiting=np.concatenate([s.waiting + at for s, at in zip(sets, offsets[:-1], strict=True)]),
        awaited=np.concatenate([s.awaited + at for s, at in zip(sets, offsets[:-1], strict=True)]),
        lag=np.concatenate([s.lag for s in sets]),
    )


def in_turn(stages: Sequence[FlowSet]) -> FlowSet:
    """Stages: a device sends in a stage when all that the stage before sends to it has arrived."""
    both = together(stages)
    offsets = np.cumsum([0, *(flows.num_flows for flows in stages)])
    waiting, awaited = [both.waiting], [both.awaited]
    for number, (first, second) in enumerate(pairwise(stages)):
        order = np.argsort(first.destination, kind="stable")
        arrivals = first.destination[order]
        begins = np.searchsorted(arrivals, second.source, side="left")
        counts = np.searchsorted(arrivals, second.source, side="right") - begins
        awaited.append(order[runs(begins, counts)] + offsets[number])
        waiting.append(np.repeat(np.arange(second.num_flows), counts) + offsets[number + 1])
    num_new = sum(map(len, waiting[1:]))
    return replace(
        both,
        waiting=np.concatenate(waiting),
        awaited=np.concatenate(awaited),
        lag=np.concatenate([both.lag, np.full(num_new, ALL)]),
    )
