from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.cost.learned.corrections.covariance import load_covariance
from perfcast.cost.learned.corrections.load import estimate_measured, load_corrected
from perfcast.cost.learned.corrections.measured import MeasuredKernels, corrections_path, load_measured
from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import CalibrationError
from perfcast.measure.few.answer import MeasureRequest, answer_measurement
from perfcast.measure.few.bench import open_bench
from perfcast.measure.few.cases import FewCase, few_cases
from perfcast.measure.few.compare import compare_kernels, mean_error
from perfcast.measure.few.design import FEW, choose_cases, load_order, order_by_gain
from perfcast.measure.few.run import Run, measure_kernels
from stand_in_bench import StandInBench, forecast

DEVICE = load_device("rtx-4090")
OLD = load_device("rtx-2080-ti")
EIGHT = choose_cases(DEVICE, 8)


def measured(bench: StandInBench, folder: Path, cases: list[FewCase] = EIGHT) -> Run:
    return measure_kernels(DEVICE, bench, cases, folder)


# ---- the run -----------------------------------------------------------------------------------------


def test_what_is_measured_slower_is_then_forecast_slower_and_says_why(tmp_path: Path):
    measured(StandInBench(DEVICE, lambda case: 1.5), tmp_path)
    moved, plain = load_corrected(DEVICE, folder=tmp_path), LearnedCost()
    asked = [case.operation() for case in EIGHT]
    was, now = (model.estimate(asked, DEVICE).seconds for model in (plain, moved))
    assert (now >= was * 0.999).all()
    assert np.mean(np.log(now / was)) > 0.5 * np.log(1.5)
    assert moved.measurements.startswith("8 kernels measured on rtx-4090 on 20")


def test_what_is_measured_as_forecast_moves_nothing(tmp_path: Path):
    measured(StandInBench(DEVICE), tmp_path)
    asked = [case.operation() for case in few_cases().values()][::9]
    was, now = (m.estimate(asked, DEVICE) for m in (LearnedCost(), load_corrected(DEVICE, folder=tmp_path)))
    assert now.seconds == pytest.approx(was.seconds, rel=1e-6)
    assert (now.seconds_high <= was.seconds_high * 1.000001).all()


def test_an_interrupted_run_keeps_finished_kernels_and_goes_on(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        measured(StandInBench(DEVICE, interrupt_after=1), tmp_path)
    kept = [k.name for k in load_measured(corrections_path(DEVICE.name, tmp_path)).kernels]
    assert kept == [case.name for case in EIGHT[:4]]
    again = StandInBench(DEVICE)
    run = measured(again, tmp_path)
    assert again.timed == [case.name for case in EIGHT[4:]]
    assert len(run.measured.kernels) == 8


def test_times_of_another_pytorch_no_longer_count(tmp_path: Path):
    measured(StandInBench(DEVICE), tmp_path)
    run = measured(StandInBench(DEVICE, setup="torch 3, CUDA 14"), tmp_path, EIGHT[:2])
    assert (run.forgotten, len(run.measured.kernels)) == (8, 2)


def test_a_kernel_faster_than_the_device_can_be_is_left_out_with_the_reason(tmp_path: Path):
    run = measured(StandInBench(DEVICE, lambda case: 1e-6), tmp_path)
    assert not run.measured.kernels
    assert all("an error of the measurement" in each.reason for each in run.left_out)


def test_a_kernel_that_pytorch_lacks_is_named(tmp_path: Path):
    run = measured(StandInBench(DEVICE, fails=(EIGHT[0].name,)), tmp_path)
    assert [(each.name, each.reason) for each in run.left_out] == [(EIGHT[0].name, "no such kernel")]
    assert len(run.measured.kernels) == 7


def test_falling_clocks_are_noticed(tmp_path: Path):
    assert measured(StandInBench(DEVICE, loads=[1e-3, 1e-3, 1.2e-3]), tmp_path).is_throttled
    assert not measure_kernels(DEVICE, StandInBench(DEVICE), EIGHT, tmp_path, restart=True).is_throttled


def test_no_group_starts_once_time_is_up(tmp_path: Path):
    run = measure_kernels(DEVICE, StandInBench(DEVICE), EIGHT, tmp_path, most_seconds=-1.0)
    assert [each.reason for each in run.left_out] == ["no time left"] * 8


def test_each_kernel_is_compared_with_what_the_others_say_of_it(tmp_path: Path):
    run = measured(StandInBench(DEVICE, lambda case: 1.5), tmp_path)
    compared = compare_kernels(run.measured, DEVICE)
    assert mean_error(compared, after=False) == pytest.approx(1 / 3)
    assert mean_error(compared, after=True) < mean_error(compared, after=False)


# ---- the answer --------------------------------------------------------------------------------------


def test_a_gpu_that_the_catalog_does_not_know_says_how_to_describe_it(tmp_path: Path):
    bench = StandInBench(DEVICE, processor="NVIDIA RTX 12345")
    with pytest.raises(CalibrationError, match=r"'NVIDIA RTX 12345'.*examples/my_gpu.toml"):
        answer_measurement(MeasureRequest(folder=tmp_path), bench_of=lambda name: bench)


def test_a_gpu_that_is_known_is_not_measured_as_another(tmp_path: Path):
    with pytest.raises(CalibrationError, match="which is rtx-4090, not t4"):
        answer_measurement(
            MeasureRequest(device="t4", folder=tmp_path), bench_of=lambda name: StandInBench(DEVICE)
        )


def test_a_file_of_another_machine_is_taken_over(tmp_path: Path):
    run = measured(StandInBench(DEVICE, lambda case: 1.5), tmp_path / "there")
    source = corrections_path(DEVICE.name, tmp_path / "there")
    answer = answer_measurement(MeasureRequest(source=source, folder=tmp_path / "here"))
    assert answer.run.measured == run.measured
    assert load_corrected(DEVICE, folder=tmp_path / "here").measurements
    with pytest.raises(CalibrationError, match="holds kernels of rtx-4090, not of t4"):
        answer_measurement(MeasureRequest(device="t4", source=source, folder=tmp_path / "here"))


def test_a_file_with_an_impossible_time_is_refused(tmp_path: Path):
    run = measured(StandInBench(DEVICE), tmp_path)
    first = run.measured.kernels[0]
    wrong = run.measured.with_kernel(replace(first, seconds=1e-12), "2026-11-23")
    source = tmp_path / "wrong.json"
    source.write_text(json.dumps(wrong.to_json()), encoding="utf-8")
    with pytest.raises(CalibrationError, match="takes at its peak"):
        answer_measurement(MeasureRequest(source=source, folder=tmp_path))


def test_without_a_gpu_it_says_how_to_measure_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(CalibrationError, match="--from FILE"):
        open_bench("cuda")
    with pytest.raises(CalibrationError, match="it is 'cuda' or 'cuda:N'"):
        open_bench("rocm")


# ---- the design --------------------------------------------------------------------------------------


def test_forty_are_designed_for_new_devices_and_for_old_ones_without_bf16():
    new, old = choose_cases(DEVICE), choose_cases(OLD)
    assert len(new) == len(old) == FEW
    assert {case.arithmetic for case in new} >= {DType.BF16, DType.FP8, DType.FP32}
    assert not {case.arithmetic for case in old} & {DType.BF16, DType.FP8, DType.TF32}


def test_the_designed_order_names_cases_once():
    names = load_order()
    assert len(set(names)) == len(names)
    assert set(names) <= few_cases().keys()


def test_each_case_is_one_kernel_that_the_forecaster_prices():
    cases = list(few_cases().values())[::7]
    assert (forecast(cases, DEVICE) > 0).all()


def test_the_first_chosen_tells_most_and_the_second_is_no_twin_of_it():
    some = [case for case in few_cases().values() if case.runs_on(DEVICE)][::6]
    kernels = tuple(case.kernel(1.0, DEVICE.vendor) for case in some)
    _, traits = estimate_measured(MeasuredKernels(DEVICE.name, kernels), DEVICE)
    covariance, weights = load_covariance(), np.ones(len(some))
    order = order_by_gain(traits, traits, weights, covariance, 5)
    told = (covariance.between(traits, traits) ** 2).sum(axis=1)
    gains = told / (covariance.shared(traits) + covariance.alone(traits))
    assert order[0] == int(np.argmax(gains))
    assert len(set(order)) == 5
