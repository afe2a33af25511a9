import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.errors import PlanError
from perfcast.prediction.plan.filled_cluster import fill_cluster


def test_racks_of_72_are_filled_to_64_by_powers_of_two() -> None:
    cluster, note = fill_cluster(load_cluster_entry("gb200-nvl72"), 512)
    assert [level.size for level in cluster.levels] == [64, 8]
    assert "64 of 72" in note


def test_what_fills_its_levels_is_left_as_it_is() -> None:
    entry = load_cluster_entry("gb200-nvl72")
    assert fill_cluster(entry, 144) == (entry.of_size(144), "")


@given(st.integers(min_value=1, max_value=4096))
def test_all_devices_are_there_and_no_level_is_overfull(count: int) -> None:
    entry = load_cluster_entry("dgx-h100")
    cluster, _ = fill_cluster(entry, count)
    assert cluster.num_devices == count
    assert cluster.levels[0].size <= 8


def test_no_devices_are_no_cluster() -> None:
    with pytest.raises(PlanError):
        fill_cluster(load_cluster_entry("dgx-h100"), 0)
