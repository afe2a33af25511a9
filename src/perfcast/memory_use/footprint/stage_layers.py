"""Which layers the stages of many plans hold, and which of them are computed again in the backward."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import layers_of_stages
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable, Split


@dataclass(frozen=True, eq=False, slots=True)
class StageLayers:
    """Where the stages of n plans begin and end in the model.

    Attributes:
        bounds: Layers before each stage of the different ways to deal layers out, shape [k, stages + 1].
        way: Of each plan, shape [n].
    """

    bounds: Integers
    way: Integers

    def take(self, rows: Integers) -> StageLayers:
        """The stages of some of the plans."""
        return StageLayers(self.bounds, self.way[rows])

    def before(self, stage: Integers) -> Integers:
        """Layers before a stage of each plan, shape [n]."""
        found: Integers = self.bounds[self.way, stage]
        return found


def deal_out_layers(model: Transformer, plans: PlanTable, *, balances_head: bool) -> StageLayers:
    """The stages of each plan.

    Raises:
        PlanError: As ``core.model.weights.layers_of_stages`` does.
    """
    stages, chunks = plans.pipeline_parallel, plans.virtual_stages_per_rank
    chunks = np.where(plans.split > 0, chunks, np.minimum(chunks, 2))  # unless stated, several are as two
    first, way = different_rows([plans.split, chunks, stages])
    most = int(stages.max())
    bounds = []
    for row in first.tolist():
        plan = Plan(
            pipeline_parallel=int(stages[row]),
            virtual_stages_per_rank=int(chunks[row]),
            schedule="interleaved" if chunks[row] > 1 else "1f1b",
            stage_layers=plans.splits[plans.split[row]],
        )
        ends = list(accumulate(layers_of_stages(model, plan, balances_head=balances_head), initial=0))
        bounds.append(ends + [ends[-1]] * (most + 1 - len(ends)))
    return StageLayers(np.array(bounds, dtype=np.int64), way)


def num_dense_layers(model: Transformer) -> int:
    """Leading layers that have a dense MLP."""
    return model.num_layers if model.experts is None else model.experts.num_dense_layers


def stages_beside_others(model: Transformer, plans: PlanTable) -> tuple[Integers, ...]:
    """Stages with other layers than a neighbour or its mirror image, of plans that state them.

    Stages between equal ones hold no more than the first of them. Other plans have stage 0 here.
    """
    stated = np.flatnonzero(plans.split > 0)
    if not len(stated):
        return ()
    first, place = different_rows([plans.split[stated], plans.pipeline_parallel[stated]])
    found = [
        _turns(plans.splits[plans.split[row]], int(plans.pipeline_parallel[row]), num_dense_layers(model))
        for row in stated[first].tolist()
    ]
    most = max(len(stages) for stages in found)
    padded = np.array([[*stages, *[0] * (most - len(stages))] for stages in found], dtype=np.int64)
    table = np.zeros((len(plans), most), dtype=np.int64)
    table[stated] = padded[place]
    return tuple(table.T)


def _turns(split: Split, num_stages: int, num_dense: int) -> list[int]:
    """Stages that hold other layers than the one before or behind, and those mirrored."""
    sizes = [sum(split[stage::num_stages]) for stage in range(num_stages)]
    starts = [sum(sizes[:stage]) for stage in range(num_stages)]
    counts = [(size, min(max(num_dense - start, 0), size)) for start, size in zip(starts, sizes, strict=True)]
    turns = {at + side for at in range(num_stages - 1) if counts[at] != counts[at + 1] for side in (0, 1)}
    return sorted(turns | {num_stages - 1 - at for at in turns})


def recomputed_layers(
    model: Transformer, plans: PlanTable, before: Integers, count: Integers, held: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Layers of a stage that are computed again, shape [n] each: dense ones, and those with experts.

    With ``Plan.recompute_layers`` the first so many of each chunk (Megatron-LM: --recompute-method block);
    further prediction layers keep all then.

    Args:
        before: Layers of the model before the stage.
        count: Layers of the stage.
        held: Those without and with experts, further prediction layers among them.
    """
    full, most = plans.has_word("recompute", "full"), plans.recompute_layers
    parts = held
    if most.any():
        dense, every = _first_of_chunks(num_dense_layers(model), plans, before, count)
        some = most > 0
        parts = (np.where(some, dense, held[0]), np.where(some, every - dense, held[1]))
    return np.where(full, parts[0], 0.0), np.where(full, parts[1], 0.0)


def _first_of_chunks(
    num_dense: int, plans: PlanTable, before: Integers, count: Integers
) -> tuple[Integers, Integers]:
    """Layers among the first ``recompute_layers`` of each chunk: dense ones, and all."""
    dense, every = np.zeros_like(count), np.zeros_like(count)
    chunks = plans.virtual_stages_per_rank
    each, more = np.divmod(count, chunks)
    start = before
    for chunk in range(int(chunks.max())):
        size = np.where(chunk < chunks, each + (chunk < more), 0)
        again = np.minimum(plans.recompute_layers, size)
        dense += np.clip(num_dense - start, 0, again)
        every += again
        start = start + size
    return dense, every
