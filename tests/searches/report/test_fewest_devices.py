"""The fewest devices that keep a deadline."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.clusters import load_cluster
from perfcast.errors import PlanError
from perfcast.searches.report.devices import SIZES_PER_OCTAVE, find_fewest_devices, list_sizes

LARGEST = load_cluster("dgx-h100:64")


def resize(count):
    return load_cluster(f"dgx-h100:{count}")


class Searches:
    """Searches whose step takes 1 s of compute over all devices, and some waiting beside it.

    Attributes:
        waiting: Of each size, over the compute; a size that is not there has no plan.
        late: Sizes whose simulated plans miss the deadline.
        asked: Sizes that were explored, and those that were searched.
    """

    def __init__(self, waiting, late=()):
        self.waiting, self.late, self.asked = waiting, late, ([], [])

    def explore(self, cluster):
        count = cluster.num_devices
        self.asked[0].append(count)
        if count not in self.waiting:
            raise PlanError(f"no plan for {count} devices")
        compute = np.array([1 / count])
        step = compute * (1 + self.waiting[count])
        evaluation = SimpleNamespace(step_seconds=step, seconds_by_cause={"compute": compute})
        return SimpleNamespace(num_devices=count, evaluation=evaluation)

    def search(self, cluster):
        self.asked[1].append(cluster.num_devices)
        if cluster.num_devices in self.late:
            raise PlanError("too late")
        return SimpleNamespace(num_devices=cluster.num_devices)

    def find(self, deadline):
        return find_fewest_devices(
            LARGEST, resize, self.explore, self.search, num_steps=100, deadline_seconds=deadline
        ).num_devices


EVEN = dict.fromkeys(range(1, 65), 0.25)


def test_sizes_are_parts_of_a_server_then_whole_servers():
    assert list_sizes(load_cluster("dgx-h100:24")) == [1, 2, 4, 8, 16, 24]
    assert list_sizes(load_cluster("gb200-nvl72:144"))[-4:] == [24, 36, 72, 144]


def test_of_large_clusters_sizes_stand_no_further_apart_than_a_32nd():
    sizes = list_sizes(load_cluster("dgx-h100:16384"))
    assert sizes[-1] == 16384
    assert len(sizes) < 10 * SIZES_PER_OCTAVE
    steps = np.diff(sizes) / np.array(sizes[:-1])
    assert steps[np.array(sizes[:-1]) >= 8 * SIZES_PER_OCTAVE].max() <= 1 / SIZES_PER_OCTAVE


def test_the_fewest_devices_that_keep_the_deadline_are_found_without_trying_fewer_than_could():
    # 100 steps of 1.25 device-seconds in 5 s need 25 devices, whole servers: 32; compute alone needs 20.
    searches = Searches(EVEN)
    assert searches.find(5.0) == 32
    assert searches.asked == ([64, 24, 32], [32])


def test_a_smaller_size_may_do_where_a_larger_one_does_not():
    # 40 devices wait for long, as a number may that divides nothing; 24 do well.
    assert Searches({**EVEN, 24: 0.0, 32: 9.0, 40: 9.0}).find(5.0) == 24


def test_the_largest_size_may_be_too_slow():
    assert Searches({**EVEN, 64: 9.0}).find(5.0) == 32


def test_sizes_without_a_plan_or_with_late_simulated_plans_are_passed_over():
    assert Searches({n: w for n, w in EVEN.items() if n != 32}).find(5.0) == 40
    assert Searches(EVEN, late=(32, 40)).find(5.0) == 48


def test_a_deadline_that_no_size_keeps_is_refused_with_the_fastest():
    # The fastest: 100 · 1.25 / 64 s.
    with pytest.raises(PlanError, match=r"up to 64 devices trains in .*on 64, trains for 1\.95"):
        Searches(EVEN).find(1.6)


def test_no_plan_at_all_says_why():
    with pytest.raises(PlanError, match="no plan for 64 devices"):
        Searches({}).find(5.0)


@given(
    waiting=st.dictionaries(st.sampled_from(list_sizes(LARGEST)), st.floats(0, 3), min_size=1),
    deadline=st.floats(1, 100),
)
def test_the_answer_is_that_of_trying_all_sizes(waiting, deadline):
    keeping = [n for n, w in waiting.items() if 100 * ((1 / n) * (1 + w)) <= deadline]
    searches = Searches(waiting)
    if keeping:
        assert searches.find(deadline) == min(keeping)
    else:
        with pytest.raises(PlanError):
            searches.find(deadline)
