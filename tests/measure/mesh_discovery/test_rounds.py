"""Tournament rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.measure.mesh_discovery.rounds import all_pairs, random_matching, rounds_of


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_a_tournament_has_every_pair_once(count: int):
    pairs = {tuple(sorted(pair)) for pair in all_pairs(range(count)).tolist()}
    assert len(pairs) == len(all_pairs(range(count))) == count * (count - 1) // 2


def test_an_even_tournament_takes_one_round_less_than_it_has_ranks():
    pairs = all_pairs(range(8))
    rounds = [pairs[at : at + 4] for at in range(0, 28, 4)]
    assert all(len(np.unique(part)) == 8 for part in rounds)


def test_a_random_matching_shares_no_rank():
    pairs = random_matching(np.arange(9), np.random.default_rng(0))
    assert len(np.unique(pairs)) == 8


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] != p[1]), max_size=40))
def test_a_round_shares_no_rank_and_no_pair_is_lost(pairs: list[tuple[int, int]]):
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rounds = rounds_of(table)
    for indices in rounds:
        assert len(np.unique(table[indices])) == 2 * len(indices)
    assert sorted(np.concatenate([[], *rounds]).tolist()) == list(range(len(pairs)))
    most = max(np.bincount(table.ravel(), minlength=1)) if pairs else 0
    assert len(rounds) <= max(0, 2 * most - 1)
