import numpy as np
import pytest

from made_up_sharding import problem, random_tables, table
from perfcast.core.embedding.lookup import ShardingKind
from perfcast.searches.sharding import local_search
from perfcast.searches.sharding.greedy import place_to_fit
from perfcast.searches.sharding.local_search import improve
from perfcast.searches.sharding.options import list_options
from perfcast.searches.sharding.placement import Placed, time_placements

WHOLE_ALONE = (ShardingKind.TABLE_WISE,)


def test_an_exchange_of_places_is_found_where_no_move_helps():
    poolings = (50, 10, 30, 40)
    task = problem(tuple(table(f"t{p}", pooling=p) for p in poolings), kinds=WHOLE_ALONE)
    options = list_options(task)
    whole = tuple(int(option) for option in options.first)
    start = Placed(whole, ((0,), (1,), (1,), (0,)))  # 90 against 40
    found, _ = improve(task, options, start, 50)
    loads = [sum(p for p, ranks in zip(poolings, found.ranks, strict=True) if ranks == (r,)) for r in (0, 1)]
    assert sorted(loads) == [60, 70]


def test_a_giant_table_is_cut():
    task = problem((table("giant", pooling=1000), table("b", pooling=10)), num_ranks=4)
    options = list_options(task)
    found, rounds = improve(task, options, place_to_fit(task, options), 50)
    assert rounds > 0
    assert options.parts[found.options[0]] == 4


@pytest.mark.parametrize("seed", range(4))
def test_incremental_values_are_those_computed_from_scratch(seed, monkeypatch):
    task = problem(random_tables(12, seed), num_ranks=4, global_batch_size=64)
    options = list_options(task)
    seen = []
    original = local_search._pair_values

    def watched(search, current, source, targets, change):
        values = original(search, current, source, targets, change)
        seen.append((search, current, source, targets, change, values))
        return values

    monkeypatch.setattr(local_search, "_pair_values", watched)
    improve(task, options, place_to_fit(task, options), 10)
    assert seen
    for search, current, source, targets, change, values in seen[:5]:
        states = np.repeat(current.state[None], len(targets), axis=0)
        for at, target in enumerate(targets):
            states[at, source] += change[at]
            states[at, target] -= change[at]
        reduced = np.full(len(targets), current.reduced)
        phases = local_search.time_states(task, options, states, reduced)
        assert values == pytest.approx(local_search._values(search, phases, states), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_never_ends_worse_than_it_began(seed):
    task = problem(random_tables(20, seed), num_ranks=4)
    options = list_options(task)
    start = place_to_fit(task, options)
    found, _ = improve(task, options, start, 100)
    before, after = time_placements(task, options, [start, found]).step
    assert after <= before
