import math

import pytest

from made_up_sharding import problem, table
from perfcast.searches.sharding.baselines import BASELINES, GREEDY_COSTS, place_baseline
from perfcast.searches.sharding.options import MEMORY, list_options


def ranks_of(name, tables, num_ranks=2, **changes):
    task = problem(tables, num_ranks, **changes)
    placed = place_baseline(name, task, list_options(task), seed=3)
    return None if placed is None else [ranks[0] for ranks in placed.ranks]


FIVE = tuple(table(name) for name in "abcde")


def test_seven_published_rules_have_a_formula():
    assert BASELINES == (
        "naive", "naive_chunk", "random", "size_greedy", "lookup_greedy", "size_lookup_greedy", "dim_greedy",
    )  # fmt: skip


def test_naive_deals_tables_out_and_naive_chunk_keeps_runs_of_them_together():
    assert ranks_of("naive", FIVE) == [0, 1, 0, 1, 0]
    assert ranks_of("naive_chunk", FIVE) == [0, 0, 0, 1, 1]


def test_random_is_the_same_for_one_seed():
    assert ranks_of("random", FIVE) == ranks_of("random", FIVE)


def test_costs_are_those_of_the_formulas():
    one = table("a", num_rows=10_000, dim=64, pooling=5)
    assert GREEDY_COSTS["size_greedy"](one) == 10_000 * 64
    assert GREEDY_COSTS["lookup_greedy"](one) == 64 * 5
    assert GREEDY_COSTS["size_lookup_greedy"](one) == pytest.approx(64 * 5 * math.log10(10_000))
    assert GREEDY_COSTS["size_lookup_greedy"](one) == pytest.approx(1280)
    assert GREEDY_COSTS["dim_greedy"](one) == 64


def test_greedy_gives_the_costliest_table_first_to_the_least_loaded_rank():
    # Costs 320, 640, 320, 128: b to rank 0; a (more elements than c), then c to rank 1; both carry 640 now.
    tables = (
        table("a", dim=32, pooling=10), table("b", dim=64, pooling=10), table("c", dim=16, pooling=20),
        table("d", dim=32, pooling=4),
    )  # fmt: skip
    # Rank 1 has fewer elements (48,000 of 64,000), so it takes d.
    assert ranks_of("lookup_greedy", tables) == [1, 0, 1, 1]


def test_of_tables_with_equal_cost_and_size_the_last_comes_first():
    assert ranks_of("size_greedy", (table("a"), table("b"), table("c"))) == [0, 1, 0]


def test_a_rank_without_memory_is_passed_over():
    # Lookup costs 100, 60, 30: the last belongs on rank 1, where the second fills the memory.
    tables = (
        table("a", num_rows=10, pooling=100), table("b", num_rows=1000, pooling=60),
        table("c", num_rows=1000, pooling=30),
    )  # fmt: skip
    assert ranks_of("lookup_greedy", tables) == [0, 1, 1]
    rows = list_options(problem(tables)).rows
    first = list_options(problem(tables)).first
    assert ranks_of("lookup_greedy", tables, memory_bytes=rows[first[1:], MEMORY].sum() - 1) == [0, 1, 0]
    assert ranks_of("lookup_greedy", tables, memory_bytes=rows[first[2], MEMORY] + 1) is None


def test_a_rule_that_overfills_a_rank_gives_no_placement():
    needed = list_options(problem(FIVE)).rows[0, MEMORY]
    assert ranks_of("naive", FIVE, memory_bytes=2.5 * needed) is None
    assert ranks_of("naive", FIVE, memory_bytes=3 * needed) == [0, 1, 0, 1, 0]
