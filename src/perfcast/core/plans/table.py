"""Plans in columns: hundreds of thousands of them, weighed with array arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from perfcast.core.arrays import Flags, Integers
from perfcast.core.plan import CONTEXT_COMMUNICATION, OFFLOAD, ORDERS, RECOMPUTE, SCHEDULES, Plan
from perfcast.errors import PlanError

#: Layers of each part of the model; empty: as the framework splits them.
Split = tuple[int, ...]

#: Columns that hold the place of a word in its list.
WORDS: Mapping[str, tuple[str, ...]] = {
    "recompute": RECOMPUTE,
    "schedule": SCHEDULES,
    "offload": OFFLOAD,
    "order": ORDERS,
    "context_communication": CONTEXT_COMMUNICATION,
}
#: Columns that are yes or no.
FLAGS = (
    "sequence_parallel",
    "reshard_after_forward",
    "overlaps_tensor",
    "overlaps_gradients",
    "overlaps_weights",
    "overlaps_experts",
)


@dataclass(frozen=True, eq=False)
class PlanTable:
    """n plans; every column has shape [n]. Words are places in their lists (``WORDS``), flags 0 or 1.

    Attributes:
        recompute_layers, num_shards: 0 for all.
        split: Place in ``splits`` of the layers of each part.
        splits: The different ones; the first is the framework's own.
        shared: Fields of ``Plan`` that have no column, where they are not the default; the same for all.
    """

    data_parallel: Integers
    tensor_parallel: Integers
    pipeline_parallel: Integers
    context_parallel: Integers
    expert_parallel: Integers
    expert_tensor_parallel: Integers
    virtual_stages_per_rank: Integers
    micro_batch_size: Integers
    num_micro_batches: Integers
    zero_stage: Integers
    sequence_parallel: Integers
    recompute: Integers
    schedule: Integers
    offload: Integers
    order: Integers
    reshard_after_forward: Integers
    context_communication: Integers
    overlaps_tensor: Integers
    overlaps_gradients: Integers
    overlaps_weights: Integers
    overlaps_experts: Integers
    recompute_layers: Integers
    num_shards: Integers
    num_prefetched: Integers
    split: Integers
    splits: tuple[Split, ...] = ((),)
    shared: Mapping[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.data_parallel)

    def has_word(self, column: str, *words: str) -> Flags:
        """Which plans have one of some words, shape [n]."""
        places = getattr(self, column)
        found: Flags = places == WORDS[column].index(words[0])
        for word in words[1:]:
            found = found | (places == WORDS[column].index(word))
        return found

    def take(self, index: Integers | Flags) -> PlanTable:
        """The plans that ``index`` selects."""
        return table_of((getattr(self, name)[index] for name in COLUMNS), self.splits, self.shared)

    def row(self, index: int) -> dict[str, int]:
        """One plan's columns."""
        return {name: int(getattr(self, name)[index]) for name in COLUMNS}

    def plan(self, index: int) -> Plan:
        """One plan."""
        values: dict[str, object] = dict(self.row(index))
        for name, words in WORDS.items():
            values[name] = words[int(getattr(self, name)[index])]
        for name in FLAGS:
            values[name] = bool(values[name])
        for name in ("recompute_layers", "num_shards"):
            values[name] = values[name] or None
        values["stage_layers"] = self.splits[int(self.split[index])]
        del values["split"]
        return Plan(**values, **self.shared)  # type: ignore[arg-type]

    @property
    def num_dense_replicas(self) -> Integers:
        """Ranks that hold the same dense weights."""
        return self.data_parallel * self.context_parallel

    @property
    def ranks_per_stage(self) -> Integers:
        """Devices of one stage."""
        return self.num_dense_replicas * self.tensor_parallel

    @property
    def shard_size(self) -> Integers:
        """Ranks over which ZeRO shards."""
        return np.where(self.num_shards > 0, self.num_shards, self.num_dense_replicas)

    @property
    def num_axes(self) -> Integers:
        """Axes along which there is more than one rank."""
        degrees = (
            self.data_parallel,
            self.tensor_parallel,
            self.pipeline_parallel,
            self.context_parallel,
            self.expert_parallel,
        )
        several: Integers = np.sum([degree > 1 for degree in degrees], axis=0, dtype=np.int64)
        return several

    @property
    def num_expert_replicas(self) -> Integers:
        """Ranks that hold the same experts."""
        return self.ranks_per_stage // (self.expert_parallel * self.expert_tensor_parallel)


#: Names of the columns, in their order.
COLUMNS = tuple(name for name in PlanTable.__dataclass_fields__ if name not in ("splits", "shared"))
#: Fields of a plan that have no column.
_OTHERS = tuple(f for f in fields(Plan) if f.name not in (*COLUMNS, "stage_layers"))


def to_table(plans: Sequence[Plan]) -> PlanTable:
    """The columns of some plans.

    Raises:
        PlanError: Plans that differ in what has no column.

    >>> to_table([Plan(tensor_parallel=2)]).plan(0) == Plan(tensor_parallel=2, expert_tensor_parallel=2)
    True
    """
    splits = tuple(dict.fromkeys([(), *(plan.stage_layers for plan in plans)]))
    rows = [[_value(plan, name, splits) for name in COLUMNS] for plan in plans]
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(COLUMNS)).T
    return table_of(columns, splits, _shared(plans))


def _shared(plans: Sequence[Plan]) -> dict[str, object]:
    found: dict[str, object] = {}
    for other in _OTHERS:
        values = {getattr(plan, other.name) for plan in plans} or {other.default}
        if len(values) > 1:
            raise PlanError(f"plans of one table differ in {other.name}: {', '.join(map(str, values))}")
        [value] = values
        if value != other.default:
            found[other.name] = value
    return found


def table_of(
    columns: Iterable[Integers], splits: tuple[Split, ...], shared: Mapping[str, object] | None = None
) -> PlanTable:
    """A table of columns in the order of ``COLUMNS``."""
    by_name: dict[str, Any] = dict(zip(COLUMNS, columns, strict=True))
    return PlanTable(**by_name, splits=splits, shared=shared or {})


def _value(plan: Plan, name: str, splits: Sequence[Split]) -> int:
    """A plan's value as its column holds it."""
    if name == "split":
        return splits.index(plan.stage_layers)
    value = getattr(plan, name)
    if name == "expert_tensor_parallel":
        value = plan.tensor_parallel_of_experts
    elif name in WORDS:
        value = WORDS[name].index(value)
    return int(value or 0)


def join(tables: Sequence[PlanTable]) -> PlanTable:
    """The plans of several tables, one after another; what has no column is the same in all."""
    splits = tuple(dict.fromkeys([(), *(split for table in tables for split in table.splits)]))
    alike = [with_splits(table, splits) for table in tables]
    columns = (np.concatenate([getattr(table, name) for table in alike]) for name in COLUMNS)
    return table_of(columns, splits, tables[0].shared if tables else {})


def with_splits(table: PlanTable, splits: tuple[Split, ...]) -> PlanTable:
    """The same plans with other ``splits``, which hold all of the table's own."""
    if table.splits == splits:
        return table
    places = np.array([splits.index(split) for split in table.splits], dtype=np.int64)
    return replace(table, split=places[table.split], splits=splits)
