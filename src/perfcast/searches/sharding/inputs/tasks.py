"""Random tasks of sharding, drawn as in published work (Lin et al., TPDS 2024; Zha et al., NeurIPS 2022).

A task for n devices has u · 13 n tables, u uniform in [0.7, 1.3), drawn without repeats from a pool; of a
heavy task only those with at least 20 lookups a bag, of another any that are looked up at all. It is rejected
where its fp32 weights would fill more than 0.8 of the devices' memory. Widths are drawn from 32, 64, 128 and
256, since the published pool (facebookresearch/dlrm_datasets) has none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcast.core.embedding.lookup import EmbeddingTable
from perfcast.errors import InputError

HEAVY_POOLING = 20.0
TABLES_PER_RANK = 13
WIDTHS = (32, 64, 128, 256)
_FEWEST, _MOST = 0.7, 1.3
_MEMORY_SHARE = 0.8
_FP32_BYTES = 4
_MOST_DRAWS = 1000


@dataclass(frozen=True)
class ShardingTask:
    """Tables to be placed together."""

    name: str
    tables: tuple[EmbeddingTable, ...]
    is_heavy: bool


def draw_tasks(
    pool: Sequence[EmbeddingTable],
    num_ranks: int,
    memory_bytes: float,
    *,
    num_heavy: int = 5,
    num_others: int = 5,
    seed: int = 0,
) -> tuple[ShardingTask, ...]:
    """Heavy tasks, then the others.

    Args:
        memory_bytes: Of one device.

    Raises:
        InputError: A pool with too few tables, or whose tables do not fit the devices.
    """
    generator = random.Random(seed)
    heavy = [table for table in pool if table.pooling >= HEAVY_POOLING]
    looked_up = [table for table in pool if table.pooling > 0]
    tasks = []
    for index in range(num_heavy + num_others):
        is_heavy = index < num_heavy
        drawn = _draw(heavy if is_heavy else looked_up, num_ranks, memory_bytes, generator)
        tasks.append(ShardingTask(f"{'heavy' if is_heavy else 'any'} {index}", drawn, is_heavy))
    return tuple(tasks)


def _draw(
    pool: Sequence[EmbeddingTable], num_ranks: int, memory_bytes: float, generator: random.Random
) -> tuple[EmbeddingTable, ...]:
    for _ in range(_MOST_DRAWS):
        count = max(int(generator.uniform(_FEWEST, _MOST) * TABLES_PER_RANK * num_ranks), 1)
        if count > len(pool):
            raise InputError(
                f"a task of {count} tables is drawn from a pool of {len(pool)}; give a larger one"
            )
        drawn = tuple(generator.sample(list(pool), count))
        weights = _FP32_BYTES * sum(table.num_elements for table in drawn)
        if weights <= _MEMORY_SHARE * num_ranks * memory_bytes:
            return drawn
    raise InputError(
        f"no task fits {num_ranks} devices: none of {_MOST_DRAWS} draws did; take smaller tables"
    )


def with_drawn_widths(tables: Sequence[EmbeddingTable], *, seed: int = 0) -> tuple[EmbeddingTable, ...]:
    """The tables with widths drawn from ``WIDTHS``, each as likely as any other."""
    generator = random.Random(seed)
    return tuple(replace(table, dim=generator.choice(WIDTHS)) for table in tables)
