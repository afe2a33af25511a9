"""How many levels pairs show."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.measure.mesh_discovery.levels import fit_levels
from perfcast.measure.mesh_discovery.matrix import PairSamples


def samples_of(latencies: list[float], rates: list[float], counts: list[int], repeats: int) -> PairSamples:
    """Pairs of one level after the other, with 10 % noise."""
    draw = np.random.default_rng(0)
    level = np.repeat(np.arange(len(counts)), counts)
    pairs = np.array([(i, j) for i in range(60) for j in range(i)])[: len(level)]
    pairs, level = np.tile(pairs, (repeats, 1)), np.tile(level, repeats)
    noise = np.exp(draw.normal(0, 0.1, (2, len(level))))
    return PairSamples.build(
        60, pairs, np.array(latencies)[level] * noise[0], np.array(rates)[level] * noise[1]
    )


def test_one_level_is_one_level():
    assert len(fit_levels(samples_of([1e-6], [1e11], [300], 4))) == 1


@pytest.mark.parametrize("repeats", [1, 6])
def test_levels_half_as_slow_again_in_both_figures_are_told_apart(repeats: int):
    levels = fit_levels(samples_of([1e-6, 1.5e-6, 2.25e-6], [9e10, 6e10, 4e10], [60, 200, 600], repeats))
    np.testing.assert_allclose(np.exp(levels.centres[:, 0]), [1e-6, 1.5e-6, 2.25e-6], rtol=0.05)
    np.testing.assert_allclose(np.exp(-levels.centres[:, 1]), [9e10, 6e10, 4e10], rtol=0.05)


def test_a_level_that_differs_in_bandwidth_alone_is_found_among_few_pairs():
    levels = fit_levels(samples_of([1e-6, 1e-6], [9e10, 6e10], [12, 800], 6))
    assert len(levels) == 2


def test_the_noise_of_a_measurement_comes_from_repeats():
    levels = fit_levels(samples_of([1e-6], [1e11], [300], 4))
    np.testing.assert_allclose(np.sqrt(levels.repeat_variance), 0.1, rtol=0.1)


def test_no_answer_at_all_is_an_error():
    with pytest.raises(ValueError, match="no pair answered"):
        fit_levels(PairSamples.build(3, [(0, 1)], [np.nan], [np.nan]))
