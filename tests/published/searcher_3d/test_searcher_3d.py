"""The 3D-parallelism searcher: its formulas by hand, its order, its files."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import InputError
from perfcast.published.searcher_3d.compare import ORIGINAL_WINNER, compare
from perfcast.published.searcher_3d.files import SearcherCluster, SearcherModel, read_cluster, read_model
from perfcast.published.searcher_3d.search import (
    choose_plan,
    format_times,
    list_plans,
    main,
    price_plan,
    price_plans,
    search,
)

CLUSTER: dict[str, Any] = {
    "n_node": 2, "n_gpu_per_node": 2, "gpu_gflops": 100000, "gpu_memory": 40000,
    "bw_gpu_to_gpu": 100, "bw_cpu_to_gpu": 16, "bw_cpu_to_cpu": 10, "bw_inter_node": 10,
}  # fmt: skip
MODEL: dict[str, Any] = {
    "num_layers": 2, "global_batch_size": 8, "layer_tflops": [3, 4.0], "tp_comm": [1],
    "tp_comm_sum_MB": 2048, "dp_sum_gradient_MB": 512, "layer_activation_MB": [16, 64],
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "cluster.json", CLUSTER), write(tmp_path / "model.json", MODEL)


def write(path: Path, values: object) -> Path:
    path.write_text(json.dumps(values))
    return path


def run(files: tuple[Path, Path], *more: str) -> int:
    return main([str(files[0]), str(files[1]), "--workers", "1", *more])


def cluster_and_model(files: tuple[Path, Path]) -> tuple[SearcherCluster, SearcherModel]:
    return read_cluster(files[0]), read_model(files[1])


def test_one_device_of_each_kind_computes_at_the_base_efficiency(files):
    time = price_plan(*cluster_and_model(files), (1, 1, 1))
    assert time.compute_milliseconds == pytest.approx(1000 * 21 / 100 / 0.35)
    assert time.total_milliseconds == time.compute_milliseconds


def test_a_plan_of_all_three_by_hand(files):
    time = price_plan(*cluster_and_model(files), (4, 2, 2))
    efficiency = 0.35 / 1.6 / 1.25 / 1.2
    assert time.compute_milliseconds == pytest.approx(1000 * 21 / (100 * 8) / efficiency / 0.6)
    assert time.tensor_milliseconds == pytest.approx(1000 * 2048 / 2 * 2 / 2 / 102400)
    assert time.data_milliseconds == pytest.approx(1000 * 512 * 2 * 3 / 4 / 10240)
    assert time.pipeline_milliseconds == pytest.approx(1000 * 2 * 64 / 102400)


def test_data_parallelism_leaves_the_fast_link_when_it_is_larger_than_a_node(files):
    cluster, model = cluster_and_model(files)
    within, beyond = (price_plan(cluster, model, (d, 1, 1)).data_milliseconds for d in (2, 4))
    assert (within, beyond) == pytest.approx((5.0, 75.0))


@given(st.integers(1, 60), st.integers(1, 60))
def test_divisors_find_the_plans_of_brute_force_in_its_order(num_devices: int, num_layers: int):
    degrees = range(1, num_devices + 1)
    brute = [
        (d, t, p)
        for d, t, p in product(degrees, degrees, range(1, num_layers + 1))
        if d * t * p == num_devices
    ]
    assert list_plans(num_devices, num_layers) == brute


def test_worker_processes_give_the_same_times_in_the_same_order(files):
    cluster, model = cluster_and_model(files)
    plans = list_plans(4, 2)
    assert price_plans(cluster, model, plans, num_workers=2) == price_plans(cluster, model, plans)


def test_the_first_of_equal_plans_wins(files):
    times = price_plans(*cluster_and_model(files), [(2, 1, 2), (2, 1, 2), (1, 4, 1)])
    assert choose_plan([times[2], *times], 4) == min(times, key=lambda time: time.total_milliseconds).plan
    level = times[:2]
    assert choose_plan(level, 4) is level[0].plan


def test_no_plan_at_all_is_a_pipeline_of_all_devices():
    assert choose_plan([], 12) == (1, 1, 12)


def test_the_output_is_the_originals_to_the_byte(files, tmp_path, capsys):
    assert run(files, "--output", str(tmp_path / "out.json")) == 0
    assert (tmp_path / "out.json").read_text() == (
        "{\n"
        '    "1, 2, 2": "698.7500ms/iter",\n'
        '    "1, 4, 1": "348.7500ms/iter",\n'
        '    "2, 1, 2": "666.2500ms/iter",\n'
        '    "2, 2, 1": "240.0000ms/iter",\n'
        '    "4, 1, 1": "387.0000ms/iter"\n'
        "}"
    )
    assert "(2, 2, 1)" in capsys.readouterr().out


def test_without_a_name_the_output_is_output_json(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(files) == 0
    assert len(json.loads((tmp_path / "output.json").read_text())) == 5


def test_printed_digits_are_those_of_the_total(files):
    winner, times = search(*cluster_and_model(files))
    rows = json.loads(format_times(times))
    assert rows["{}, {}, {}".format(*winner)] == f"{min(t.total_milliseconds for t in times):.4f}ms/iter"


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("num_layers", 0, "num_layers = 0 is not a whole number above zero"),
        ("num_layers", 2.5, "is not a whole number"),
        ("num_layers", True, "is not a whole number"),
        ("layer_tflops", [], "is not a list of numbers"),
        ("layer_tflops", [1, math.nan], "layer_tflops.1: nan is no finite number"),
        ("layer_tflops", [1, "2"], "layer_tflops[1] = '2'"),
        ("layer_tflops", [1, 10**400], "layer_tflops.1: a whole number of more than 300 digits"),
        ("layer_tflops", [1e308, 1e308], "no valid plan"),
        ("tp_comm_sum_MB", math.inf, "tp_comm_sum_MB: inf is no finite number"),
        ("dp_sum_gradient_MB", -1, "dp_sum_gradient_MB = -1"),
        ("layer_activation_MB", None, "layer_activation_MB = None"),
    ],
)
def test_an_impossible_figure_of_the_model_is_one_error_and_no_file(
    files, tmp_path, capsys, key, value, complaint
):
    write(files[1], MODEL | {key: value})
    assert run(files, "--output", str(tmp_path / "out.json")) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("key", ["n_node", "n_gpu_per_node", "gpu_gflops", "bw_gpu_to_gpu", "bw_inter_node"])
def test_each_figure_of_the_cluster_must_be_there_and_above_zero(files, tmp_path, key):
    write(files[0], {name: value for name, value in CLUSTER.items() if name != key})
    with pytest.raises(InputError, match=f"the key '{key}' is missing"):
        read_cluster(files[0])
    write(files[0], CLUSTER | {key: 0})
    with pytest.raises(InputError, match="above zero"):
        read_cluster(files[0])


def test_figures_that_the_model_does_not_read_may_be_absent(files):
    write(files[0], {key: CLUSTER[key] for key in CLUSTER if "cpu" not in key and key != "gpu_memory"})
    assert read_cluster(files[0]).num_devices == 4


def test_a_cluster_without_end_is_refused(files):
    write(files[0], CLUSTER | {"n_node": 10**30})
    with pytest.raises(InputError, match="more than"):
        read_cluster(files[0])


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000, "\udcff"])
def test_what_is_no_object_of_json_is_one_error(files, capsys, text):
    files[0].write_bytes(text.encode("utf-8", "surrogateescape"))
    assert run(files) == 2
    assert str(files[0]) in capsys.readouterr().err


def test_missing_files_folders_and_workers_are_errors(files, tmp_path, capsys):
    assert run((tmp_path / "none.json", files[1])) == 2
    assert run(files, "--output", str(tmp_path / "none" / "out.json")) == 2
    assert run(files, "--workers", "0") == 2
    assert capsys.readouterr().err.count("error: ") == 3


def test_a_jobs_plans_take_what_the_originals_estimators_say_to_the_digit():
    found = compare()
    assert len(found.figures) == 20
    assert {one.difference for one in found.figures} == {0.0}
    assert f"ours {ORIGINAL_WINNER}" in found.notes[0]
