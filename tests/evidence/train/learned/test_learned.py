from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_up_kernels import training_rows
from perfcast.catalogs.devices import find_device_name, load_device_entry
from perfcast.cost.learned.store import load_family, read_content
from perfcast.errors import InputError
from perfcast.evidence.dataset.measurements import Measurements, tidy
from perfcast.evidence.dataset.table import RawTable
from perfcast.evidence.train.learned.train import (
    MOST_ROWS,
    ModelRecord,
    collect_rows,
    dies_of,
    fingerprint_of,
    model_order,
    split_models,
    thin,
    train_all,
    train_model,
)

T4, P4, V100 = "Tesla T4", "Tesla P4", "Tesla V100-PCIE-32GB"


def products(devices: tuple[str, ...] = (T4, V100), count: int = 30) -> pl.DataFrame:
    """Products of growing size; ten times as slow as 2 TFLOP/s."""
    rows: list[dict[str, Any]] = []
    for device in devices:
        for index in range(count):
            m, n, k = 128 * (1 + index), 256, 512
            rows.append({
                "op": "linear", "latency_ms": 0.1 + 2 * m * n * k / 0.2e12 * 1e3, "device": device,
                "kernel_name": "sgemm", "grid_x": 8, "B": 1, "M": m, "N": n, "K": k,
            })  # fmt: skip
    return pl.DataFrame(rows)


def element_wise(device: str = T4, count: int = 30) -> pl.DataFrame:
    return pl.DataFrame([
        {"op": "add", "latency_ms": 0.05 + 0.01 * index, "device": device, "grid_x": 8, "B": 64 * (1 + index),
         "H": 256}
        for index in range(count)
    ])  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a table of products on two devices and one of element-wise kernels."""
    folder = tmp_path / "data"
    folder.mkdir()
    products().write_csv(folder / "matmul_train.csv")
    element_wise().write_csv(folder / "vector_train.csv")
    return folder


def measured(frame: pl.DataFrame, stem: str = "matmul_train") -> Measurements:
    return tidy(RawTable(stem, Path(f"{stem}.csv"), frame), find_device_name)[0][0]


# ---- collecting --------------------------------------------------------------------------------------


def test_measurements_are_collected_by_model_with_their_devices_and_tables(data):
    found = collect_rows([data])
    assert set(found) == {"product_wide", "rows"}
    rows, tables = found["product_wide"]
    assert tables == ("matmul_train",)
    assert [device.name for device in rows.devices] == ["t4", "v100-pcie-32gb"]
    assert np.bincount(rows.device_index).tolist() == [30, 30]
    assert rows.kernels.size("m").max() == 128 * 30
    assert not rows.kernels.is_cold


def test_no_row_of_a_left_out_die_enters(data):
    rows, _ = collect_rows([data], dies_of(["v100-sxm-16gb"]))["product_wide"]
    assert [device.name for device in rows.devices] == ["t4"], "both V100s are one die"
    assert len(rows.seconds) == 30
    without = collect_rows([data], dies_of(["t4"]))
    assert [device.name for device in without["product_wide"][0].devices] == ["v100-pcie-32gb"]
    assert "rows" not in without


def test_siblings_on_one_die_leave_together():
    assert dies_of(["v100-sxm-16gb"]) == {load_device_entry(V100).device.die}
    assert dies_of([]) == frozenset()


def test_a_table_that_is_not_asked_for_is_not_read(data):
    assert set(collect_rows([data], use=lambda stem: stem == "vector_train")) == {"rows"}


def test_several_folders_add_up(data, tmp_path):
    more = tmp_path / "more"
    more.mkdir()
    products((P4,), 5).with_columns(op=pl.lit("bmm"), B=pl.lit(2)).write_csv(more / "bmm_test.csv")
    rows, tables = collect_rows([data, more])["product_wide"]
    assert sorted(tables) == ["bmm_test", "matmul_train"]
    assert len(rows.seconds) == 65


def test_a_device_that_the_catalog_does_not_know_is_left_aside(data):
    products(("Abacus 3000", T4), 30).write_csv(data / "matmul_train.csv")
    rows, _ = collect_rows([data])["product_wide"]
    assert [device.name for device in rows.devices] == ["t4"]


def test_a_measurement_that_no_device_can_reach_is_left_aside(data):
    frame = products().with_columns(
        latency_ms=pl.when(pl.col("M") == 3840).then(1e-6).otherwise("latency_ms")
    )
    frame.write_csv(data / "matmul_train.csv")
    assert collect_rows([data])["product_wide"][0].kernels.size("m").max() == 128 * 29


def test_nothing_to_train_on_is_an_error_that_names_the_folders(data):
    with pytest.raises(InputError, match=f"no measured kernels in {data}"):
        collect_rows([data], dies_of(["t4", "v100-pcie-32gb"]))


# ---- thinning ----------------------------------------------------------------------------------------


def test_thinning_keeps_at_most_so_many_of_each_device_and_segment():
    both = pl.concat([products(), products((T4,), 8).with_columns(op=pl.lit("bmm"), B=pl.lit(4, pl.Int64))])
    kept = thin(measured(both), 10)
    groups = list(zip(kept.catalog_device.tolist(), kept.kernels.word("operation").tolist(), strict=True))
    assert {group: groups.count(group) for group in groups} == {
        ("t4", "linear"): 10, ("v100-pcie-32gb", "linear"): 10, ("t4", "bmm"): 8,
    }  # fmt: skip


def test_thinning_keeps_the_order_and_draws_the_same_rows_again():
    once, again = (thin(measured(products()), 10) for _ in range(2))
    assert once.row.tolist() == sorted(once.row.tolist()) == again.row.tolist()


def test_thinning_draws_from_all_sizes():
    sizes = thin(measured(products((T4,), 1000)), 100).kernels.size("m")
    assert sizes.min() < 128 * 100
    assert sizes.max() > 128 * 900


def test_few_rows_are_not_thinned():
    assert len(thin(measured(products()), 10**6)) == 60
    assert len(thin(measured(products()).take(np.zeros(0, np.int64)), 5)) == 0


def test_products_of_two_widths_go_to_two_models():
    kernels = measured(products())
    dtypes = np.where(np.arange(60) < 20, "bf16", "fp32").astype(object)
    mixed = replace(
        kernels, kernels=replace(kernels.kernels, columns={**kernels.kernels.columns, "dtype": dtypes})
    )
    assert {name: len(part) for name, part in split_models(mixed)} == {
        "product_narrow": 20,
        "product_wide": 40,
    }


# ---- training ----------------------------------------------------------------------------------------


def test_a_record_says_what_a_model_was_trained_on():
    rows = training_rows("rows", devices=("t4", "h100-sxm"), count=40)
    fitted, record = train_model("rows", rows, ["b", "a", "b"], ["l4"])
    assert (record.model, record.num_rows) == ("rows", 80)
    assert record.devices == ("h100-sxm", "t4")
    assert (record.tables, record.left_out) == (("a", "b"), ("l4",))
    assert {cell.device for cell in fitted.errors} == {"t4", "h100-sxm"}


def test_all_models_of_the_data_are_trained_saved_and_reported(data, tmp_path):
    reports: list[tuple[str, ModelRecord | None]] = []
    records = train_all([data], tmp_path / "out", report=lambda *report: reports.append(report))
    assert [record.model for record in records] == ["product_wide", "rows"]
    assert [name for name, _ in reports] == ["product_wide", "product_wide", "rows", "rows"]
    assert [record is None for _, record in reports] == [True, False, True, False]
    assert load_family("rows", tmp_path / "out").architectures == (("nvidia", "turing", "7.5"),)
    stored = read_content("rows", tmp_path / "out")["record"]
    assert stored["num_rows"] == 30
    assert stored["devices"] == ["t4"]


def test_a_finished_model_of_the_same_rows_is_kept_and_another_is_trained_again(data, tmp_path):
    trained: list[str] = []

    def note(model: str, record: ModelRecord | None) -> None:
        if record is None:
            trained.append(model)

    first = train_all([data], tmp_path / "out", report=note)
    kept = train_all([data], tmp_path / "out", report=note)
    assert kept == [replace(record, seconds=0.0) for record in first]
    assert trained == ["product_wide", "rows"]
    element_wise(count=25).write_csv(data / "vector_train.csv")
    train_all([data], tmp_path / "out", report=note)
    assert trained == ["product_wide", "rows", "rows"]
    train_all([data], tmp_path / "out", restart=True, report=note)
    assert trained[3:] == ["product_wide", "rows"]


def test_a_left_out_device_is_in_no_model_and_in_every_record(data, tmp_path):
    records = train_all([data], tmp_path / "out", left_out=["v100-pcie-32gb"])
    assert all(record.left_out == ("v100-pcie-32gb",) for record in records)
    assert all(record.devices == ("t4",) for record in records)
    content = read_content("product_wide", tmp_path / "out")
    assert "v100" not in str([content["scalars"], content["hulls"], content["errors"]])


def test_the_fingerprint_changes_with_any_measurement_size_or_device():
    rows = training_rows("rows", count=5)
    assert fingerprint_of(rows) == fingerprint_of(training_rows("rows", count=5))
    slower = replace(rows, seconds=rows.seconds * 1.001)
    elsewhere = replace(rows, devices=rows.devices[::-1])
    columns = {**rows.kernels.columns, "row_length": rows.kernels.size("row_length") + 1}
    longer = replace(rows, kernels=replace(rows.kernels, columns=columns))
    assert len({fingerprint_of(r) for r in (rows, slower, elsewhere, longer)}) == 4


def test_a_record_survives_the_file_that_keeps_it(data, tmp_path):
    (record, _) = train_all([data], tmp_path)
    stored = read_content("product_wide", tmp_path)["record"]
    assert stored.keys() == asdict(record).keys() - {"seconds"}


def test_the_same_tables_give_the_same_files(data, tmp_path):
    train_all([data], tmp_path / "one")
    train_all([data], tmp_path / "two")
    files = sorted((tmp_path / "one").iterdir())
    assert [path.name for path in files] == [
        "convolution_narrow.json.gz",
        "product_wide.json.gz",
        "rows.json.gz",
    ]
    assert all(path.read_bytes() == (tmp_path / "two" / path.name).read_bytes() for path in files)


def test_every_model_has_a_limit_and_a_place_in_the_order():
    assert model_order(dict.fromkeys(["scan", "rows", "product_wide"])) == ["product_wide", "rows", "scan"]
    assert model_order(MOST_ROWS) == list(MOST_ROWS)
