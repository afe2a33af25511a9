"""Discovery of made-up clusters whose mesh is known."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.errors import InputError, PlanError
from perfcast.measure.mesh_discovery.discover import discover_mesh, discover_with_samples
from perfcast.measure.mesh_discovery.found import DiscoveredMesh
from perfcast.measure.mesh_discovery.matrix import PairSamples
from perfcast.measure.mesh_discovery.rounds import all_pairs
from perfcast.measure.mesh_discovery.synthetic import SyntheticCluster, is_named, is_right, make_cluster


def found_in(cluster: SyntheticCluster, seed: int = 0) -> DiscoveredMesh:
    return discover_mesh(partial(cluster.measure, np.random.default_rng(seed)), cluster.num_ranks)


def plain_cluster(noise: float = 0.1) -> SyntheticCluster:
    """2 · 2 · 4 in the order of the ranks; 1, 2 and 4 µs, 80, 40 and 20 GB/s."""
    ranks = np.arange(16)
    return SyntheticCluster(
        shape=(2, 2, 4),
        places=np.stack((ranks // 4, ranks // 8, ranks // 16), axis=1),
        latency_seconds=np.array([1e-6, 2e-6, 4e-6]),
        bytes_per_second=np.array([80e9, 40e9, 20e9]),
        noise=noise,
    )


@pytest.mark.parametrize("num_ranks", [8, 24, 256])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_cluster_without_faults_is_found(num_ranks: int, seed: int):
    cluster = make_cluster(num_ranks, np.random.default_rng(seed))
    mesh = found_in(cluster)
    assert is_right(cluster, mesh)
    assert mesh.shape == cluster.shape
    assert mesh.misfits == ()


@pytest.mark.parametrize("fault", ["slow_device", "slow_group", "dead_device", "unequal_groups"])
@pytest.mark.parametrize("num_ranks", [16, 96])
def test_a_fault_is_named_and_does_not_hide_the_mesh(fault: str, num_ranks: int):
    cluster = make_cluster(num_ranks, np.random.default_rng(num_ranks), fault=fault)
    mesh = found_in(cluster)
    assert is_right(cluster, mesh)
    assert is_named(cluster, mesh)


def test_a_thousand_ranks_take_a_fraction_of_their_pairs():
    cluster = make_cluster(1024, np.random.default_rng(0), num_levels=4)
    mesh = found_in(cluster)
    assert is_right(cluster, mesh)
    assert mesh.num_measured_pairs < 0.15 * 1024 * 1023 / 2


def test_latency_and_bandwidth_of_each_axis_are_found():
    mesh = found_in(plain_cluster())
    assert [axis.size for axis in mesh.axes] == [2, 2, 4]
    for axis, latency, rate in zip(mesh.axes, (4e-6, 2e-6, 1e-6), (20e9, 40e9, 80e9), strict=True):
        assert axis.latency_seconds == pytest.approx(latency, rel=0.05)
        assert axis.bytes_per_second == pytest.approx(rate, rel=0.05)
        assert axis.latency_low_seconds < axis.latency_seconds < axis.latency_high_seconds
        assert axis.low_bytes_per_second < axis.bytes_per_second < axis.high_bytes_per_second


def test_a_regular_mesh_becomes_a_cluster_and_a_device_mesh():
    mesh = found_in(plain_cluster())
    assert [level.size for level in mesh.to_cluster().levels] == [4, 2, 2]
    device_mesh = mesh.to_device_mesh()
    assert device_mesh.group([mesh.axes[-1].name], rank=5) == (4, 5, 6, 7)
    assert mesh.coordinates(13) == (1, 1, 1)


def test_an_irregular_mesh_has_no_shape_and_says_why_it_is_no_cluster():
    cluster = make_cluster(16, np.random.default_rng(3), fault="unequal_groups")
    mesh = found_in(cluster)
    assert mesh.shape == ()
    with pytest.raises(PlanError, match="differ in size"):
        mesh.to_cluster()


def test_a_dead_device_is_put_where_one_is_lacking():
    cluster = make_cluster(36, np.random.default_rng(4), fault="dead_device")
    mesh = found_in(cluster)
    assert mesh.shape == cluster.shape
    assert sorted(mesh.ranks) == list(range(36))


def test_one_slow_pair_is_named():
    cluster = plain_cluster()

    def measure(draw, pairs):
        latency, rate = cluster.measure(draw, pairs)
        slow = (np.sort(pairs, axis=1) == [1, 3]).all(axis=1)
        return latency, np.where(slow, rate / 4, rate)

    mesh = discover_mesh(partial(measure, np.random.default_rng(0)), 16)
    assert [(misfit.kind, misfit.ranks) for misfit in mesh.misfits] == [("slow_pair", (1, 3))]
    assert mesh.misfits[0].bandwidth_factor == pytest.approx(0.25, rel=0.2)
    assert mesh.shape == (2, 2, 4)


def test_equal_devices_are_one_axis():
    flat = replace(plain_cluster(), latency_seconds=np.full(3, 1e-6), bytes_per_second=np.full(3, 1e10))
    assert found_in(flat).shape == (16,)


def test_levels_too_close_to_tell_lower_the_confidence():
    near = replace(
        plain_cluster(),
        latency_seconds=np.array([1e-6, 1.11e-6, 1.22e-6]),
        bytes_per_second=np.full(3, 1e10),
    )
    mesh = found_in(near)
    assert mesh.shape != (2, 2, 4)
    assert mesh.confidence < 0.9
    assert mesh.doubts


def test_a_full_matrix_measured_once_is_enough():
    cluster = plain_cluster(noise=0.05)
    pairs = all_pairs(range(16))
    samples = PairSamples.build(16, pairs, *cluster.measure(np.random.default_rng(0), pairs))
    mesh = discover_mesh(samples, 16)
    assert mesh.shape == (2, 2, 4)
    assert mesh.num_measurements == 120


def test_samples_of_a_discovery_give_the_same_mesh():
    cluster = make_cluster(96, np.random.default_rng(5))
    measure = partial(cluster.measure, np.random.default_rng(0))
    mesh, samples = discover_with_samples(measure, 96)
    again = discover_mesh(PairSamples.from_json(samples.to_json()), 96)
    assert again.groups == mesh.groups


@settings(max_examples=4, deadline=None)
@given(st.permutations(range(16)))
def test_permuting_the_ranks_permutes_the_answer(order: list[int]):
    cluster = plain_cluster()
    permuted = replace(cluster, places=cluster.places[order])
    expected = [
        {frozenset(order.index(rank) for rank in group) for group in groups}
        for groups in found_in(cluster).groups
    ]
    assert [set(map(frozenset, groups)) for groups in found_in(permuted).groups] == expected


@settings(max_examples=4, deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_scaling_all_times_leaves_the_shape(latency: float, rate: float):
    cluster = plain_cluster()
    scaled = replace(
        cluster,
        latency_seconds=cluster.latency_seconds * latency,
        bytes_per_second=cluster.bytes_per_second * rate,
    )
    assert found_in(scaled).groups == found_in(cluster).groups


def test_ranks_that_are_all_silent_are_one_clear_error():
    def silent(pairs):
        return np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)

    for num_ranks in (4, 100):
        with pytest.raises(InputError, match=r"none of \d+ ranks answers"):
            discover_mesh(silent, num_ranks)


def test_samples_of_another_number_of_ranks_are_refused():
    samples = PairSamples.build(4, [(0, 1)], [1e-6], [1e9])
    with pytest.raises(InputError, match="of 4 ranks, not of 8"):
        discover_mesh(samples, 8)


@pytest.mark.parametrize("num_ranks", [0, 1])
def test_fewer_than_two_ranks_are_refused(num_ranks: int):
    with pytest.raises(InputError, match="cannot be discovered"):
        discover_mesh(lambda pairs: (np.ones(len(pairs)), np.ones(len(pairs))), num_ranks)


def test_a_single_pair_is_no_surer_than_its_repeats():
    cluster = make_cluster(2, np.random.default_rng(0), num_levels=1)
    (axis,) = found_in(cluster).axes
    assert axis.num_pairs == 1
    assert axis.latency_low_seconds < axis.latency_seconds < axis.latency_high_seconds
