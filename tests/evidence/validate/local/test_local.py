"""``validate local`` without a clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from perfcast.cost.linear import fit_lines
from perfcast.cost.profile import DeviceProfile
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.local.models import LOCAL_MODELS, LocalModel
from perfcast.evidence.validate.local.suite import MODES, validate_local, write_spread
from perfcast.evidence.validate.result import SuiteResult
from perfcast.measure.steps import StepTime, measure_step, step_of
from perfcast.workload.step import Program

TINY = LocalModel(
    "tiny", "one layer", 4, None, lambda mode: Program(nn.Linear(8, 8), (torch.ones(4, 8),), batch_size=4)
)


def profile() -> DeviceProfile:
    from perfcast.core.dtype import DType
    from perfcast.cost.families import Features
    from perfcast.cost.linear import Measurement

    measurements = [
        Measurement(f"add {b}", Features("elementwise", DType.FP32, b // 12, b), 3e-6 + b / 2e10)
        for b in (100, 1000, 10_000, 100_000, 1_000_000)
    ]
    return DeviceProfile(
        device="cpu", processor="Made Up", num_threads=2, num_cores=2, memory_bytes=2**34, cache_bytes=2**25,
        peak_flops_per_second={"fp32": 2e11}, memory_bytes_per_second=1e11, dram_bytes_per_second=2e10,
        launch_seconds=2e-6, host_seconds=3e-6, optimizer_host_seconds=0.0, torch_version="2.13.0",
        measured_at="2026-01-01T00:00:00+00:00", lines=fit_lines(measurements).lines,
    )  # fmt: skip


def run(seconds: float) -> SuiteResult:
    def measure(program: Program, mode: str) -> StepTime:
        return StepTime(seconds, seconds, seconds, 1)

    return validate_local(models=[TINY], profile=profile(), measure=measure)


def test_every_model_and_mode_has_a_row_per_predictor() -> None:
    rows = run(1e-3).rows
    assert [(r.row, r.predictor) for r in rows] == [
        (f"tiny {mode}", predictor) for mode in MODES for predictor in ("linear", "roofline")
    ]
    for r in rows:
        assert r.predicted_seconds_low is not None
        assert r.predicted_seconds_high is not None
        assert 0 < r.predicted_seconds_low < r.predicted_seconds_high


def test_forecasts_do_not_look_at_what_was_measured() -> None:
    fast, slow = run(1e-6).rows, run(1.0).rows
    for a, b in zip(fast, slow, strict=True):
        assert a.predicted_seconds == b.predicted_seconds
        assert a.predicted_seconds_high == b.predicted_seconds_high
        assert a.relative_error != b.relative_error


def test_the_spread_is_the_largest_measured_over_predicted(tmp_path: Path) -> None:
    result = run(1e-2)
    write_spread(tmp_path / "spread.json", result, "a machine")
    data = json.loads((tmp_path / "spread.json").read_text())
    assert data["machine"] == "a machine"
    for predictor, factor in data["measured_over_predicted"].items():
        mine = [r for r in result.rows if r.predictor == predictor]
        largest = max((r.measured_seconds or 0.0) / (r.predicted_seconds or 1.0) for r in mine)
        assert factor == pytest.approx(largest, rel=0.01)


def test_an_unknown_predictor_is_named() -> None:
    with pytest.raises(UnknownNameError, match="oracle"):
        validate_local(["oracle"], models=[TINY], profile=profile())


def test_the_suite_holds_eight_kinds_and_more() -> None:
    names = {model.name for model in LOCAL_MODELS}
    assert {"mlp", "cnn", "bert", "gpt2", "llama", "vit", "dlrm", "lstm", "t5"} <= names


def test_a_step_is_timed_by_the_median_of_its_quiet_repeats() -> None:
    ticks = iter([0.0, 1.0, 1.0, 2.2, 2.2, 42.0, 42.0, 43.1])
    timed = measure_step(
        lambda: None, least_seconds=10.0, least_repeats=4, most_repeats=4, clock=lambda: next(ticks)
    )
    assert timed.seconds == pytest.approx(1.1)
    assert (timed.repeats, timed.num_disturbed) == (3, 1)


def test_a_training_step_really_changes_the_parameters() -> None:
    program = TINY.build("train")
    before = program.module.weight.detach().clone()  # type: ignore[union-attr,operator]
    step_of(program, training=True)()
    assert not torch.equal(before, program.module.weight)  # type: ignore[arg-type]
