"""What a forecaster is asked about, it has not learned from."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_tables import gemm_table, study_folder

from made_up_kernels import training_rows
from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.predictor import FittedFamily
from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.train.learned import train as learned
from perfcast.evidence.train.learned.prepared import TrainingRows
from perfcast.evidence.validate.kernels import leave_out
from perfcast.evidence.validate.kernels.leave_out import LeaveOut, without_dies
from perfcast.evidence.validate.kernels.suite import validate_kernels
from perfcast.evidence.validate.steps.suite import validate_neusight


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, device in enumerate(("a100_sxm", "h100_sxm", "h200_sxm", "l40s", "b200_sxm")):
        gemm_table(seed=number).write_csv(tmp_path / f"gemm_{device}.csv")
    return tmp_path


@pytest.fixture
def trained_on(monkeypatch: pytest.MonkeyPatch) -> list[TrainingRows]:
    """Every set of rows that is handed to training."""
    seen: list[TrainingRows] = []

    def train(model: str, rows: TrainingRows, *rest: object) -> tuple[FittedFamily, learned.ModelRecord]:
        seen.append(rows)
        return learned.train_model(model, rows, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(leave_out, "train_model", train)
    return seen


def test_rows_of_a_die_leave_and_the_others_keep_their_devices() -> None:
    rows = training_rows("product_narrow", devices=("t4", "h100-sxm", "a100-pcie-40gb"), count=5)
    kept = without_dies(rows, frozenset({load_device("h200-sxm").die}))
    assert [device.name for device in kept.devices] == ["t4", "a100-pcie-40gb"]
    assert kept.device_index.tolist() == [0] * 5 + [1] * 5
    assert kept.seconds.tolist() == [*rows.seconds[:5], *rows.seconds[10:]]
    assert kept.kernels.size("m").tolist() == [*rows.kernels.size("m")[:5], *rows.kernels.size("m")[10:]]


def test_siblings_on_the_die_leave_too_and_only_they_are_scored(
    folder: Path, trained_on: list[TrainingRows]
) -> None:
    out = LeaveOut(("h100-sxm",), (folder,))
    result = validate_kernels([folder], ["learned"], leave_out=out)
    assert {row.catalog_device for row in result.rows()} == {"h100-sxm", "h200-sxm"}
    assert {row.skipped for row in result.rows()} == {None}
    dies = {device.die for rows in trained_on for device in rows.devices}
    assert load_device("h100-sxm").die not in dies
    assert len(dies) == 3
    assert "h200-sxm" in result.protocol["left_out"]


def test_each_die_is_left_out_in_turn(folder: Path, trained_on: list[TrainingRows]) -> None:
    result = validate_kernels([folder], ["learned"], leave_out=LeaveOut(("each",), (folder,)))
    assert len(trained_on) == 4
    assert {len(rows.devices) for rows in trained_on} == {3, 4}
    assert len({row.catalog_device for row in result.rows()}) == 5
    assert {row.provenance for row in result.rows()} == {"extrapolated"}
    assert len(result.protocol["fitted_on"]) == 4


def test_an_instruction_family_takes_every_generation_of_it_and_a_vendor_everything() -> None:
    family, vendor = (LeaveOut(("rtx-pro-6000-server",), (), by) for by in ("family", "vendor"))
    assert family.keeps("l40s")
    assert family.keeps("a100-sxm-80gb")
    assert not family.keeps("b200")
    assert vendor.keeps("b200")
    assert not vendor.keeps("mi300x")


def test_an_architecture_takes_all_its_dies() -> None:
    by_die, by_architecture = (LeaveOut(("l4",), (), by) for by in ("die", "architecture"))
    assert by_die.groups(()) == {load_device("l4").die: {load_device("l4").die}}
    (dies,) = by_architecture.groups(()).values()
    assert {load_device("l4").die, load_device("l40s").die} <= dies
    assert by_architecture.keeps("l40s")
    assert not by_die.keeps("l40s")
    assert not by_architecture.keeps("")


def test_a_device_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="device"):
        LeaveOut(("abacus",), ()).groups(())


def test_a_folder_without_the_device_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="no row of t4"):
        validate_kernels([folder], ["learned"], leave_out=LeaveOut(("t4",), (folder,)))


def test_steps_are_priced_without_the_die_too(tmp_path: Path, trained_on: list[TrainingRows]) -> None:
    folder = study_folder(tmp_path / "study", ("Tesla T4", "NVIDIA L4", "Tesla V100-PCIE-32GB"))
    result = validate_neusight([folder], ["learned"], leave_out=LeaveOut(("l4",), (folder,)))
    assert {row.device for row in result.rows()} == {"NVIDIA_L4"}
    assert len(trained_on) == 2
    assert all(device.name != "l4" for rows in trained_on for device in rows.devices)
    steps = [row for row in result.rows() if row.operation == "step" and row.predictor == "learned"]
    assert steps[0].skipped is None
    assert steps[0].provenance == "extrapolated"
