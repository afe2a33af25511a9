from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalog.clusters import (
    ClusterEntry,
    load_cluster,
    load_cluster_entries,
    load_cluster_entry,
    parse_cluster_file,
)
from perfcast.catalog.devices import load_device
from perfcast.cost.collective.constants import load_constants
from perfcast.errors import CatalogError, InputError, PlanError, UnknownNameError

ENTRIES = load_cluster_entries()
REQUIRED = """
    dgx-1-v100 dgx-2 dgx-a100 dgx-h100 dgx-h200 hgx-b200 hgx-b300 gb200-nvl72 gb300-nvl72 aws-p4d
    aws-p4de aws-p5 aws-p5en aws-p6-b200 azure-nd-a100-v4 azure-nd-h100-v5 gcp-a3-mega gcp-a3-ultra
    frontier-mi250x mi300x tpu-v4 tpu-v5p l40s-pcie a40-pairs a100-pcie h100-nvl-pairs
    multi-datacentre-h100 hgx-a100-ethernet
""".split()

GOOD = """
[sources]
mine = "measured by hand"
[clusters.lab]
title = "Lab"
device = "h100-sxm"
[[clusters.lab.levels]]
name = "node"
size = 4
kind = "nvlink4"
latency = { value = 1, unit = "us", source = "mine" }
bandwidth = { value = 450, unit = "GB/s", source = "mine" }
[[clusters.lab.levels]]
name = "network"
kind = "ethernet"
latency = { value = 20, unit = "us", source = "mine" }
bandwidth = { value = 3, unit = "GB/s", source = "mine" }
"""


def lab(tmp_path: Path, text: str = GOOD) -> Path:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", REQUIRED)
def test_a_cluster_that_people_ask_for_is_there_under_its_name(name: str):
    assert load_cluster(name).name == name


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_every_figure_names_its_source(entry: ClusterEntry):
    assert entry.figures
    assert all(len(figure.source) > 10 for figure in entry.figures.values())


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_every_link_has_constants_and_every_device_an_entry(entry: ClusterEntry):
    assert load_device(entry.device).name == entry.device
    for level in entry.levels:
        load_constants().of_link(level.link.kind)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_inner_levels_are_no_slower_than_outer_ones(entry: ClusterEntry):
    rates = [level.link.bytes_per_second for level in entry.levels]
    assert rates == sorted(rates, reverse=True)


def test_any_size_can_be_had():
    cluster = load_cluster("dgx-h100:16384")
    assert cluster.num_devices == 16384
    assert [level.size for level in cluster.levels] == [8, 2048]


def test_a_part_of_a_node_is_a_node_with_fewer_devices():
    assert [level.size for level in load_cluster("dgx-h100:4").levels] == [4, 1]


def test_a_torus_is_as_cubic_as_its_devices_allow():
    assert [level.size for level in load_cluster("tpu-v4:4096").levels] == [16, 16, 16]
    assert [level.size for level in load_cluster("tpu-v5p:8960").levels] == [16, 20, 28]


def test_aliases_and_spelling_do_not_matter():
    assert load_cluster("HGX_H100:16") == load_cluster("dgx-h100:16")


def test_an_unknown_cluster_lists_close_ones():
    with pytest.raises(UnknownNameError, match="dgx-h100"):
        load_cluster("dgx-h10")


@pytest.mark.parametrize(
    "name", ["dgx-h100:12", "dgx-h100:0", "dgx-h100:many", "dgx-h100:-8", "dgx-h100:99999999"]
)
def test_a_size_that_cannot_be_is_refused(name: str):
    with pytest.raises(PlanError):
        load_cluster(name)


def test_a_size_between_two_nodes_names_its_neighbours():
    with pytest.raises(PlanError, match="take 8 or 16"):
        load_cluster("dgx-h100:12")


def test_a_file_of_ones_own_is_accepted(tmp_path: Path):
    cluster = load_cluster(f"{lab(tmp_path)}:32")
    assert (cluster.name, cluster.num_devices) == ("lab", 32)
    assert cluster.levels[1].link.latency_seconds == pytest.approx(20e-6)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("size = 4", "size = -4", "size"),
        ("size = 4", "size = true", "size"),
        ('device = "h100-sxm"', 'device = "h101"', "h101"),
        ('source = "mine" }', 'source = "yours" }', "yours"),
        ("value = 450", "value = 0", "positive"),
        ("value = 450", "value = 4500000", "bandwidth"),
        ("value = 20", "value = 20000000", "latency"),
        ('kind = "ethernet"', 'kind = "ethernet"\ncolour = "red"', "colour"),
        ('kind = "ethernet"', 'kind = "ethernet"\nduplex = "yes"', "duplex"),
        ('kind = "ethernet"', "", "kind"),
        ('name = "network"', 'name = "node"', "one name"),
        ('title = "Lab"', "", "title"),
        ("size = 4\n", "", "outermost"),
        ("[clusters.lab]", "[clusters.lab", "TOML"),
    ],
)
def test_a_broken_file_is_refused_by_what_is_wrong(tmp_path: Path, old: str, new: str, said: str):
    with pytest.raises(InputError, match=said):
        load_cluster(str(lab(tmp_path, GOOD.replace(old, new, 1))))


def test_a_file_with_two_clusters_does_not_name_one(tmp_path: Path):
    second = GOOD.split("[clusters.lab]")[1].replace("clusters.lab", "clusters.other")
    with pytest.raises(CatalogError, match="expected one"):
        load_cluster(str(lab(tmp_path, GOOD + "[clusters.other]" + second)))


def test_rings_of_a_group_are_one_figure_per_size(tmp_path: Path):
    text = GOOD.replace(
        "size = 4", 'size = 4\nring_bandwidth = [{ value = 1, unit = "GB/s", source = "mine" }]'
    )
    with pytest.raises(CatalogError, match="2 … 4"):
        parse_cluster_file(lab(tmp_path, text))


@given(st.integers(1, 5000))
def test_a_torus_of_any_number_of_devices_holds_them_all(count: int):
    assert load_cluster_entry("tpu-v4").of_size(count).num_devices == count
