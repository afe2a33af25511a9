"""Groups from pairs that attract or repel."""

from __future__ import annotations

import numpy as np

from perfcast.measure.mesh_discovery.assign import cluster_by_odds, groups_of, level_of_pairs
from perfcast.measure.mesh_discovery.rounds import all_pairs


def test_one_wrong_pair_does_not_join_two_groups():
    pairs = np.sort(all_pairs(range(6)), axis=1)
    odds = np.where(pairs[:, 0] // 3 == pairs[:, 1] // 3, 5.0, -5.0)
    odds[(pairs == [2, 3]).all(axis=1)] = 4.0
    groups = groups_of(cluster_by_odds(6, pairs, odds))
    assert [group.tolist() for group in groups] == [[0, 1, 2], [3, 4, 5]]


def test_ranks_that_no_pair_ties_stay_alone():
    labels = cluster_by_odds(4, np.array([[0, 1]]), np.array([3.0]))
    assert [group.tolist() for group in groups_of(labels)] == [[0, 1], [2], [3]]


def test_pairs_meet_on_the_lowest_level_that_holds_both():
    labels = np.array([[0, 0, 1, 1], [0, 0, 0, 0]])
    assert level_of_pairs(labels, np.array([[0, 1], [1, 2]])).tolist() == [0, 1]


def test_ranks_that_never_answered_are_in_no_group():
    assert [group.tolist() for group in groups_of(np.array([0, -1, 0, 1]))] == [[0, 2], [3]]
