"""An explained recording as text, JSON, page and timeline; a forecast from one as text and JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from perfcast.report.trace_figures import plot_changes
from perfcast.report.trace_forecast import (
    print_trace_forecast,
    trace_forecast_schema,
    trace_forecast_to_dict,
)
from perfcast.report.trace_html import render_explanation_html
from perfcast.report.trace_json import explanation_schema, explanation_to_dict
from perfcast.report.trace_text import print_comparison, print_explanation
from perfcast.report.trace_timeline import explanation_to_trace_events
from perfcast.traces.events import Trace
from perfcast.traces.explain.compare import Change, compare_explanations
from perfcast.traces.explain.recordings import Explanation, explain
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.what_if import parse_what_if
from recorded_traces import Recording, two_kernels


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


def printed(function: Any, *args: Any, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    function(*args, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_text_names_parts_kinds_path_and_ranks(shown: Explanation):
    text = printed(print_explanation, shown)
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
    assert all(len(line) <= 60 for line in printed(print_explanation, shown, width=60).splitlines())


def test_json_follows_the_schema(shown: Explanation):
    compared = compare_explanations(shown, shown)
    for comparison in (None, compared):
        data = json.loads(json.dumps(explanation_to_dict(shown, comparison), allow_nan=False))
        assert list(Draft202012Validator(explanation_schema()).iter_errors(data)) == []


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        for value in node.values():
            yield from objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


@pytest.mark.parametrize("schema", [explanation_schema, trace_forecast_schema])
def test_schemas_require_and_describe_every_key(schema: Any):
    Draft202012Validator.check_schema(schema())
    for node in objects(schema()):
        assert node["required"] == list(node["properties"])
        assert node["additionalProperties"] is False
        assert all("description" in value for value in node["properties"].values())


def test_the_page_needs_nothing_else_and_escapes_names(shown: Explanation):
    page = render_explanation_html(shown, compare_explanations(shown, shown))
    assert "<script>alert(1)" not in page
    assert "default-src 'none'" in page
    assert "Critical path" in page


def test_the_timeline_marks_what_is_critical(shown: Explanation, traces: list[Trace]):
    events = explanation_to_trace_events(shown, traces)["traceEvents"]
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
    text = printed(print_comparison, compare_explanations(shown, after))
    assert "extra_kernel" in text
    assert "new" in text


def test_a_forecast_is_printed_and_follows_its_schema(tmp_path: Path):
    trace = two_kernels().read(tmp_path)
    found = forecast_from_traces([trace], TraceForecastRequest(changes=parse_what_if(["speed:gemm=2"])))
    assert "Speed-up" in printed(print_trace_forecast, found)
    data = json.loads(json.dumps(trace_forecast_to_dict(found), allow_nan=False))
    assert list(Draft202012Validator(trace_forecast_schema()).iter_errors(data)) == []


def test_a_recording_without_a_device_is_explained(tmp_path: Path):
    recording = Recording()
    recording.operator("aten::mm", 0, 10)
    explanation = explain([recording.read(tmp_path)])
    assert "no operator runs" in printed(print_explanation, explanation)
    assert render_explanation_html(explanation)


def test_long_paths_show_their_end_and_other_labels_their_start():
    path = "Model_0." + "Encoder_0." * 8 + "Linear_25"
    figures = [
        plot_changes([Change(path, 1.0, 2.0, 1, 1)], are_paths=are_paths) for are_paths in (True, False)
    ]
    shown = [figure.layout.yaxis.ticktext[0] for figure in figures]
    assert shown[0].startswith("…")
    assert shown[0].endswith("Linear_25")
    assert shown[1].startswith("Model_0.")
    assert shown[1].endswith("…")
