"""CUDA graphs in recorded programs, by hand. Times are microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.errors import PlanError
from perfcast.traces.events import Trace
from perfcast.traces.forecast.cuda_graphs import count_graphs, launch_seconds, with_graphs
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.what_if import parse_what_if
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MICRO
from recorded_traces import Recording, two_kernels


def graphed(trace: Trace) -> TraceForecast:
    return forecast_from_traces([trace], TraceForecastRequest(changes=parse_what_if(["graphs"])))


def test_a_graph_pays_one_launch_and_the_way_to_the_device_once(tmp_path: Path):
    found = graphed(two_kernels().read(tmp_path))
    # 2 kernels on one stream; a recorded launch takes 5 µs, its kernel follows 2 µs later; of the wait 3 µs.
    assert found.step_seconds == pytest.approx((2.5 + 0.002 + 2 + 40 + 3) * MICRO)
    assert any("CUDA graphs: 1 a step" in note for note in found.assumptions)


def test_a_launch_costs_more_where_kernels_stand_on_several_streams():
    assert launch_seconds(1000, 1) == pytest.approx(3.5 * MICRO)
    assert launch_seconds(1000, 2) == pytest.approx(202 * MICRO)


def waits_twice() -> Recording:
    """Two steps; in each a kernel, a wait for it, another kernel, and a wait at the end."""
    recording = Recording()
    for step in (0, 1):
        at, number = 200 * step, 10 * step
        recording.step(step, at, 200)
        recording.operator("aten::mm", at + 10, 20)
        recording.call("cudaLaunchKernel", at + 15, 5, number + 1)
        recording.kernel("gemm", at + 22, 20, number + 1)
        recording.operator("aten::item", at + 40, 10)
        recording.call("cudaStreamSynchronize", at + 41, 5, number + 2)
        recording.operator("aten::mm", at + 100, 20)
        recording.call("cudaLaunchKernel", at + 105, 5, number + 3)
        recording.kernel("gemm", at + 112, 20, number + 3)
        recording.call("cudaDeviceSynchronize", at + 130, 5, number + 4)
    return recording


def test_a_wait_of_the_host_ends_a_graph_and_so_does_a_step(tmp_path: Path):
    program = build_ranks([waits_twice().read(tmp_path)])[0]
    assert count_graphs(program) == 4
    captured = with_graphs(program)
    paid = [piece.seconds for piece in captured.pieces if piece.launches]
    assert paid == pytest.approx([launch_seconds(1, 1)] * 4)
    assert [len(piece.awaits) for piece in captured.pieces if piece.awaits] == [1, 1, 1, 1]


def test_data_loading_is_not_captured(tmp_path: Path):
    recording = two_kernels()
    recording.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 8)
    plain = graphed(two_kernels().read(tmp_path)).step_seconds
    assert graphed(recording.read(tmp_path)).step_seconds == pytest.approx(plain + 8 * MICRO)


def test_a_full_queue_ends_no_graph(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 40_000)
    recording.operator("aten::mm", 0, 30_000)
    for number in range(1100):
        recording.call("cudaLaunchKernel", 1 + 3 * number, 2, number + 1)
        recording.kernel("gemm", 10 + 30 * number, 30, number + 1)
    recording.call("cudaDeviceSynchronize", 30_001, 3_100, 2000)
    program = build_ranks([recording.read(tmp_path)])[0]
    assert any(piece.launches and piece.key == ("cudaLaunchKernel",) for piece in program.pieces)
    assert count_graphs(program) == 1


def test_a_recording_without_a_device_has_no_graphs(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("aten::linear", 10, 50)
    with pytest.raises(PlanError, match="launches nothing to a device"):
        graphed(recording.read(tmp_path))
