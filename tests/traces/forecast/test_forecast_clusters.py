"""Recorded collectives on another cluster; those of unknown size do not stop the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.errors import PlanError
from perfcast.traces.events import Trace
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.units import MICRO
from recorded_traces import Recording


def rank_of_two(rank: int, folder: Path, *, sent: bool, received: bool) -> Trace:
    """A step with an all-reduce of 100 µs and a message from rank 0 to rank 1 of 40 µs, 4 MB each."""
    recording = Recording(rank, 2)
    recording.step(1, 0, 400)
    recording.operator("aten::mm", 10, 20)
    shape = {"Input_Dims": [[1_000_000]], "Input_type": ["float"]}
    word, is_told = ("nccl:recv", received) if rank else ("nccl:send", sent)
    for number, (name, told, kernel) in enumerate(
        [("nccl:all_reduce", True, "ncclKernel_AllReduce"), (word, is_told, "ncclKernel_SendRecv")]
    ):
        start = 50 + 20 * number
        recording.mark(name, start, 15, **(shape if told else {}))
        recording.call("cudaLaunchKernel", start + 5, 5, number + 1)
        recording.kernel(kernel, 100 + 100 * number, 100 - 60 * number, number + 1, 20)
    recording.call("cudaDeviceSynchronize", 100, 150, 3)
    return recording.read(folder)


def on_h100s(folder: Path, *, sent: bool, received: bool) -> TraceForecast:
    ranks = [rank_of_two(rank, folder, sent=sent, received=received) for rank in (0, 1)]
    return forecast_from_traces(
        ranks, TraceForecastRequest(cluster=load_cluster_entry("dgx-h100").of_size(2))
    )


def test_a_size_that_one_end_recorded_is_that_of_both(tmp_path: Path) -> None:
    whole = on_h100s(tmp_path, sent=True, received=True)
    half = on_h100s(tmp_path, sent=True, received=False)
    assert half.step_seconds == whole.step_seconds
    assert not any("size" in note for note in half.assumptions)


def test_a_message_of_unknown_size_is_named_and_widens_the_rest(tmp_path: Path) -> None:
    known = on_h100s(tmp_path, sent=True, received=True)
    found = on_h100s(tmp_path, sent=False, received=False)
    (note,) = (note for note in found.assumptions if "was not recorded" in note)
    assert note.startswith("the size of 1 send, 1 receive was not recorded (40.0 µs of the recording)")
    assert found.step_seconds_high - found.step_seconds > 40 * MICRO
    wider = found.step_seconds_high - found.step_seconds_low
    assert wider > known.step_seconds_high - known.step_seconds_low


def test_a_group_that_does_not_fit_the_cluster_is_still_refused(tmp_path: Path) -> None:
    ranks = [rank_of_two(rank, tmp_path, sent=True, received=True) for rank in (0, 1)]
    with pytest.raises(PlanError):
        forecast_from_traces(ranks, TraceForecastRequest(cluster=load_cluster_entry("dgx-h100").of_size(1)))
