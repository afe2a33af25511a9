"""Which layers the stages of many plans hold, and which of them are computed again."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.plan import Plan
from perfcast.core.plan_table import Split
from perfcast.core.weights import layers_of_stages
from perfcast.memory.footprint.column_figures import ColumnSetting


def layers_of(setting: ColumnSetting, stage: Integers) -> tuple[Integers, Integers]:
    """Layers before a stage, and layers of it, shape [n] each."""
    plans = setting.plans
    stages, chunks = plans.pipeline_parallel, plans.virtual_stages_per_rank
    chunks = np.where(plans.split > 0, chunks, 1 + (chunks > 1))
    cells = ((plans.split * (chunks.max() + 1) + chunks) * (stages.max() + 1) + stages) * stages.max() + stage
    _, first, place = np.unique(cells, return_index=True, return_inverse=True)
    rows = []
    for at in first.tolist():
        parts = _layers_of_stages(setting, int(stages[at]), int(chunks[at]), plans.splits[plans.split[at]])
        rows.append((sum(parts[: stage[at]]), parts[stage[at]]))
    table = np.array(rows, dtype=np.int64)[place.reshape(-1)]
    return table[:, 0], table[:, 1]


def _layers_of_stages(
    setting: ColumnSetting, num_stages: int, num_chunks: int, split: Split
) -> tuple[int, ...]:
    plan = Plan(
        pipeline_parallel=num_stages,
        virtual_stages_per_rank=num_chunks,
        schedule="interleaved" if num_chunks > 1 else "1f1b",
        stage_layers=split,
    )
    return layers_of_stages(setting.model, plan, balances_head=setting.habits.balances_stages)


def candidates_of_splits(setting: ColumnSetting) -> tuple[Integers, ...]:
    """Of plans that state the layers of their stages, those that differ from a neighbour or its mirror image.

    Stages between equal ones hold no more than the first of them. Other plans have stage 0 here.
    """
    plans, model = setting.plans, setting.model
    num_dense = model.num_layers if model.experts is None else model.experts.num_dense_layers
    if not plans.split.any():
        return ()
    stated = np.flatnonzero(plans.split > 0)
    codes = plans.split[stated] * (plans.pipeline_parallel.max() + 1) + plans.pipeline_parallel[stated]
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    found = [
        _turns(plans.splits[plans.split[at]], int(plans.pipeline_parallel[at]), num_dense)
        for at in stated[first].tolist()
    ]
    most = max(len(stages) for stages in found)
    padded = np.array([[*stages, *[0] * (most - len(stages))] for stages in found], dtype=np.int64)
    table = np.zeros((len(plans), most), dtype=np.int64)
    table[stated] = padded[place.reshape(-1)]
    return tuple(table.T)


def _turns(split: Split, num_stages: int, num_dense: int) -> list[int]:
    """Stages that hold other layers than the one before or behind, and those mirrored."""
    sizes = [sum(split[stage::num_stages]) for stage in range(num_stages)]
    starts = [sum(sizes[:stage]) for stage in range(num_stages)]
    counts = [(size, min(max(num_dense - start, 0), size)) for start, size in zip(starts, sizes, strict=True)]
    turns = {at + side for at in range(num_stages - 1) if counts[at] != counts[at + 1] for side in (0, 1)}
    return sorted(turns | {num_stages - 1 - at for at in turns})


def recomputed_of(
    setting: ColumnSetting, before: Integers, count: Integers, held: tuple[Integers, Integers]
) -> tuple[Floats, Floats]:
    """``recomputed_layers`` of every plan: dense ones, and those with experts.

    Args:
        before, count: As of ``layers_of``.
        held: Layers of the stage without and with experts, further prediction layers among them.
    """
    plans, model = setting.plans, setting.model
    full, most = setting.word("recompute", "full"), plans.recompute_layers
    num_dense = model.num_layers if model.experts is None else model.experts.num_dense_layers
    dense, every = np.zeros_like(count), np.zeros_like(count)
    if most.any():
        chunks = plans.virtual_stages_per_rank
        each, more = np.divmod(count, chunks)
        start = before.copy()
        for chunk in range(int(chunks.max())):
            size = np.where(chunk < chunks, each + (chunk < more), 0)
            again = np.minimum(most, size)
            dense += np.clip(num_dense - start, 0, again)
            every += again
            start = start + size
    some = full & (most > 0)
    parts = (np.where(some, dense, held[0]), np.where(some, every - dense, held[1]))
    first, second = (np.where(full, part, 0).astype(np.float64) for part in parts)
    return first, second
