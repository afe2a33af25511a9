"""An explained recording as text, JSON, page and timeline; a forecast from one as text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.report.data.traces import explained as data
from perfcast.report.data.traces import forecast as forecast_data
from perfcast.report.documents.traces import explained as documents
from perfcast.report.documents.traces import forecast as forecasts
from perfcast.report.documents.traces.compared import changes_figure
from perfcast.report.figure import Bars, Curve
from perfcast.report.page import render_page
from perfcast.report.timelines import explained as timeline
from perfcast.traces.events import Trace
from perfcast.traces.explain.compare import Change, compare_explanations
from perfcast.traces.explain.recordings import Explanation, explain
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.what_if import parse_what_if
from recorded_traces import Recording, two_kernels
from rendered import events_of, json_of, text_of


def two_ranks(folder: Path) -> list[Trace]:
    traces = []
    for rank in (0, 1):
        recording = two_kernels(rank)
        recording.world_size = 2
        recording.operator("c10d::allreduce_", 91, 5)
        recording.call("cudaLaunchKernel", 92, 2, 9)
        recording.kernel("ncclDevKernel_AllReduce_Sum_f32", 95, 20 - 5 * rank, 9, stream=20)
        recording.operator("<script>alert(1)</script>::op", 97, 1)
        traces.append(recording.read(folder))
    return traces


@pytest.fixture(name="traces")
def recorded(tmp_path: Path) -> list[Trace]:
    return two_ranks(tmp_path)


@pytest.fixture(name="shown")
def explained(traces: list[Trace]) -> Explanation:
    return explain(traces)


def test_the_text_names_parts_kinds_path_and_ranks(shown: Explanation):
    text = text_of(documents.document_of(shown), 100)
    for word in (
        "computing",
        "waiting for the host",
        "matmul",
        "Critical path",
        "T1",
        "all reduce",
        "Came last",
    ):
        assert word in text


def test_the_text_fits_a_narrow_terminal(shown: Explanation):
    assert all(len(line) <= 60 for line in text_of(documents.document_of(shown), 60).splitlines())


def test_json_follows_the_schema(shown: Explanation):
    compared = compare_explanations(shown, shown)
    for comparison in (None, compared):
        written = json_of(data.data_of(shown, comparison))
        assert len(written["ranks"]) == 2
        assert (written["comparison"] is None) == (comparison is None)


def test_the_page_needs_nothing_else_and_escapes_names(shown: Explanation):
    page = render_page(documents.document_of(shown, compare_explanations(shown, shown)))
    assert "<script>alert(1)" not in page
    assert "default-src 'none'" in page
    assert "Critical path" in page


def test_the_timeline_marks_what_is_critical(shown: Explanation, traces: list[Trace]):
    events = events_of(timeline.events_of(shown, traces))
    assert json.dumps(events)
    on_path = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
    assert {e["pid"] for e in on_path} == {1, 2}
    assert any(e["args"].get("critical") for e in events if e["ph"] == "X")
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"critical path", "rank 0", "rank 1", "device 0 stream 7"} <= names


def test_a_comparison_is_printed(shown: Explanation, tmp_path: Path):
    slower = two_kernels()
    slower.kernel("extra_kernel", 70, 10, 50)
    after = explain([slower.read(tmp_path)])
    text = text_of(documents.document_of(after, compare_explanations(shown, after)), 100)
    assert "extra_kernel" in text
    assert "new" in text


def test_a_forecast_is_printed_and_follows_its_schema(tmp_path: Path):
    trace = two_kernels().read(tmp_path)
    found = forecast_from_traces([trace], TraceForecastRequest(changes=parse_what_if(["speed:gemm=2"])))
    assert "Speed-up" in text_of(forecasts.document_of(found))
    assert json_of(forecast_data.data_of(found))["speedup"] == found.speedup
    bars, interval = forecasts.steps_figure(found).series
    assert isinstance(bars, Bars)
    assert isinstance(interval, Curve)
    assert bars.values[0] == found.measured_seconds
    assert bars.values[-1] == found.step_seconds
    assert interval.errors == ((found.step_seconds_low, found.step_seconds_high),)


def test_a_recording_without_a_device_is_explained(tmp_path: Path):
    recording = Recording()
    recording.operator("aten::mm", 0, 10)
    explanation = explain([recording.read(tmp_path)])
    assert "no operator runs" in text_of(documents.document_of(explanation))
    assert render_page(documents.document_of(explanation))


def test_long_paths_show_their_end_and_other_labels_their_start():
    path = "Model_0." + "Encoder_0." * 8 + "Linear_25"
    change = Change(path, 1.0, 2.0, 1, 1)
    figures = [changes_figure("change", [change], cuts_left=cuts_left) for cuts_left in (True, False)]
    shown = [figure.y.ticks[0][1] for figure in figures]
    assert shown[0].startswith("…")
    assert shown[0].endswith("Linear_25")
    assert shown[1].startswith("Model_0.")
    assert shown[1].endswith("…")
