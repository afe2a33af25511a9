"""Pair samples: how they are built, kept and refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from perfcast.errors import InputError
from perfcast.measure.mesh_discovery.matrix import PairSamples, load_samples


def two_pairs() -> PairSamples:
    return PairSamples.build(4, [(0, 1), (3, 2), (1, 0)], [1e-6, 2e-6, 4e-6], [1e9, 2e9, 1e9])


def test_repeats_of_a_pair_in_either_direction_are_averaged_geometrically():
    samples = two_pairs()
    assert samples.pairs.tolist() == [[0, 1], [2, 3]]
    assert samples.counts.tolist() == [2, 1]
    assert math.exp(samples.costs[0, 0]) == pytest.approx(2e-6)


def test_the_variance_of_repeats_is_that_around_the_mean_of_the_pair():
    assert two_pairs().repeat_variance()[0] == pytest.approx(2 * math.log(2) ** 2)


def test_a_pair_without_an_answer_is_kept_with_no_count():
    samples = PairSamples.build(3, [(0, 1), (0, 2)], [1e-6, math.nan], [1e9, 1e9])
    assert samples.counts.tolist() == [1, 0]
    assert len(samples.answered().pairs) == 1


def test_samples_survive_a_file(tmp_path: Path):
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(two_pairs().to_json()))
    read = load_samples(path)
    assert read.pairs.tolist() == two_pairs().pairs.tolist()
    np.testing.assert_allclose(read.costs, two_pairs().costs, rtol=1e-4)
    np.testing.assert_allclose(read.repeat_variance(), two_pairs().repeat_variance(), rtol=1e-3)


@pytest.mark.parametrize(
    ("pairs", "latency", "rate", "message"),
    [
        ([(0, 4)], [1e-6], [1e9], "rank 4 does not exist"),
        ([(-1, 2)], [1e-6], [1e9], "rank -1 does not exist"),
        ([(2, 2)], [1e-6], [1e9], "paired with itself"),
        ([(0, 1)], [0.0], [1e9], "latency of 0 is impossible"),
        ([(0, 1)], [1e-6], [math.inf], "bandwidth of inf is impossible"),
        ([(0, 1)], [1e-6, 2e-6], [1e9], "1 pairs came with 2 latencies"),
    ],
)
def test_impossible_measurements_are_refused(pairs, latency, rate, message):
    with pytest.raises(InputError, match=message):
        PairSamples.build(4, pairs, latency, rate)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "lacks"),
        ({"version": 2}, "version 2"),
        ({"num_ranks": "4"}, "no whole number"),
        ({"num_ranks": 1}, "a mesh of 1 ranks"),
        ({"first": [0]}, "'second' has 2 entries"),
        ({"first": [0, None]}, "holds null"),
        ({"first": [0.5, 2]}, "whole numbers"),
        ({"latency_seconds": ["a", 1]}, "not a list of numbers"),
        ({"second": [1, 0], "first": [0, 1]}, "stands twice"),
        ({"count": [1, -1]}, "counts must be"),
    ],
)
def test_a_foreign_or_damaged_record_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        PairSamples.from_json(two_pairs().to_json() | change)


def test_a_file_cut_off_in_the_middle_is_one_clear_error(tmp_path: Path):
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(two_pairs().to_json())[:80])
    with pytest.raises(InputError, match="not valid JSON"):
        load_samples(path)
