"""Whether two plans can be told apart, and which measurement would do it.

Both steps rest on the same prices, so that errors of what both run alike cancel. With c the seconds of an
operation that the second plan runs more than the first (scaled so that all of a plan's add up to its step)
and h the half-width of its price's interval over the price, errors of one kind of operation are taken as
common and those of different kinds as independent:

    half-width² of the difference = Σ over kinds (Σ h c)² + (step error · difference)²

A measurement of the kind whose term is largest would narrow it most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.work import Stream
from perfcast.cost.interval import STEP_ERROR
from perfcast.cost.prices import Prices
from perfcast.prediction.plan_runs import CAUSE_OF_STREAM, count_runs
from perfcast.search.rank import Simulated
from perfcast.search.result import Separation
from perfcast.units import format_bytes, format_seconds

_Seconds = Mapping[tuple[Operation, Stream], float]
#: Measurements that are named.
_NUM_NAMED = 3


@dataclass(frozen=True)
class _Kind:
    """Operations whose prices err together.

    Attributes:
        low, high: Seconds by which the difference may be less, or more.
        widest: Its operation that contributes most.
    """

    name: str
    low: float
    high: float
    widest: Operation


def separate(ranked: Sequence[Simulated], prices: Prices, widening: float = 1.0) -> tuple[Separation, ...]:
    """The plans that the first cannot be told from: the interval of the difference holds 0.

    Args:
        widening: Factor on half-widths, as of a step's interval.
    """
    if not ranked:
        return ()
    base = _seconds_of(ranked[0], prices)
    found = []
    for place, other in enumerate(ranked[1:], start=1):
        one = _separation(
            place, ranked[0], other, _difference(base, _seconds_of(other, prices)), prices, widening
        )
        if one.difference_seconds_low <= 0:
            found.append(one)
    return tuple(found)


def _separation(
    place: int, first: Simulated, second: Simulated, more: _Seconds, prices: Prices, widening: float
) -> Separation:
    difference = second.time.step_seconds - first.time.step_seconds
    kinds = _by_kind(more, prices)
    rest = STEP_ERROR * difference
    below = widening * (sum(kind.low**2 for kind in kinds) + rest**2) ** 0.5
    above = widening * (sum(kind.high**2 for kind in kinds) + rest**2) ** 0.5
    named = [kind for kind in kinds if max(kind.low, kind.high) > 0][:_NUM_NAMED]
    return Separation(
        first=0, second=place, difference_seconds=difference,
        difference_seconds_low=difference - below, difference_seconds_high=difference + above,
        measurements=tuple(_words(kind) for kind in named),
    )  # fmt: skip


def _seconds_of(one: Simulated, prices: Prices) -> _Seconds:
    """Seconds of a step by operation: what the busiest rank runs, exposed, scaled to the whole step."""
    busiest = one.time.ranks[0]
    runs = count_runs(one.work, busiest.stage)
    own = {key: count * prices.seconds[key[0]] for key, count in runs.items()}
    totals: dict[Stream, float] = defaultdict(float)
    for (_, stream), seconds in own.items():
        totals[stream] += seconds
    shares = {
        stream: min(busiest.seconds_by_cause.get(CAUSE_OF_STREAM[stream], 0.0) / total, 1.0)
        for stream, total in totals.items()
        if stream in CAUSE_OF_STREAM and total
    }
    exposed = {key: seconds * shares.get(key[1], 1.0) for key, seconds in own.items()}
    whole = sum(exposed.values())
    scale = one.time.step_seconds / whole if whole else 0.0
    return {key: scale * seconds for key, seconds in exposed.items()}


def _difference(first: _Seconds, second: _Seconds) -> _Seconds:
    return {key: second.get(key, 0.0) - first.get(key, 0.0) for key in dict.fromkeys((*first, *second))}


def _by_kind(more: _Seconds, prices: Prices) -> list[_Kind]:
    """Kinds of operations, that which widens the difference most first."""
    rows: dict[str, list[tuple[float, float, Operation]]] = defaultdict(list)
    for (operation, stream), seconds in more.items():
        price = prices.seconds[operation]
        if not price or not seconds:
            continue
        low = seconds * (1 - prices.seconds_low[operation] / price)
        high = seconds * (prices.seconds_high[operation] / price - 1)
        rows[_kind_name(operation, stream)].append((low, high, operation))
    kinds = [
        _Kind(
            name, abs(sum(low for low, _, _ in found)), abs(sum(high for _, high, _ in found)),
            max(found, key=lambda row: abs(row[0]) + abs(row[1]))[2],
        )
        for name, found in rows.items()
    ]  # fmt: skip
    return sorted(kinds, key=lambda kind: -(kind.low + kind.high))


def _kind_name(operation: Operation, stream: Stream) -> str:
    if operation.kind is OperationKind.COLLECTIVE:
        return f"exchanges on the {stream.value} axis"
    return str(operation.kind.value).replace("_", " ")


def _words(kind: _Kind) -> str:
    """'attention: ± 31.2 ms of the difference; first flash_attention of (1, 32, 2048, 128)'."""
    width = format_seconds((kind.low + kind.high) / 2)
    return f"{kind.name}: ± {width} of the difference; first {_operation_words(kind.widest)}"


def _operation_words(operation: Operation) -> str:
    if operation.kind is OperationKind.COLLECTIVE:
        ranks = len(group_ranks(operation))
        return f"{operation.name} of {format_bytes(message_bytes(operation))} among {ranks} ranks"
    shapes = " · ".join("×".join(map(str, tensor.shape)) for tensor in operation.inputs[:2])
    return f"{operation.name} of {shapes}" if shapes else operation.name
