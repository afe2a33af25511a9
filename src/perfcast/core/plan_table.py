"""Plans in columns: hundreds of thousands of them, weighed with array arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from perfcast.core.plan import CONTEXT_EXCHANGES, OFFLOAD, ORDERS, RECOMPUTE, SCHEDULES, Plan

Column = NDArray[np.int64]

#: Columns that hold the place of a word in its list.
WORDS = {
    "recompute": RECOMPUTE, "schedule": SCHEDULES, "offload": OFFLOAD, "order": ORDERS,
    "context_exchange": CONTEXT_EXCHANGES,
}  # fmt: skip
#: Columns that are yes or no.
FLAGS = ("sequence_parallel", "reshard_after_forward", "overlaps_tensor", "overlaps_gradients",
         "overlaps_weights", "overlaps_experts")  # fmt: skip


@dataclass(frozen=True, eq=False)
class PlanTable:
    """n plans; every column has shape [n]. Words are places in their lists (``WORDS``), flags 0 or 1."""

    data_parallel: Column
    tensor_parallel: Column
    pipeline_parallel: Column
    context_parallel: Column
    expert_parallel: Column
    expert_tensor_parallel: Column
    virtual_stages_per_rank: Column
    micro_batch_size: Column
    num_micro_batches: Column
    zero_stage: Column
    sequence_parallel: Column
    recompute: Column
    schedule: Column
    offload: Column
    order: Column
    reshard_after_forward: Column
    context_exchange: Column
    overlaps_tensor: Column
    overlaps_gradients: Column
    overlaps_weights: Column
    overlaps_experts: Column

    def __len__(self) -> int:
        return len(self.data_parallel)

    def take(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> PlanTable:
        """The plans that ``index`` selects."""
        return PlanTable(*(getattr(self, field.name)[index] for field in fields(self)))

    def row(self, index: int) -> dict[str, int]:
        """One plan's columns."""
        return {field.name: int(getattr(self, field.name)[index]) for field in fields(self)}

    def plan(self, index: int) -> Plan:
        """One plan."""
        values: dict[str, object] = dict(self.row(index))
        for name, words in WORDS.items():
            values[name] = words[int(getattr(self, name)[index])]
        for name in FLAGS:
            values[name] = bool(values[name])
        return Plan(**values)  # type: ignore[arg-type]

    @property
    def num_dense_replicas(self) -> Column:
        """Ranks that hold the same dense weights."""
        return self.data_parallel * self.context_parallel

    @property
    def ranks_per_stage(self) -> Column:
        """Devices of one stage."""
        return self.num_dense_replicas * self.tensor_parallel

    @property
    def num_expert_replicas(self) -> Column:
        """Ranks that hold the same experts."""
        return self.ranks_per_stage // (self.expert_parallel * self.expert_tensor_parallel)


def to_table(plans: Sequence[Plan]) -> PlanTable:
    """The columns of some plans; what a table has no column for must be the default.

    >>> to_table([Plan(tensor_parallel=2)]).plan(0) == Plan(tensor_parallel=2, expert_tensor_parallel=2)
    True
    """
    rows = []
    for plan in plans:
        row = []
        for field in fields(PlanTable):
            value = getattr(plan, field.name)
            if field.name == "expert_tensor_parallel":
                value = plan.tensor_parallel_of_experts
            elif field.name in WORDS:
                value = WORDS[field.name].index(value)
            row.append(int(value))
        rows.append(row)
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(fields(PlanTable))).T
    return PlanTable(*columns)


def join(tables: Sequence[PlanTable]) -> PlanTable:
    """The plans of several tables, one after another."""
    return PlanTable(*(np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(PlanTable)))
