from __future__ import annotations

import pytest

from perfcast.errors import PlanError, UnknownNameError
from perfcast.prediction.plan.cluster import cluster_by_name, cluster_of_device


def test_a_name_counts_its_own_devices():
    assert cluster_by_name("dgx-h100:64", None).num_devices == 64
    assert cluster_by_name("dgx-h100:64", 64).num_devices == 64


def test_a_name_without_a_number_takes_the_one_that_is_asked_for():
    assert cluster_by_name("dgx-h100", 16).num_devices == 16
    assert cluster_by_name("dgx-h100", None).num_devices == 8


def test_two_numbers_of_devices_contradict_each_other():
    with pytest.raises(PlanError, match="--cluster dgx-h100:64, but --devices 8"):
        cluster_by_name("dgx-h100:64", 8)


def test_another_device_than_the_cluster_has_is_a_contradiction():
    assert cluster_by_name("dgx-h100:8", None, "H100-SXM").num_devices == 8
    with pytest.raises(PlanError, match="has h100-sxm, not --device a100-sxm-80gb"):
        cluster_by_name("dgx-h100:8", None, "a100-sxm-80gb")


@pytest.mark.parametrize(
    ("device", "cluster"),
    [
        ("h100-sxm", "dgx-h100"), ("a100-sxm-80gb", "dgx-a100"), ("h200-sxm", "dgx-h200"),
        ("b200", "hgx-b200"), ("gb200", "gb200-nvl72"), ("v100-sxm-32gb", "dgx-2"), ("mi300x", "mi300x"),
    ],
)  # fmt: skip
def test_a_device_brings_the_server_that_its_vendor_builds(device: str, cluster: str):
    found = cluster_of_device(device, 8)
    assert (found.name, found.num_devices) == (cluster, 8)


def test_a_device_of_no_cluster_lists_the_clusters():
    with pytest.raises(PlanError, match=r"no cluster of p40 is known.*dgx-h100"):
        cluster_of_device("p40", 8)


def test_an_unknown_device_lists_close_ones():
    with pytest.raises(UnknownNameError, match="Did you mean"):
        cluster_of_device("h100-sxn", 8)
