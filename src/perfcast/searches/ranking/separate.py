"""Whether two plans can be told apart, and which measurement would do it.

Both steps rest on the same prices, so that errors of what both run alike cancel. With c the seconds of an
operation that the second plan runs more than the first (scaled so that all of a plan's add up to its step),
h the half-width of its price's interval over the price, and ρ the part of its error that all of its kind
share (``cost.interval``),

    half-width² of the difference = Σ over kinds (Σ √ρ h c)² + Σ over operations (1 − ρ)(h c)²
                                    + step error² · (apart of the first² + apart of the second²)

The last term is what no price holds: clocks, gaps, how much of a collective is hidden, how a schedule is
kept. What both steps run alike errs alike; what a step runs apart from the other (its Σ of |c|) errs on its
own: other shapes, as of another degree of tensor parallelism, are other operations. Steps of another pipeline
(stages, schedule, chunks) share half of that error's variance even where they run the same operations: what
the device and the program add, not how the schedule is kept; then at least √½ of a step counts as apart. A
measurement of the kind, or of the steps, whose term is largest would narrow the interval most.

Of 3,551 pairs of published plans of one job (158 jobs, all but those of a grid whose own repeats differ by a
quarter) 91 % of the measured differences lie in this 90 % interval (same operations, another pipeline: 94 %),
and of the pairs that it calls sure 99 % were measured in that order. With that grid (4,707 pairs, 177 jobs)
it is 75 % and 96 % (``benchmarks/plan_differences.py``).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.work import Stream
from perfcast.cost.interval import STEP_ERROR, common_part
from perfcast.cost.prices import Prices
from perfcast.prediction.step.runs import CAUSE_OF_STREAM, count_runs
from perfcast.searches.ranking.simulator import Simulated
from perfcast.searches.result import Separation
from perfcast.units import format_bytes, format_seconds

_Seconds = Mapping[tuple[Operation, Stream], float]
#: Measurements that are named.
_NUM_NAMED = 3
#: Of the variance of a step's error, what steps of different pipelines do not share.
_OF_PIPELINE = 0.5


@dataclass(frozen=True)
class Source:
    """Something that may be wrong with a difference of two steps, and would be known if it was measured.

    Attributes:
        low, high: Seconds by which the difference may be less, or more; independent of other sources.
        words: What to measure.
    """

    low: float
    high: float
    words: str


@dataclass(frozen=True)
class _Price:
    """An operation that one step runs more of, or more slowly exposed, than the other.

    Attributes:
        low, high: Its half-widths in the difference, in seconds, with the difference's sign.
        common: ρ of its error.
    """

    low: float
    high: float
    common: float
    operation: Operation


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
        sources = _sources(ranked[0], other, _more(base, _seconds_of(other, prices)), prices)
        one = _separation(place, ranked[0], other, sources, widening)
        if one.difference_seconds_low <= 0:
            found.append(one)
    return tuple(found)


def tell_apart(
    first: Simulated, others: Sequence[Simulated], prices: Prices, widening: float = 1.0
) -> list[bool]:
    """Which plans the interval of the difference tells from a first one."""
    base = _seconds_of(first, prices)
    found = []
    for other in others:
        sources = _sources(first, other, _more(base, _seconds_of(other, prices)), prices)
        low, high = _interval(first, other, sources, widening)
        found.append(low > 0 or high < 0)
    return found


def difference_interval(
    first: Simulated, second: Simulated, prices: Prices, widening: float = 1.0
) -> tuple[float, float]:
    """90 % interval of the second's step less the first's, in seconds."""
    more = _more(_seconds_of(first, prices), _seconds_of(second, prices))
    return _interval(first, second, _sources(first, second, more, prices), widening)


def _interval(
    first: Simulated, second: Simulated, sources: Sequence[Source], widening: float
) -> tuple[float, float]:
    difference = second.time.step_seconds - first.time.step_seconds
    below = widening * sum(source.low**2 for source in sources) ** 0.5
    above = widening * sum(source.high**2 for source in sources) ** 0.5
    return difference - below, difference + above


def _separation(
    place: int, first: Simulated, second: Simulated, sources: Sequence[Source], widening: float
) -> Separation:
    low, high = _interval(first, second, sources, widening)
    named = [source for source in sources if max(source.low, source.high) > 0][:_NUM_NAMED]
    return Separation(
        first=0,
        second=place,
        difference_seconds=second.time.step_seconds - first.time.step_seconds,
        difference_seconds_low=low,
        difference_seconds_high=high,
        measurements=tuple(_words(source) for source in named),
    )


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


def _more(first: _Seconds, second: _Seconds) -> _Seconds:
    return {key: second.get(key, 0.0) - first.get(key, 0.0) for key in dict.fromkeys((*first, *second))}


def _sources(first: Simulated, second: Simulated, more: _Seconds, prices: Prices) -> list[Source]:
    """Kinds of operations and the steps themselves, that which widens the difference most first."""
    rows: dict[str, list[_Price]] = defaultdict(list)
    for (operation, stream), seconds in more.items():
        price = prices.seconds[operation]
        if not price or not seconds:
            continue
        low = seconds * (1 - prices.seconds_low[operation] / price)
        high = seconds * (prices.seconds_high[operation] / price - 1)
        common = common_part(prices.provenance[operation])
        rows[_kind_name(operation, stream)].append(_Price(low, high, common, operation))
    found = [_kind_source(name, kind) for name, kind in rows.items()]
    found.append(_step_source(first, second, list(more.values())))
    return sorted(found, key=lambda source: -(source.low + source.high))


def _kind_source(name: str, prices: Sequence[_Price]) -> Source:
    """Of one kind of operations: what they have in common adds up with its signs, the rest independently."""

    def half_width(widths: Sequence[float]) -> float:
        pairs = list(zip(prices, widths, strict=True))
        together = sum(price.common**0.5 * width for price, width in pairs)
        return math.hypot(together, *((1 - price.common) ** 0.5 * width for price, width in pairs))

    widest = max(prices, key=lambda price: abs(price.low) + abs(price.high)).operation
    low, high = half_width([price.low for price in prices]), half_width([price.high for price in prices])
    return Source(low, high, f"{name}, first {_operation_words(widest)}")


def _step_source(first: Simulated, second: Simulated, more: Sequence[float]) -> Source:
    """What no price holds, of what either step runs apart from the other."""
    apart = [-sum(c for c in more if c < 0), sum(c for c in more if c > 0)]
    if _pipeline(first.plan) != _pipeline(second.plan):
        steps = first.time.step_seconds, second.time.step_seconds
        apart = [max(own, _OF_PIPELINE**0.5 * step) for own, step in zip(apart, steps, strict=True)]
    width = STEP_ERROR * math.hypot(*apart)
    return Source(width, width, "a step of each plan: gaps, what is hidden, how the schedule is kept")


def _pipeline(plan: Plan) -> tuple[object, ...]:
    """What decides in which order a step's passes follow one another."""
    return plan.pipeline_parallel, plan.schedule, plan.virtual_stages_per_rank, plan.stage_layers


def _kind_name(operation: Operation, stream: Stream) -> str:
    if operation.kind is OperationKind.COLLECTIVE:
        return f"communication on the {stream.value} axis"
    return str(operation.kind.value).replace("_", " ")


def _words(source: Source) -> str:
    """'attention, first flash_attention of 1×32×2048×128 (± 31.2 ms of the difference)'."""
    return f"{source.words} (± {format_seconds((source.low + source.high) / 2)} of the difference)"


def _operation_words(operation: Operation) -> str:
    if operation.kind is OperationKind.COLLECTIVE:
        ranks = len(group_ranks(operation))
        return f"{operation.name} of {format_bytes(message_bytes(operation))} among {ranks} ranks"
    shapes = " · ".join("×".join(map(str, tensor.shape)) for tensor in operation.inputs[:2])
    return f"{operation.name} of {shapes}" if shapes else operation.name
