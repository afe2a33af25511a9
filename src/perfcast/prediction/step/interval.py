"""How sure the time of a training step is, by what its seconds consist of.

Prices err by kernel; a step errs by more: clocks, gaps, how much of a collective is hidden, how a schedule is
kept. In logarithms, with s_k the shares of the step that are exposed communication between and inside nodes,
waiting for other stages and for the host, and h the half-width that prices alone give,

    half-width² = whole² + (prices · h)² + Σ over k (width_k · s_k)² + (new die)² + (several nodes)²

for each side; on a new die, of whose steps few sources tell, prices count whole. Where runs of a program were
seen to stall (repeats of one run differ by half, by the same seconds for each micro-batch, whatever the
model), the upper end also holds such stalls:

    high = step · exp(half-width) + micro-batches · stall · (devices / 64) ^ growth

All figures are quantiles on runs of sources left out (``perfcast validate published --write-spread``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from perfcast.core.forecast.plan import StepTime
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import StepWork
from perfcast.cost.prices import Prices
from perfcast.errors import CatalogError
from perfcast.figures import parse_figure, parse_table, parse_toml
from perfcast.prediction.step.runs import Runs, count_runs, exposed_shares, relative_interval
from perfcast.prediction.step.scaling import leaves_node

#: What decides how sure a step is; the last two are there or not.
Part = Literal["whole", "prices", "network", "node", "waiting", "host", "new_die", "several_nodes"]
PARTS: tuple[Part, ...] = get_args(Part)
#: Devices of a step that a stall is stated for.
STALL_DEVICES = 64
#: Sources whose steps a die needs, so that it is no new one.
FEWEST_SOURCES = 3
#: Least seconds of stalls, over the step's, that an answer tells of.
_TOLD = 0.25


@dataclass(frozen=True, slots=True)
class Stall:
    """Seconds that a micro-batch may stall for, on ``STALL_DEVICES`` devices, and how they grow with them."""

    seconds: float
    growth: float

    def of(self, devices: int, micro_batches: int) -> float:
        """Seconds of a whole step."""
        return micro_batches * self.seconds * float((devices / STALL_DEVICES) ** self.growth)


@dataclass(frozen=True)
class StepWidths:
    """Widths of intervals of training steps.

    Attributes:
        below, above: By ``PARTS``, in natural logarithms.
        stalls: By framework, of plans of one stage and of pipelines.
        sources: By die, of how many sources steps were measured.
    """

    below: Mapping[str, float]
    above: Mapping[str, float]
    stalls: Mapping[str, tuple[Stall, Stall]] = field(default_factory=dict)
    sources: Mapping[str, int] = field(default_factory=dict)

    def is_new(self, die: str) -> bool:
        """Whether too few steps were measured on a die."""
        return self.sources.get(die, 0) < FEWEST_SOURCES

    def stall_seconds(self, framework: str, plan: Plan) -> float:
        """Seconds of a step that may be stalls."""
        found = self.stalls.get(framework)
        if found is None:
            return 0.0
        stall = found[1] if plan.pipeline_parallel > 1 else found[0]
        return stall.of(plan.world_size, plan.num_micro_batches)


@dataclass(frozen=True, slots=True)
class StepParts:
    """What a step's seconds consist of, as far as it decides how sure they are.

    Attributes:
        prices_below, prices_above: Half-widths that prices alone give, in natural logarithms.
        network, node: Exposed communication between and inside nodes, over the step.
        waiting, host: For other stages, and for launches, over the step.
        die: Whose kernels run.
        several_nodes: Whether the step spans more than one node.
    """

    prices_below: float
    prices_above: float
    network: float
    node: float
    waiting: float
    host: float
    die: str
    several_nodes: bool

    def columns(self, *, above: bool, is_new: bool) -> tuple[float, ...]:
        """What widths of ``PARTS`` are multiplied with."""
        prices = self.prices_above if above else self.prices_below
        shares = (self.network, self.node, self.waiting, self.host)
        return (1.0, prices, *shares, float(is_new), float(self.several_nodes))


def step_parts(
    runs: Runs, prices: Prices, time: StepTime, device: Device, cluster: Cluster | None
) -> StepParts:
    """What the step of the busiest rank consists of.

    Args:
        runs: Of the busiest rank.
    """
    busiest = time.ranks[0]
    low, high = relative_interval(runs, prices, busiest, 1.0, step_error=0.0)
    exposed = exposed_shares(runs, prices, busiest)
    outside = inside = 0.0
    for (operation, stream), count in runs.items():
        if operation.kind is OperationKind.COLLECTIVE:
            seconds = count * exposed.get(stream, 1.0) * prices.seconds[operation]
            if cluster is not None and leaves_node(operation, cluster):
                outside += seconds
            else:
                inside += seconds
    total = sum(busiest.seconds_by_cause.values()) or 1.0
    causes = busiest.seconds_by_cause
    return StepParts(
        prices_below=-math.log(low),
        prices_above=math.log(high),
        network=outside / total,
        node=inside / total,
        waiting=(causes.get("bubble", 0.0) + causes.get("pipeline", 0.0)) / total,
        host=causes.get("host", 0.0) / total,
        die=device.die,
        several_nodes=cluster is not None and cluster.levels[-1].size > 1,
    )


def half_width(widths: Mapping[str, float], columns: Sequence[float]) -> float:
    """Of one side, in natural logarithms; prices on a new die count whole."""
    named = dict(zip(PARTS, columns, strict=True))
    if named["new_die"]:
        widths = {**widths, "prices": max(widths.get("prices", 0.0), 1.0)}
    return math.sqrt(sum((widths.get(part, 0.0) * own) ** 2 for part, own in named.items()))


def training_interval(
    parts: StepParts, widths: StepWidths, stall_over_step: float = 0.0, widening: float = 1.0
) -> tuple[float, float]:
    """90 % interval of a training step over its estimate.

    Args:
        stall_over_step: Seconds that may be stalls, over the step's.
        widening: Factor on half-widths.
    """
    is_new = widths.is_new(parts.die)
    below = half_width(widths.below, parts.columns(above=False, is_new=is_new))
    above = half_width(widths.above, parts.columns(above=True, is_new=is_new))
    high = 1 + widening * (math.expm1(above) + stall_over_step)
    return 1 / (1 + widening * math.expm1(below)), high


def interval_of_step(
    work: StepWork,
    prices: Prices,
    time: StepTime,
    device: Device,
    cluster: Cluster | None,
    training: Training,
    widening: float = 1.0,
) -> tuple[float, float]:
    """90 % interval of a plan's training step over its estimate."""
    widths = load_step_widths()
    parts = step_parts(count_runs(work, time.ranks[0].stage), prices, time, device, cluster)
    stalled = widths.stall_seconds(training.framework, work.plan) / (time.step_seconds or 1.0)
    return training_interval(parts, widths, stalled, widening)


def describe_stalls(training: Training | None, plan: Plan, step_seconds: float) -> tuple[str, ...]:
    """A sentence on stalls that the interval holds, where they are much of the step."""
    if training is None:
        return ()
    seconds = load_step_widths().stall_seconds(training.framework, plan)
    if seconds < _TOLD * step_seconds:
        return ()
    each = seconds / plan.num_micro_batches
    return (
        f"the interval holds stalls of up to {each:.2g} s a micro-batch, as single runs of "
        f"{training.framework} on a shared cluster had them; a tuned run has none",
    )


# ---- figures -------------------------------------------------------------------------------------------


@cache
def load_step_widths() -> StepWidths:
    """The shipped widths."""
    return parse_step_widths(Path(str(resources.files("perfcast.prediction.step") / "constants.toml")))


def parse_step_widths(path: Path) -> StepWidths:
    """Widths of a file of constants, checked.

    Raises:
        CatalogError: A part that is none, a figure without unit or source, a stall that is half stated.
    """
    content = parse_toml(path)
    sources = parse_table(content, "sources", path.name)

    def figures(key: str) -> Mapping[str, float]:
        rows: Mapping[str, Any] = parse_table(content, key, path.name)
        found = {n: parse_figure(row, sources, f"{path.name}.{key}.{n}").si_value for n, row in rows.items()}
        return MappingProxyType(found)

    below, above = figures("width_below"), figures("width_above")
    for name in sorted({*below, *above} - set(PARTS)):
        raise CatalogError(f"{path.name}: {name} is no part of a step; known: {', '.join(PARTS)}")
    tables = [figures(key) for key in ("stall_seconds", "stall_growth")]
    stalls = {}
    for name in tables[0]:
        framework, _, kind = name.rpartition("_")
        if kind == "pipeline":
            continue
        try:
            one, more = (
                Stall(*(table[f"{framework}_{end}"] for table in tables)) for end in ("alone", "pipeline")
            )
        except KeyError as error:
            raise CatalogError(f"{path.name}: stalls of {framework} lack {error.args[0]}") from None
        stalls[framework] = (one, more)
    counts = {die: int(count) for die, count in figures("sources_of_dies").items()}
    return StepWidths(below, above, MappingProxyType(stalls), MappingProxyType(counts))
