"""Traps of recorded traces that no other test names: what must not be taken for what it looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.traces.critical_path.path import BoundBy
from perfcast.traces.explain.recordings import explain
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.what_if import parse_what_if
from perfcast.traces.timeline.program import Overhead
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MICRO
from recorded_traces import Recording, two_kernels


def on_a_processor() -> Recording:
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("aten::linear", 10, 50)
    recording.operator("aten::addmm", 20, 30)
    recording.operator("aten::relu", 70, 20)
    return recording


def test_a_trace_without_a_device_has_a_critical_path_all_of_its_host(tmp_path: Path):
    (rank,) = explain([on_a_processor().read(tmp_path)]).ranks
    path = rank.critical_path.seconds_by_bound
    assert set(path) == {BoundBy.HOST.value}
    assert path[BoundBy.HOST.value] == pytest.approx(70 * MICRO)  # gaps between operators weigh nothing


def test_without_synchronisation_events_the_path_says_that_it_is_inferred(tmp_path: Path):
    explained = explain([two_kernels().read(tmp_path)])
    assert explained.ranks[0].critical_path.seconds_by_bound[BoundBy.COMPUTE.value] > 0
    assert any("inferred from the clock" in note for note in explained.notes)


def test_what_a_blocking_copy_waits_is_no_overhead_of_the_host(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 200)
    recording.operator("aten::mm", 0, 20)
    recording.call("cudaLaunchKernel", 5, 5, 1)
    recording.kernel("gemm", 12, 100, 1)
    recording.operator("aten::copy_", 30, 100)
    recording.call("cudaMemcpyAsync", 35, 90, 2)
    recording.copy("Memcpy DtoH (Device -> Pageable)", 112, 10, 2)
    (program,) = build_ranks([recording.read(tmp_path)])
    calls = sum(piece.seconds for piece in program.pieces if piece.overhead is Overhead.CALL)
    # 5 µs of the launch; of the copy's 90 µs what follows the end of the copy at 122, and its start.
    assert calls < 15 * MICRO
    # A kernel twice as fast lets the host go on 50 µs earlier.
    found = forecast_from_traces(
        [recording.read(tmp_path)], TraceForecastRequest(changes=parse_what_if(["speed:gemm=2"]))
    )
    assert found.step_seconds == pytest.approx((200 - 50) * MICRO)


def test_gradient_labels_without_output_shapes_do_not_hinder_prices(tmp_path: Path):
    recording = two_kernels()
    recording.operator("autograd::engine::evaluate_function: MmBackward0", 92, 6)
    found = forecast_from_traces([recording.read(tmp_path)], TraceForecastRequest())
    assert found.step_seconds == pytest.approx(100 * MICRO)
