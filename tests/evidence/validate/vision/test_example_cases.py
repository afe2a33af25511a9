"""Tables of NVIDIA's examples: what a cell, a heading, a line and a file say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import example_lines as lines
import pytest
from example_lines import write_lines

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError
from perfcast.evidence.validate.row import is_skip_reason
from perfcast.evidence.validate.vision.examples.cases import ExampleCase, read_cases
from perfcast.evidence.validate.vision.examples.cells import read_number, read_of_precision, read_seconds
from perfcast.evidence.validate.vision.examples.headings import read_heading
from perfcast.evidence.validate.vision.examples.lines import read_lines
from perfcast.evidence.validate.vision.examples.measured import Measured
from perfcast.evidence.validate.vision.examples.programs.registry import PROGRAMS
from perfcast.evidence.validate.vision.examples.setups import load_setups


def cases_of(folder: Path, table: Sequence[Mapping[str, str]]) -> list[ExampleCase]:
    return read_cases(read_lines(write_lines(folder / "nvidia_examples.jsonl", table)))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,078 img/s", 1078), ("22.59M", 22.59e6), ("2.96198e+06", 2.96198e6), ("33.25", 33.25), ("N/A", None)],
)
def test_a_cell_is_its_number(text: str, value: float | None) -> None:
    assert read_number(text) == (None if value is None else pytest.approx(value))


def test_a_cells_own_unit_goes_before_the_headings() -> None:
    assert read_seconds("1.22s", "ms") == pytest.approx(1.22)
    assert read_seconds("3.19 s", None) == pytest.approx(3.19)
    assert read_seconds("9.33 ms", None) == pytest.approx(9.33e-3)
    assert read_seconds("15.38", "ms") == pytest.approx(15.38e-3)
    assert read_seconds("15.38", None) is None


@pytest.mark.parametrize(
    ("text", "order", "precision", "value"),
    [
        ("128 and 256", ("tf32", "fp16"), "fp16", 256),
        ("24, 40", ("tf32", "bf16"), "tf32", 24),
        ("5120/2560", ("fp16", "fp32"), "fp32", 2560),
        ("10@FP16, 4@TF32", (), "tf32", 4),
        ("1,024", ("tf32", "fp16"), "tf32", 1024),
        ("128 and 256", (), "fp16", None),
    ],
)
def test_a_cell_may_hold_a_number_for_each_precision(
    text: str, order: tuple[str, ...], precision: str, value: float | None
) -> None:
    assert read_of_precision(text, order, precision) == value


@pytest.mark.parametrize(
    ("heading", "measure"),
    [
        ("Throughput - TF32 (tok/s)", "throughput"),
        ("Throughput speedup (TF32 to mixed precision)", None),
        ("TF32", "throughput"),
        ("TF32 Strong Scaling", None),
        ("Number of samples used with mixed precision", "throughput"),
        ("Latency Avg (ms)", "latency"),
        ("Avg latency (s)", "latency"),
        ("Latency 90% (ms)", "latency bound"),
        ("Latency std (s)", None),
        ("Batch size / GPU", None),
    ],
)
def test_a_heading_says_what_was_measured(heading: str, measure: str | None) -> None:
    assert read_heading(heading).measure == measure


def test_results_that_are_no_time_are_not_configuration() -> None:
    for heading in ("Accuracy - FP32", "Weak scaling", "Time to train - TF32", "Latency std (s)", "Avg RTF"):
        assert read_heading(heading).is_result
    for heading in (
        "GPUs",
        "Batch size / GPU (TF32 and FP16)",
        "Sequence length",
        "Dimension",
        "WN channels",
    ):
        assert not read_heading(heading).is_result


def test_a_column_of_throughput_is_a_case_of_its_precision(tmp_path: Path) -> None:
    full, mixed, *_ = cases_of(tmp_path, lines.TRAINED)
    assert (full.row, mixed.row) == ("nvidia_examples:0:fp32", "nvidia_examples:0:fp16")
    assert (full.dtype, mixed.dtype, full.mode) == ("fp32", "amp_fp16", "train")
    assert full.device == "NVIDIA_DGX-1_(8x_V100_16GB)"
    assert full.catalog_device == "v100-sxm-16gb"
    assert full.measured_seconds == pytest.approx(65536 / 1.0e6)
    assert mixed.measured_seconds == pytest.approx(65536 / 2.0e6)


def test_a_step_of_eight_devices_holds_eight_batches(tmp_path: Path) -> None:
    eight = cases_of(tmp_path, lines.TRAINED)[2]
    assert (eight.num_devices, eight.cluster, eight.micro_batch) == (8, "dgx-1-v100", 8192)
    assert eight.measured_seconds == pytest.approx(8 * 8192 / 4.0e6)


def test_tables_under_one_heading_are_told_apart_by_what_comes_back(tmp_path: Path) -> None:
    found = cases_of(tmp_path, lines.INFERRED)
    assert [case.dtype for case in found] == ["fp32", "fp32", "fp16", "fp16"]
    assert [case.row for case in found] == [0, 1, 2, 3]


def test_a_mean_above_its_95th_percentile_gives_way_to_the_throughput(tmp_path: Path) -> None:
    found = cases_of(tmp_path, lines.INFERRED)
    assert found[1].measured_seconds == pytest.approx(2.048e-3)
    assert found[3].measured_seconds == pytest.approx(4096 / 4e6)


def test_a_throughput_that_counts_other_things_than_the_batch_does_not_stand_for_a_latency() -> None:
    rounded = Measured("fp16", per_second=192_086, latency=0.80, digits=2)
    assert rounded.seconds(1.0) == pytest.approx(0.80)
    assert rounded.seconds(602 * 256) == pytest.approx(602 * 256 / 192_086)
    outlying = Measured("fp16", per_second=1000, latency=0.012, bound=0.010, digits=3)
    assert outlying.seconds(10.0) == pytest.approx(0.010)
    assert outlying.seconds(1.0) == pytest.approx(0.012)


def test_a_batch_that_the_table_leaves_out_is_the_scripts(tmp_path: Path) -> None:
    full, mixed = cases_of(tmp_path, lines.CONVNETS)
    assert (full.micro_batch, mixed.micro_batch) == (64, 128)
    assert (full.channels_last, mixed.channels_last) == (False, True)
    assert mixed.measured_seconds == pytest.approx(128 / 587)


def test_a_section_may_name_the_precision(tmp_path: Path) -> None:
    (image,) = cases_of(tmp_path, lines.IMAGES)
    assert (image.dtype, image.catalog_device, image.mode) == ("amp_fp16", "t4", "inference")
    assert image.measured_seconds == pytest.approx(23.14e-3)


def test_a_table_whose_headings_were_joined_is_read_by_its_rows(tmp_path: Path) -> None:
    head, *found = cases_of(tmp_path, lines.JASPER)
    assert head.skipped == "incomplete: throughput"
    full, mixed = found[0], found[1]
    assert (full.dtype, full.micro_batch, dict(full.options)) == ("fp32", 1, {"seconds": 2.0})
    assert (mixed.dtype, mixed.measured_seconds) == ("fp16", pytest.approx(25e-3))
    assert (found[-1].micro_batch, dict(found[-1].options)) == (16, {"seconds": 16.7})


def test_a_step_holds_all_its_micro_batches(tmp_path: Path) -> None:
    full, mixed = cases_of(tmp_path, lines.BERT)
    assert (full.program, full.micro_batch, full.accumulation) == ("bert-pretrain", 32, 128)
    assert (mixed.micro_batch, mixed.accumulation) == (64, 64)
    assert mixed.measured_seconds == pytest.approx(8 * 4096 / 1746)


def test_throughput_counts_what_the_setup_says(tmp_path: Path) -> None:
    mixed, full = cases_of(tmp_path, lines.WAVEGLOW)
    assert (mixed.micro_batch, full.micro_batch) == (10, 4)
    assert mixed.measured_seconds == pytest.approx(10 * 8000 / 149_479)
    assert full.dtype == "tf32"


def test_rows_that_measure_no_step_say_what_they_lack(tmp_path: Path) -> None:
    assert [case.skipped for case in cases_of(tmp_path, lines.ACCURACY)] == ["incomplete: throughput"]
    assert [case.skipped for case in cases_of(tmp_path, lines.NO_PRECISION)] == ["incomplete: precision"]
    assert [case.skipped for case in cases_of(tmp_path, lines.UNKNOWN)] == ["unsupported operation"]


def test_every_line_gives_a_case(tmp_path: Path) -> None:
    found = cases_of(tmp_path, lines.EVERY)
    assert {case.line.row for case in found} == set(range(len(lines.EVERY)))
    assert len({case.row for case in found}) == len(found)
    assert all(case.skipped is None or is_skip_reason(case.skipped) for case in found)
    assert all(case.measured_seconds for case in found if case.skipped is None)


def test_a_line_that_is_no_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1"):
        read_lines(write_lines(tmp_path / "nvidia_examples.jsonl", [{"section": "x"}]))


def test_setups_name_programs_and_catalog_entries_that_exist() -> None:
    for setup in load_setups().values():
        if "{" not in setup.program and setup.program != "moflow":
            assert setup.program in PROGRAMS
        for mode in (setup.train, setup.inference):
            assert set(mode.batch) <= set(PROGRAMS)
    for name in ("a100-sxm-40gb", "a100-sxm-80gb", "v100-sxm-16gb", "v100-sxm-32gb", "t4", "h100-sxm"):
        load_device(name)
    for name in ("dgx-1-v100", "dgx-2", "dgx-a100", "dgx-h100"):
        load_cluster_entry(name)
