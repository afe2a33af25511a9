"""Ranks side by side: who computes longer, who comes last to collectives, and what the others wait.

The same collective is found on all ranks by its group and its place among the group's collectives. It began
to transfer when its last member had come; clocks of different machines need not agree for that, since what
the last member took is the transfer, and what another took longer is its wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcast.traces.collectives.matching import match
from perfcast.traces.collectives.sizes import TimedCollective, ring_elements
from perfcast.traces.explain.breakdown import Breakdown, CollectiveShare

#: A rank that comes last to this many times its fair share of collectives, and to this share, is a straggler.
STRAGGLER_FACTOR, STRAGGLER_SHARE = 2.0, 0.3


@dataclass(frozen=True, slots=True)
class RankLoad:
    """One rank among others.

    Attributes:
        compute_seconds: Device time on anything but communication.
        communication_wait_seconds: In collectives, until their last member had come.
        num_last: Collectives to which it came last.
    """

    rank: int
    step_seconds: float
    compute_seconds: float
    communication_seconds: float
    communication_wait_seconds: float
    num_last: int
    is_straggler: bool


@dataclass(frozen=True)
class Imbalance:
    """All ranks, and their collectives.

    Attributes:
        num_matched: Collectives that all recorded ranks have.
        compute_imbalance: (longest − mean) / mean of the ranks' computing.
        embedding_imbalance: (longest − mean) of the ranks' embedding work, over the median step.
    """

    ranks: tuple[RankLoad, ...]
    num_matched: int
    compute_imbalance: float
    embedding_imbalance: float


def compare_ranks(breakdowns: Sequence[Breakdown]) -> Imbalance:
    """Load and waits of each rank."""
    waits, last, matched = _waits(breakdowns)
    loads = []
    for index, own in enumerate(breakdowns):
        fair = matched / max(len(breakdowns), 1)
        is_straggler = last[index] >= max(STRAGGLER_FACTOR * fair, STRAGGLER_SHARE * matched, 2)
        time = own.device_time
        loads.append(
            RankLoad(
                own.rank,
                sum(s for _, s in own.step_seconds) / max(len(own.step_seconds), 1) or own.window_seconds,
                time.compute_seconds + time.copy_seconds,
                time.communication_seconds,
                waits[index],
                last[index],
                len(breakdowns) > 1 and is_straggler,
            )
        )
    compute = [load.compute_seconds for load in loads]
    embedding = [sum(k.seconds for k in b.kinds if k.label in ("embedding", "sort")) for b in breakdowns]
    steps = sorted(load.step_seconds for load in loads)
    median = steps[len(steps) // 2] if steps else 0.0
    return Imbalance(
        tuple(loads),
        matched,
        _over_mean(compute),
        (max(embedding) - sum(embedding) / len(embedding)) / median if median else 0.0,
    )


def _over_mean(values: Sequence[float]) -> float:
    mean = sum(values) / max(len(values), 1)
    return max(values) / mean - 1 if mean else 0.0


def _match(breakdowns: Sequence[Breakdown]) -> list[tuple[tuple[int, int], ...]]:
    """(breakdown, its collective) of each collective that several ranks recorded, all members among them."""
    ordered = [
        sorted((collective.order, place, collective.part) for place, collective in enumerate(own.collectives))
        for own in breakdowns
    ]
    return [
        tuple((rank, ordered[rank][index][1]) for rank, index in instance.members)
        for instance in match([[part for _, _, part in own] for own in ordered])
        if len(instance.members) > 1
    ]


def _waits(breakdowns: Sequence[Breakdown]) -> tuple[list[float], list[int], int]:
    """By rank, seconds waited in collectives and how often it came last; then how many were matched."""
    waits, last = [0.0] * len(breakdowns), [0] * len(breakdowns)
    instances = _match(breakdowns)
    for members in instances:
        seconds = [breakdowns[b].collectives[e].seconds for b, e in members]
        shortest = min(seconds)
        last[members[seconds.index(shortest)][0]] += 1
        for (index, _), own in zip(members, seconds, strict=True):
            waits[index] += own - shortest
    return waits, last, len(instances)


def share_collectives(breakdowns: Sequence[Breakdown]) -> tuple[CollectiveShare, ...]:
    """Collectives of all ranks by name, size and group, the longest first."""
    transfers: dict[tuple[int, int], float] = {}
    for members in _match(breakdowns):
        shortest = min(breakdowns[b].collectives[e].seconds for b, e in members)
        transfers.update(dict.fromkeys(members, shortest))
    shares: dict[tuple[object, ...], CollectiveShare] = {}
    for index, own in enumerate(breakdowns):
        for place, collective in enumerate(own.collectives):
            key = (
                collective.name,
                collective.dtype,
                collective.message_bytes,
                collective.group,
                collective.group_size,
            )
            transfer = transfers.get((index, place), collective.seconds)
            before = shares.get(key) or _empty(collective)
            shares[key] = replace(
                before,
                count=before.count + 1,
                seconds=before.seconds + collective.seconds,
                transfer_seconds=before.transfer_seconds + transfer,
                bus_bytes=max(before.bus_bytes, collective.bus_bytes),
            )
    return tuple(sorted(shares.values(), key=lambda s: (-s.seconds, s.name, s.message_bytes)))


def _empty(collective: TimedCollective) -> CollectiveShare:
    return CollectiveShare(
        collective.name,
        collective.dtype,
        collective.message_bytes,
        collective.group,
        collective.group_size,
        0,
        0.0,
        0.0,
        ring_elements(collective.name, collective.message_bytes, 0, collective.group_size),
    )
