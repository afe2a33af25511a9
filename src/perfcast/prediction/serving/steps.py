"""How long steps of a serving engine take: tables of their parts, priced at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision, on_device
from perfcast.core.serving.grid import Curve, Surface, rising
from perfcast.core.serving.host import StepHost
from perfcast.core.serving.tabulated import DEVICE_BOUNDS, TabulatedSteps
from perfcast.core.work import Calls
from perfcast.cost.host.processors import resolve_processor
from perfcast.cost.interval import join_intervals
from perfcast.cost.model import CostModel, Estimates, compute_seconds, memory_seconds
from perfcast.cost.prices import Prices
from perfcast.frameworks.load import load_inference_profiles
from perfcast.frameworks.serving_host import load_serving_host
from perfcast.prediction.model import NamedModel
from perfcast.prediction.request.serving import EngineOptions
from perfcast.prediction.step.prices import price_step
from perfcast.workload.blocks.experts.serving import SHARED_MODULES
from perfcast.workload.blocks.step.engine import EngineGrid, EngineWork, LayerParts, build_engine_work
from perfcast.workload.blocks.step.stages import LayerKey

#: Tokens of a step: twofold and closer where tiles of 64 to 256 rows end.
_TOKENS = (
    *(1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768),
    *(quarters << power for power in range(8, 18) for quarters in (4, 5, 6)),
)
_SEQUENCES = tuple(1 << power for power in range(14))
_HELD = (1, 128, *(1 << power for power in range(9, 20)))
_READ = (1, 16, *(1 << power for power in range(6, 20)))
_SEEN = (64, *(1 << power for power in range(8, 20)))
_MOST_SEQUENCES, _MOST_TOKENS, _MOST_HELD = 1024, 16384, 131072

_AS_IT_IS = EngineOptions()


def build_step_times(
    model: NamedModel,
    plan: Plan,
    precision: Precision,
    cluster: Cluster,
    device: Device,
    cost_model: CostModel,
    framework: str,
    *,
    engine: EngineOptions = _AS_IT_IS,
) -> TabulatedSteps:
    """Steps of an engine of one replica.

    Args:
        cluster: Of the replica, or of more; the replica takes its first devices.
        cost_model: Of the framework's kernels (``resolve_cost_model``).

    Raises:
        InputError: A plan that model, framework or cluster cannot follow; a precision that the device lacks.
    """
    profile = load_inference_profiles()[framework].on_device(device)
    precision = on_device(precision, device)
    drafted = engine.speculation.drafted_tokens if engine.speculation else 0
    if engine.expert_load != 1:
        plan = replace(plan, expert_imbalance=engine.expert_load)
    most_tokens = engine.max_step_tokens or profile.most_step_tokens(device) or _MOST_TOKENS
    most_sequences = engine.max_sequences or _MOST_SEQUENCES
    grid = _grid(
        max(most_tokens, most_sequences * (1 + drafted)),
        most_tokens,
        most_sequences,
        model.most_tokens or _MOST_HELD,
        model.sizes.sliding_window,
    )
    work = build_engine_work(model.sizes, plan, precision, profile, grid, drafted_tokens=drafted)
    found = _tabulated(_price(work, device, cluster, cost_model), drafted, shares=plan.data_parallel > 1)
    host, captured = _host(framework, engine, device, most_sequences * (1 + drafted))
    return replace(found, host=host, captured_tokens=captured)


def step_host(framework: str, version: str | None, device: Device) -> StepHost:
    """The host of a framework's version beside a device, on the processor that such machines usually have.

    Raises:
        InputError: As ``load_serving_host``.
    """
    found = load_serving_host(framework, version)
    if not found.processor:
        return found.host
    timed, usual = resolve_processor(found.processor, device), resolve_processor(None, device)
    return found.host.scaled(usual.slowness / timed.slowness)


def _host(
    framework: str, engine: EngineOptions, device: Device, most_tokens: int
) -> tuple[StepHost, tuple[int, ...]]:
    """The host of each step, and the sizes of graphs."""
    host = step_host(framework, engine.version, device)
    if engine.host_seconds is not None:
        host = StepHost(
            fixed_seconds=engine.host_seconds, launch_seconds=host.launch_seconds, overlaps=host.overlaps
        )
    profile = load_serving_host(framework, engine.version)
    return host, () if engine.cuda_graphs is False else profile.captured_tokens(most_tokens)


def _grid(most_tokens: int, most_read: int, most_sequences: int, most_held: int, window: int) -> EngineGrid:
    held = {*_HELD, window} - {0}
    return EngineGrid(
        tokens=_up_to(_TOKENS, most_tokens),
        sequences=_up_to(_SEQUENCES, most_sequences),
        held_tokens=_up_to(held, most_held),
        read_tokens=_up_to(_READ, most_read),
        seen_keys=_up_to(_SEEN, most_held),
    )


def _up_to(points: Iterable[int], most: int) -> Integers:
    """The points below the largest, and it; at least two."""
    found = sorted({*(point for point in points if point < most), max(most, 2)})
    return np.array(found if len(found) > 1 else [1, *found], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Runs of operations in many rows of a table: row ``row[i]`` runs operation ``operation[i]``."""

    row: Integers
    operation: Integers
    runs: Floats
    launches: Floats

    def seconds(self, prices: Floats) -> Floats:
        """Of each row by what bounds them, shape (rows, bounds); ``prices``: (operations, bounds)."""
        shape = (len(self.launches), prices.shape[1])
        found = np.zeros(shape)
        np.add.at(found, self.row, self.runs[:, None] * prices[self.operation])
        return found


class _Ledger:
    """Different operations, each numbered once."""

    def __init__(self) -> None:
        self.numbers: dict[Operation, int] = {}
        self._by_identity: dict[int, int] = {}
        self._held: list[Operation] = []
        self._rows: dict[int, tuple[tuple[Calls, ...], _Rows]] = {}

    def number(self, operation: Operation) -> int:
        """Its place; objects that were seen are not hashed again (the ledger keeps them alive)."""
        found = self._by_identity.get(id(operation))
        if found is None:
            found = self.numbers.setdefault(operation, len(self.numbers))
            self._by_identity[id(operation)] = found
            self._held.append(operation)
        return found

    def rows(self, parts: tuple[Calls, ...]) -> _Rows:
        """The runs of rows of calls; layers that attend alike share theirs (the ledger keeps them alive)."""
        found = self._rows.get(id(parts))
        if found is None:
            found = self._rows[id(parts)] = (parts, self._entered(parts))
        return found[1]

    def _entered(self, parts: tuple[Calls, ...]) -> _Rows:
        entered = [
            (row, self.number(call.operation), call.num_runs)
            for row, calls in enumerate(parts)
            for call in calls
        ]
        row, operation, runs = zip(*entered, strict=True) if entered else ((), (), ())
        launches = [float(sum(call.count * call.num_launches for call in calls)) for calls in parts]
        return _Rows(
            np.array(row, dtype=np.int64),
            np.array(operation, dtype=np.int64),
            np.array(runs, dtype=float),
            np.array(launches),
        )


@dataclass(frozen=True, eq=False)
class _Priced:
    """The parts of an engine's steps with the prices of their operations.

    Attributes:
        rows: Of each different layer, its parts in the order of ``_lists``.
        drafts: The same of what drafts; empty where nothing does.
        by_bound: Seconds of each operation, shape (operations, bounds).
    """

    work: EngineWork
    rows: dict[LayerKey, list[_Rows]]
    drafts: list[_Rows]
    sends: list[int]
    operations: list[Operation]
    prices: Prices
    by_bound: Floats

    def table(self, place: int, *, drafts: float = 0.0) -> Floats:
        """One part of each different stage, shape (stages, points …, bounds).

        Args:
            drafts: How often the drafting layer's part is added to the last stage.
        """
        shape = (*_sizes(self.work.grid)[place], len(DEVICE_BOUNDS))
        found = np.zeros((len(self.work.stages), *shape))
        for key, rows in self.rows.items():
            if len(rows[place].launches):
                seconds = rows[place].seconds(self.by_bound).reshape(shape)
                for stage, (contents, _) in enumerate(self.work.stages):
                    found[stage] += contents.get(key, 0) * seconds
        if self.drafts and drafts:
            found[-1] += drafts * self.drafts[place].seconds(self.by_bound).reshape(shape)
        return found


def _price(work: EngineWork, device: Device, cluster: Cluster, cost_model: CostModel) -> _Priced:
    ledger = _Ledger()
    rows = {key: [ledger.rows(part) for part in _lists(parts)] for key, parts in work.layers.items()}
    drafts = [ledger.rows(part) for part in _lists(work.drafts)] if work.drafts else []
    sends = [ledger.number(send) for send in work.boundaries]
    operations = list(ledger.numbers)
    prices = price_step(operations, device, cluster, cost_model, None)
    return _Priced(work, rows, drafts, sends, operations, prices, _by_bound(operations, prices, device))


def _tabulated(priced: _Priced, drafted: int, *, shares: bool) -> TabulatedSteps:
    work, grid = priced.work, priced.work.grid
    tokens, sends = grid.tokens.astype(float), priced.sends
    low, high = _interval(priced)
    return TabulatedSteps(
        copies=tuple(copies for _, copies in work.stages),
        answer_tokens=Curve(tokens, rising(priced.table(0), [1])),
        mixed_tokens=Curve(tokens, rising(priced.table(1, drafts=1.0), [1])),
        answers=Surface(
            grid.sequences.astype(float),
            grid.held_tokens.astype(float),
            rising(priced.table(2, drafts=drafted), [1, 2]),
        ),
        prompts=Surface(
            grid.read_tokens.astype(float),
            grid.seen_keys.astype(float),
            rising(priced.table(3, drafts=1.0), [1, 2]),
        ),
        rows=Curve(tokens, rising(priced.table(4), [1])),
        drafts=_drafting(priced, tokens, drafted) if drafted else None,
        answer_shared=Curve(tokens, rising(priced.table(5), [1])) if shares else None,
        mixed_shared=Curve(tokens, rising(priced.table(6), [1])) if shares else None,
        boundary=Curve(tokens, rising(priced.by_bound[sends][None], [1])) if sends else None,
        answer_launches=_launches(priced, 0),
        mixed_launches=_launches(priced, 1),
        tokens_per_sequence=1 + drafted,
        low=low,
        high=high,
        assumptions=work.assumptions,
    )


def _drafting(priced: _Priced, tokens: Floats, drafted: int) -> Curve:
    """So many passes, one behind the other, of the layer that drafts."""
    seconds = drafted * priced.drafts[0].seconds(priced.by_bound)
    found = np.zeros((len(priced.work.stages), *seconds.shape))
    found[-1] = seconds
    return Curve(tokens, rising(found, [1]))


def _lists(parts: LayerParts) -> tuple[tuple[Calls, ...], ...]:
    shared = (tuple(_shared(calls) for calls in part) for part in (parts.answer_tokens, parts.mixed_tokens))
    return parts.answer_tokens, parts.mixed_tokens, parts.answers, parts.prompts, parts.rows, *shared


def _shared(calls: Calls) -> Calls:
    """What attention data-parallel ranks do together."""
    return tuple(call for call in calls if call.module in SHARED_MODULES)


def _sizes(grid: EngineGrid) -> tuple[tuple[int, ...], ...]:
    tokens = (len(grid.tokens),)
    return (
        tokens,
        tokens,
        (len(grid.sequences), len(grid.held_tokens)),
        (len(grid.read_tokens), len(grid.seen_keys)),
        tokens,
        tokens,
        tokens,
    )


def _by_bound(operations: Sequence[Operation], prices: Prices, device: Device) -> Floats:
    """Seconds of each operation under what bounds it by the roofline, shape (operations, bounds)."""
    is_sent = np.array([o.kind is OperationKind.COLLECTIVE for o in operations])
    local = [o for o in operations if o.kind is not OperationKind.COLLECTIVE]
    bound = np.full(len(operations), DEVICE_BOUNDS.index("communication"))
    bound[~is_sent] = np.where(compute_seconds(local, device) > memory_seconds(local, device), 0, 1)
    seconds = np.zeros((len(operations), len(DEVICE_BOUNDS)))
    seconds[np.arange(len(operations)), bound] = [prices.seconds[o] for o in operations]
    return seconds


def _launches(priced: _Priced, place: int) -> tuple[float, ...]:
    """Kernels of a step of each different stage: of its tokens, its attention and its rows."""
    attention = 2 if place == 0 else 3
    found = []
    for contents, _ in priced.work.stages:
        total = 0.0
        for key, count in contents.items():
            for part in (place, attention, 4):
                launches = priced.rows[key][part].launches
                total += count * (launches[0] if len(launches) else 0.0)
        found.append(float(total))
    return tuple(found)


def _interval(priced: _Priced) -> tuple[float, float]:
    """The wider of the intervals of a step that decodes and of one that reads, over its estimate."""
    operations, prices = priced.operations, priced.prices
    middle, below, above = (
        np.array([values[o] for o in operations])
        for values in (prices.seconds, prices.seconds_low, prices.seconds_high)
    )
    provenance = tuple(prices.provenance[o] for o in operations)
    estimates = Estimates(middle, below, above, ("",) * len(middle), provenance, prices.errs_as_one)
    kinds = [operation.kind.value for operation in operations]
    lows, highs = [], []
    for parts in ((0, 2), (1, 3)):
        counts = _runs_in_the_middle(priced, parts)
        low, high = join_intervals(estimates, counts, kinds)
        seconds = float(middle @ counts)
        lows.append(low / seconds)
        highs.append(high / seconds)
    return min(lows), max(highs)


def _runs_in_the_middle(priced: _Priced, parts: Sequence[int]) -> Floats:
    """How often all stages run each operation at the middle points of parts of a step."""
    counts = np.zeros(len(priced.operations))
    for contents, copies in priced.work.stages:
        for key, count in contents.items():
            for part in parts:
                rows = priced.rows[key][part]
                at = rows.row == len(rows.launches) // 2
                np.add.at(counts, rows.operation[at], count * copies * rows.runs[at])
    return counts
