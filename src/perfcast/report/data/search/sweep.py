"""What JSON holds of a sweep of searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from perfcast.report.answers import Answer

if TYPE_CHECKING:
    from perfcast.searches.sweep.run import SweepResult


@dataclass(frozen=True, kw_only=True)
class RowData:
    """A plan of a cell; a cell without one has nulls and says why.

    Attributes:
        model: As it was named.
        cluster: As it was named, with its devices.
        global_batch_size: Sequences of a step.
        sequence_length: Tokens of a sequence.
        place: 1 for a cell's best plan; 0 where it has none.
        outcome: Why the cell has no plan; empty where it has one.
        dp: Data-parallel degree.
        tp: Tensor-parallel degree.
        pp: Pipeline stages.
        cp: Context-parallel degree.
        ep: Expert-parallel degree.
        etp: Degree inside an expert; null follows the rest.
        vp: Chunks of a rank.
        mbs: Sequences of a micro-batch.
        zero: ZeRO stage, 0 to 3.
        shards: Ranks over which ZeRO shards; null for all replicas.
        sp: Whether norms are cut along the sequence.
        recompute: none, selective or full.
        recompute_layers: Of each part of the model; null for all.
        schedule: Of the pipeline.
        stages: Layers of each part, such as 7/8/8/7; empty splits as the framework does.
        offload: none, optimizer, parameters or activations.
        order: Axes of the ranks, the innermost first.
        reshard: With ZeRO 3.
        cp_type: ring, ulysses or all_gather.
        overlap_tensor: Whether tensor-parallel communication runs beside products.
        overlap_gradients: Whether gradients are reduced beside the backward.
        overlap_weights: Whether sharded weights are gathered beside the compute.
        overlap_experts: Whether tokens travel between experts beside another micro-batch's opposite pass.
        method: How the row's figures were found: simulated or closed_form.
        value: Of the objective, in its own unit.
        step_seconds: Seconds, best estimate.
        step_seconds_low: Seconds, lower end of the 90 % interval.
        step_seconds_high: Seconds, upper end of the 90 % interval.
        tokens_per_second: Tokens per second of all devices.
        mfu: Model flops over what all devices could do, 0 to 1.
        dollars_per_token: Dollars; null without prices.
        joules_per_token: Joules of devices and their servers; null where no rated power is known.
        peak_memory_bytes: Bytes allocated on the worst rank.
        device_memory_bytes: Bytes with what allocator and driver hold.
        num_plans: Enumerated for the cell.
        num_valid: That meet all demands.
        num_simulated: Simulated event by event.
    """

    model: str
    cluster: str
    global_batch_size: int
    sequence_length: int
    place: int
    outcome: str
    dp: int | None
    tp: int | None
    pp: int | None
    cp: int | None
    ep: int | None
    etp: int | None
    vp: int | None
    mbs: int | None
    zero: int | None
    shards: int | None
    sp: bool | None
    recompute: str | None
    recompute_layers: int | None
    schedule: str | None
    stages: str | None
    offload: str | None
    order: str | None
    reshard: bool | None
    cp_type: str | None
    overlap_tensor: bool | None
    overlap_gradients: bool | None
    overlap_weights: bool | None
    overlap_experts: bool | None
    method: str | None
    value: float | None
    step_seconds: float | None
    step_seconds_low: float | None
    step_seconds_high: float | None
    tokens_per_second: float | None
    mfu: float | None
    dollars_per_token: float | None
    joules_per_token: float | None
    peak_memory_bytes: int | None
    device_memory_bytes: int | None
    num_plans: int | None
    num_valid: int | None
    num_simulated: int | None


@dataclass(frozen=True, kw_only=True)
class SweepData(Answer):
    """A grid of searches.

    Attributes:
        objective: What plans are ranked by.
        num_cells: Of the sweep.
        num_computed: Cells that this run searched.
        num_reused: Cells that earlier runs had finished.
        num_repeated_batches: Sent again because their worker died.
        store: Folder of the finished cells.
        rows: A row for each cell and place, in the order of the cells.
    """

    table: ClassVar[str] = "rows"

    objective: str
    num_cells: int
    num_computed: int
    num_reused: int
    num_repeated_batches: int
    store: str
    rows: tuple[RowData, ...]


def data_of(found: SweepResult, objective: str) -> SweepData:
    """Every row."""
    progress = found.progress
    return SweepData(
        objective=objective,
        num_cells=progress.num_cells,
        num_computed=progress.num_computed,
        num_reused=progress.num_reused,
        num_repeated_batches=progress.num_repeated,
        store=str(found.folder),
        rows=tuple(RowData(**row) for row in found.table.iter_rows(named=True)),
    )
