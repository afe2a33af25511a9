"""Calibration: resumable, robust, and true to the rules by which a forecast counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from perfcast.cost.families import family_of, features_of
from perfcast.errors import CalibrationError
from perfcast.files.lock import StoreWarning
from perfcast.files.records import open_records
from perfcast.measure import calibrate as calibration
from perfcast.measure import store
from perfcast.measure.calibrate import calibrate, measurements_of
from perfcast.measure.grid.accelerated import accelerator_cases
from perfcast.measure.grid.cases import design
from perfcast.measure.kernels import KernelCase, operation_of_case
from perfcast.measure.timer import Samples


def small_grid() -> list[KernelCase]:
    """Products and additions small enough to prepare at once."""
    cases = [c for c in design("cpu") if c.key.startswith(("mm_nn ", "add "))]
    return [c for c in cases if operation_of_case(c).memory_traffic_bytes < 300_000]


class FakeTimer:
    """Times in order: 10 µs, 11 µs …; can be interrupted at the n-th call."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.timed, self.calls, self.interrupt_at = 0, 0, interrupt_at

    def __call__(self, calls: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
        self.calls += 1
        if self.calls == self.interrupt_at:
            raise KeyboardInterrupt
        seconds = [1e-5 + 1e-6 * (self.timed + i) for i in range(len(calls))]
        self.timed += len(calls)
        return seconds


def keys_of(folder: Path) -> list[str]:
    lines = store.measurements_path("cpu", folder).read_text().splitlines()
    return [json.loads(line)["key"] for line in lines[1:]]


def test_an_interrupted_calibration_continues_and_repeats_nothing(tmp_path: Path) -> None:
    cases = sorted(small_grid(), key=lambda c: operation_of_case(c).memory_traffic_bytes)
    with pytest.raises(KeyboardInterrupt):
        calibrate("cpu", tmp_path, timer=FakeTimer(interrupt_at=2), cases=cases)
    first = keys_of(tmp_path)
    assert 0 < len(first) < len(cases)
    assert not store.profile_path("cpu", tmp_path).exists()
    calibrate("cpu", tmp_path, timer=FakeTimer(), cases=cases)
    finished = keys_of(tmp_path)
    assert finished[: len(first)] == first
    assert finished[: len(cases)] == list(dict.fromkeys(finished[: len(cases)]))
    assert {c.key for c in cases} == set(finished)


def test_a_finished_calibration_measures_nothing_again(tmp_path: Path) -> None:
    cases = sorted(small_grid(), key=lambda c: operation_of_case(c).memory_traffic_bytes)
    calibrate("cpu", tmp_path, timer=lambda calls, rounds: [1e-5] * len(calls), cases=cases)
    again = FakeTimer()
    calibrate("cpu", tmp_path, timer=again, cases=cases)
    assert again.timed == 0


def test_lines_cut_off_by_interruptions_are_measured_again_and_what_they_swallowed_is_not(
    tmp_path: Path,
) -> None:
    cases = sorted(small_grid(), key=lambda c: operation_of_case(c).memory_traffic_bytes)
    calibrate("cpu", tmp_path, timer=FakeTimer(), cases=cases)
    path = store.measurements_path("cpu", tmp_path)
    records = [json.loads(line) for line in path.read_text().splitlines()[1 : len(cases) + 1]]
    lines = [json.dumps({k: v for k, v in record.items() if k != "crc"}) for record in records]
    torn = [lines[3][:40] + lines[4], lines[9][:70] + lines[10]]  # as older versions left them
    path.write_text("\n".join([*lines[:3], torn[0], *lines[5:9], torn[1], *lines[11:]]) + "\n")
    again = FakeTimer()
    with pytest.warns(StoreWarning, match="lines 4, 9 are damaged"):
        calibrate("cpu", tmp_path, timer=again, cases=cases)
    finished = keys_of(tmp_path)
    assert finished[len(cases) - 2 : len(cases)] == [cases[3].key, cases[9].key]
    assert len(set(finished)) == len(cases)


def test_restarting_keeps_what_was_measured_beside(tmp_path: Path) -> None:
    for restart in (False, True):
        calibrate("cpu", tmp_path, timer=FakeTimer(), cases=small_grid(), restart=restart)
    old, new = tmp_path / "measurements_cpu.jsonl.old", store.measurements_path("cpu", tmp_path)
    assert old.read_bytes() == new.read_bytes()


def test_a_family_whose_times_fall_is_refused_alone_and_measured_again_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = small_grid()
    is_falling, timed = True, list[str]()

    def prepared(case: KernelCase, device: str) -> Callable[[], str]:
        return lambda: case.key

    def timer(calls: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
        keys = [call() for call in calls]
        timed.extend(keys)
        work = [operation_of_case(by_key[key]).memory_traffic_bytes for key in keys]
        return [
            1e-2 / w if is_falling and key.startswith("add ") else 1e-6 + w / 1e10
            for key, w in zip(keys, work, strict=True)
        ]

    by_key = {case.key: case for case in cases}
    additions = {key for key in by_key if key.startswith("add ")}
    monkeypatch.setattr("perfcast.measure.calibrate.prepare", prepared)
    profile = calibrate("cpu", tmp_path, timer=timer, cases=cases)
    assert {line.family for line in profile.lines} == {"matmul_nn"}
    assert [(each.family, each.dtype) for each in profile.refused] == [("elementwise", "fp32")]
    assert profile.refused[0].reason.startswith("time falls with work")
    assert {key for key in timed if timed.count(key) > 1} == additions  # once more, at once
    assert store.load_local_profile("cpu", tmp_path) == profile

    is_falling, timed = False, []
    mended = calibrate("cpu", tmp_path, timer=timer, cases=cases)
    assert set(timed) == additions
    assert len(timed) == len(additions)
    assert {line.family for line in mended.lines} == {"matmul_nn", "elementwise"}
    assert mended.refused == ()


def test_the_profile_is_what_the_measurements_say(tmp_path: Path) -> None:
    cases = small_grid()
    written = calibrate("cpu", tmp_path, timer=lambda calls, rounds: [2e-5] * len(calls), cases=cases)
    assert store.load_local_profile("cpu", tmp_path) == written
    assert {line.family for line in written.lines} == {"matmul_nn", "elementwise"}
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="'cpu' or 'cuda'"):
        calibrate("tpu", tmp_path)


def test_another_pytorch_does_not_count_as_measured(tmp_path: Path) -> None:
    cases = small_grid()[:24]
    with open_records(store.measurements_path("cpu", tmp_path), store.calibration_kind("cpu")) as file:
        file.append({"key": cases[0].key, "seconds": 1.0, "setup": "torch 1.0"})
    calibrate("cpu", tmp_path, timer=lambda calls, rounds: [1e-5] * len(calls), cases=small_grid())
    assert keys_of(tmp_path).count(cases[0].key) == 2


def test_every_case_of_the_grid_is_one_operation_and_has_its_own_name() -> None:
    cases = design("cpu")
    assert len({case.key for case in cases}) == len(cases)
    one_of_each = {case.key.partition(" ")[0]: case for case in cases}
    families = {family_of(operation_of_case(case)) for case in one_of_each.values()}
    assert {
        "matmul_nt",
        "matmul_tn",
        "grouped_convolution_backward",
        "recurrent",
        "embedding_bag_backward",
    } <= families


def test_a_quick_grid_is_a_third() -> None:
    assert 3 < 10 * len(design("cpu", quick=True)) / len(design("cpu")) < 5


def test_samples_that_were_stretched_are_set_aside() -> None:
    samples = Samples()
    for seconds in (1.0, 1.2, 9.0, 1.1, 30.0):
        samples.add(seconds)
    assert samples.median == pytest.approx(1.1)
    assert samples.num_disturbed == 2


def test_records_of_whole_programs_are_no_kernels() -> None:
    assert measurements_of([{"key": "host plain forward", "seconds": 1.0}]) == []


def test_accelerators_measure_attention_and_what_outgrows_their_caches():
    cases = [case for case in accelerator_cases() if " length=2048 " not in case.key]
    families = {features_of(operation_of_case(case)).family for case in cases}
    attention = {"attention", "attention_causal", "attention_backward", "attention_backward_causal"}
    assert families == {*attention, "elementwise", "copy", "matmul_nn"}
    assert {case.key for case in cases} <= {case.key for case in design("cuda")}
    assert not {case.key for case in cases} & {case.key for case in design("cpu")}
    named = next(case for case in cases if case.key.startswith("sdpa_backward"))
    assert [tuple(g.shape) for g in named.run(*named.make("cpu"))] == [(2, 4, 64, 32)] * 3


def test_a_kernel_that_a_gpu_lacks_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def lack(*_: object) -> None:
        raise RuntimeError("no kernel image is available\nfor execution")

    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr(calibration, "_still_works", lambda: True)
    good, lacking = (
        KernelCase("a n=1", lambda _: (torch.ones(1),), torch.exp),
        KernelCase("b n=1", lambda _: (), lack),
    )
    cases, calls = calibration._runnable([lacking, good], "cuda")
    assert (cases, len(calls)) == ([good], 1)
    assert "warning: b n=1 is left out, as it cannot be run here: no kernel image" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="no kernel image"):
        calibration._runnable([lacking], "cpu")
