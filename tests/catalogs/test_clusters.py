from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.clusters import (
    ClusterEntry,
    load_cluster,
    load_cluster_entries,
    load_cluster_entry,
    parse_cluster_file,
)
from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.plan import Plan
from perfcast.cost.collective.constants import load_constants
from perfcast.cost.collective.datasheet import price_collective
from perfcast.errors import CatalogError, InputError, PlanError, UnknownNameError
from perfcast.prediction.step.predict import predict_plan

ENTRIES = load_cluster_entries()
REQUIRED = """
    dgx-1-v100 dgx-2 dgx-a100 dgx-h100 dgx-h200 hgx-b200 hgx-b300 gb200-nvl72 gb300-nvl72 aws-p4d
    aws-p4de aws-p5 aws-p5en aws-p6-b200 azure-nd-a100-v4 azure-nd-h100-v5 gcp-a3-mega gcp-a3-ultra
    frontier-mi250x mi300x tpu-v4 tpu-v5p l40s-pcie a40-pairs a100-pcie h100-nvl-pairs
    multi-datacentre-h100 hgx-a100-ethernet hgx-a800 hgx-h800 hgx-h20 mi325x mi350x mi355x gaudi2 gaudi3
    tpu-v5e tpu-v6e rtx-pro-server
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


@pytest.mark.parametrize("count", [4, 8, 16, 36, 64, 70, 72])
def test_what_fits_into_a_rack_is_one_domain(count: int):
    assert [level.size for level in load_cluster(f"gb200-nvl72:{count}").levels] == [count, 1]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(80, [40, 2]), (128, [64, 2]), (144, [72, 2]), (256, [64, 4]), (576, [72, 8]), (1024, [64, 16])],
)
def test_racks_are_filled_alike_in_whole_trays_and_the_note_says_so(count: int, sizes: list[int]):
    cluster = load_cluster(f"gb300-nvl72:{count}")
    assert [level.size for level in cluster.levels] == sizes
    assert (f"{sizes[0]} of 72 devices of each rack" in cluster.note) == (sizes[0] < 72)


def test_a_number_that_would_split_trays_names_its_neighbours():
    with pytest.raises(PlanError, match=r"take 96 or 104.*gb200-nvl72/K:N"):
        load_cluster("gb200-nvl72:100")


@given(st.integers(1, 5000))
def test_racks_in_parts_have_as_many_devices_as_asked_and_are_at_least_half_full(count: int):
    try:
        rack, network = load_cluster(f"gb200-nvl72:{count}").levels
    except PlanError:
        assert count > 72
        return
    assert rack.size * network.size == count
    assert rack.size <= 72
    assert network.size == 1 or (rack.size >= 36 and rack.size % 4 == 0)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gb200-nvl72/36:72", [36, 2]),
        ("gb200-nvl72/8:512", [8, 64]),
        ("DGX_GB200/4:4", [4, 1]),
        ("dgx-h100/4:12", [4, 3]),
        ("a40-pairs/4:8", [2, 2, 2]),
        ("dgx-superpod-h100/4:256", [4, 32, 2]),
    ],
)
def test_a_part_of_each_server_is_written_behind_its_name(name: str, sizes: list[int]):
    cluster = load_cluster(name)
    assert [level.size for level in cluster.levels] == sizes
    assert load_cluster(f"{cluster.name}:{cluster.num_devices}") == cluster
    assert "of each" in cluster.note
    assert "of each" in cluster.title


def test_a_group_that_racks_cannot_hold_alike_names_the_way_out():
    with pytest.raises(PlanError, match=r"divide its 72, or a part of each \(gb200-nvl72/K:N\)"):
        load_cluster("gb200-nvl72:144").span(tuple(range(0, 144, 16)))


def test_all_of_each_server_is_the_cluster_itself():
    assert load_cluster("dgx-h100/8:64") == load_cluster("dgx-h100:64")


def test_fewer_devices_of_a_server_have_more_of_its_port():
    whole, half = load_cluster("hgx-h100-ethernet:16"), load_cluster("hgx-h100-ethernet/4:16")
    assert half.levels[1].link.bytes_per_second == 2 * whole.levels[1].link.bytes_per_second
    one = load_cluster("hgx-h100-ethernet/1:16").levels[1].link
    assert one.bytes_per_second == one.port_bytes_per_second


@pytest.mark.parametrize("name", ["dgx-h100/9:9", "dgx-h100/0:8", "a40-pairs/3:6", "tpu-v4/4:64"])
def test_a_part_that_a_server_cannot_have_is_refused(name: str):
    with pytest.raises(PlanError):
        load_cluster(name)


def test_a_torus_joins_no_more_than_its_links_do():
    assert load_cluster("tpu-v6e:256").num_devices == 256
    with pytest.raises(PlanError, match="1 to 256"):
        load_cluster("tpu-v6e:512")


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_a_larger_all_reduce_takes_longer_on_every_cluster(entry: ClusterEntry):
    cluster = entry.of_size(16)
    for ranks in (range(2), range(16)):
        seconds = [
            price_collective(cluster, "all_reduce", 2.0**power, tuple(ranks)) for power in range(10, 31, 4)
        ]
        assert seconds == sorted(seconds)
        assert seconds[0] > 0
        assert seconds[-1] > 2 * seconds[-2]


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_every_cluster_answers(entry: ClusterEntry):
    plan = Plan(tensor_parallel=2, data_parallel=8, zero_stage=1)
    dtype = "bf16" if DType.BF16 in load_device(entry.device).matrix_flops_per_second else "fp16"
    made = predict_plan(
        "gpt2", f"{entry.name}:16", plan, dtype=dtype, sequence_length=1024, cost_model="roofline"
    )
    assert 1e-3 < made.step_seconds < 1.0


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
        ("size = 4", "size = 4\ntray = 3", "tray"),
        ('title = "Lab"', 'title = "Lab"\nmost_devices = 0', "most_devices"),
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


def test_all_that_is_wrong_with_a_cluster_is_said_at_once(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[sources]\n[clusters.a]\ntitle = "A"\ndevice = "h1000"\nmost_devices = 0\n'
        '[[clusters.a.levels]]\nname = "node"\nsize = -1\nlatency = 3\n',
        encoding="utf-8",
    )
    with pytest.raises(CatalogError) as raised:
        load_cluster(str(path))
    wanted = (
        "unknown device 'h1000'",
        "most_devices",
        "kind missing",
        "bandwidth missing",
        "size: -1",
        "latency: expected",
    )
    assert all(one in str(raised.value) for one in wanted)
    assert str(raised.value).startswith("6 problems:")


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


@given(st.integers(1, 4096))
def test_a_torus_of_any_number_of_devices_holds_them_all(count: int):
    assert load_cluster_entry("tpu-v4").of_size(count).num_devices == count
