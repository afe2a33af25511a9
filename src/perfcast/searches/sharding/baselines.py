"""The rules that published work compares with (Zha et al., DreamShard, NeurIPS 2022; Lin et al., TPDS 2024).

Tables stay whole. With E rows, D columns and L lookups a bag:

    naive          table i on rank i mod n
    naive_chunk    the tables in order, in n runs of equal length (the first ones longer by one where needed)
    random         every rank as likely, drawn from a seed
    size_greedy, lookup_greedy, size_lookup_greedy, dim_greedy
                   tables by descending (cost, size, index), each on the rank with the least accumulated cost
                   (then the least accumulated size) that has the memory;
                   cost = E D, D L, D L log10 E, or D; size = E D

The first three know nothing of memory; a placement of theirs that does not fit is none. Lin et al. compare
the first six and norm_lookup_greedy, which has no published formula; dim_greedy is of DreamShard alone
(its ``sharders.py``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

from perfcast.core.embedding.lookup import EmbeddingTable
from perfcast.searches.sharding.options import MEMORY, ShardOptions
from perfcast.searches.sharding.placement import Placed
from perfcast.searches.sharding.problem import ShardingProblem

GREEDY_COSTS: Mapping[str, Callable[[EmbeddingTable], float]] = {
    "size_greedy": lambda table: float(table.num_elements),
    "lookup_greedy": lambda table: table.dim * table.pooling,
    "size_lookup_greedy": lambda table: table.dim * table.pooling * math.log10(table.num_rows),
    "dim_greedy": lambda table: float(table.dim),
}
#: Those among which Lin et al. choose by predicted time.
COMPARED_2024 = ("naive", "naive_chunk", "random", "size_greedy", "lookup_greedy", "size_lookup_greedy")
BASELINES = (*COMPARED_2024, "dim_greedy")


def place_baseline(
    name: str, problem: ShardingProblem, options: ShardOptions, *, seed: int = 0
) -> Placed | None:
    """Where a published rule puts the tables; None where a rank runs out of memory.

    Args:
        name: Of ``BASELINES``.
        seed: Of ``random``.
    """
    if name in GREEDY_COSTS:
        ranks = _greedy(GREEDY_COSTS[name], problem, options)
    else:
        ranks = _blind(name, len(problem.tables), problem.num_ranks, seed)
    if ranks is None or not _fit(ranks, problem, options):
        return None
    whole = tuple(int(option) for option in options.first)
    return Placed(whole, tuple((rank,) for rank in ranks))


def _blind(name: str, num_tables: int, num_ranks: int, seed: int) -> list[int]:
    if name == "naive":
        return [index % num_ranks for index in range(num_tables)]
    if name == "naive_chunk":
        length, longer = divmod(num_tables, num_ranks)
        return [rank for rank in range(num_ranks) for _ in range(length + (rank < longer))]
    generator = random.Random(seed)
    return [generator.randrange(num_ranks) for _ in range(num_tables)]


def _greedy(
    cost: Callable[[EmbeddingTable], float], problem: ShardingProblem, options: ShardOptions
) -> list[int] | None:
    costs = [cost(table) for table in problem.tables]
    sizes = [table.num_elements for table in problem.tables]
    order = sorted(range(len(costs)), key=lambda i: (costs[i], sizes[i], i), reverse=True)
    load = [(0.0, 0)] * problem.num_ranks
    left = [problem.memory_bytes] * problem.num_ranks
    chosen = [0] * len(costs)
    for index in order:
        needed = float(options.rows[options.first[index], MEMORY])
        room = [rank for rank in range(problem.num_ranks) if left[rank] >= needed]
        if not room:
            return None
        rank = min(room, key=lambda candidate: load[candidate])
        load[rank] = (load[rank][0] + costs[index], load[rank][1] + sizes[index])
        left[rank] -= needed
        chosen[index] = rank
    return chosen


def _fit(ranks: list[int], problem: ShardingProblem, options: ShardOptions) -> bool:
    used = [0.0] * problem.num_ranks
    for index, rank in enumerate(ranks):
        used[rank] += float(options.rows[options.first[index], MEMORY])
    return max(used) <= problem.memory_bytes
