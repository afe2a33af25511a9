from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from builders import small_forecast
from perfcast.core.forecast.device import Forecast
from perfcast.report.timelines.step import about, events_of
from perfcast.report.trace_events import trace_events
from rendered import overlaps_in

Event = dict[str, Any]


@pytest.fixture(scope="module")
def forecast() -> Forecast:
    return small_forecast(num_layers=3)


@pytest.fixture(scope="module")
def trace(forecast: Forecast) -> dict[str, Any]:
    return trace_events(events_of(forecast), about(forecast))


def of_thread(trace: dict[str, Any], title: str) -> list[Event]:
    events = trace["traceEvents"]
    threads = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    return [e for e in events if e["ph"] == "X" and e["tid"] == threads[title]]


def test_the_trace_is_json_without_infinities(trace: dict[str, Any]) -> None:
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    assert trace["displayTimeUnit"] == "ms"


def test_the_process_is_the_device(trace: dict[str, Any]) -> None:
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert names == ["NVIDIA H100 SXM"]


def test_trace_events_never_overlap_on_a_stream(trace: dict[str, Any]) -> None:
    events = of_thread(trace, "compute stream")
    for before, after in pairwise(events):
        assert before["ts"] + before["dur"] <= after["ts"]


def test_slices_of_all_tracks_nest(trace: dict[str, Any]) -> None:
    assert overlaps_in(trace["traceEvents"]) == []


def test_every_node_that_takes_time_has_one_event_of_its_length(
    trace: dict[str, Any], forecast: Forecast
) -> None:
    events = of_thread(trace, "compute stream")
    timed = [i for i, seconds in enumerate(forecast.node_seconds) if seconds > 0]
    assert [e["args"]["node"] for e in events] == timed
    for event in events:
        assert event["dur"] == pytest.approx(forecast.node_seconds[event["args"]["node"]] * 1e6, abs=2e-3)
    last = events[-1]
    assert last["ts"] + last["dur"] == pytest.approx(forecast.step_seconds * 1e6, abs=1e-3)


def test_an_event_tells_kind_module_phase_shapes_and_work(trace: dict[str, Any]) -> None:
    event = next(e for e in of_thread(trace, "compute stream") if e["name"] == "aten.addmm")
    assert event["args"] == {
        "kind": "matmul",
        "module": "h.0.attn.c_proj",
        "phase": "forward",
        "shapes": "bf16[8,1024,5120], bf16[1280,5120] → bf16[8,1024,1280]",
        "flops": 2 * 8192 * 1280 * 5120,
        "memory_traffic_bytes": 2 * (8192 * 5120 + 1280 * 5120 + 8192 * 1280),
        "node": 4,
        "recomputed": False,
    }


def test_phases_follow_one_another_and_cover_the_step(trace: dict[str, Any], forecast: Forecast) -> None:
    events = of_thread(trace, "phases")
    assert [e["name"] for e in events] == ["forward", "backward", "optimizer"]
    for event in events:
        assert event["dur"] == pytest.approx(forecast.seconds_by_phase[event["name"]] * 1e6, abs=2e-3)
        assert event["args"] == {"phase": event["name"]}


def test_module_spans_nest_and_never_cross_a_phase(trace: dict[str, Any]) -> None:
    opened: list[Event] = []
    phases = of_thread(trace, "phases")
    for event in of_thread(trace, "modules"):
        end = event["ts"] + event["dur"]
        while opened and opened[-1]["ts"] + opened[-1]["dur"] <= event["ts"]:
            opened.pop()
        if opened:
            assert end <= opened[-1]["ts"] + opened[-1]["dur"]
            assert event["args"]["module"].startswith(opened[-1]["args"]["module"] + ".")
        opened.append(event)
        assert sum(p["ts"] <= event["ts"] and end <= p["ts"] + p["dur"] for p in phases) == 1


def test_a_numbered_layer_is_named_with_its_list(trace: dict[str, Any]) -> None:
    names = {e["name"] for e in of_thread(trace, "modules")}
    assert {"h", "h.0", "attn", "c_proj"} <= names
    assert "0" not in names


def test_the_memory_counter_rises_to_the_peak_even_where_no_time_passes(forecast: Forecast) -> None:
    spike = 10 * forecast.memory.peak_bytes
    idle = next(i for i, seconds in enumerate(forecast.node_seconds) if seconds == 0)
    timeline = list(forecast.memory.timeline_bytes)
    timeline[idle] = spike
    spiked = replace(forecast, memory=replace(forecast.memory, timeline_bytes=tuple(timeline)))
    counters = [e for e in trace_events(events_of(spiked))["traceEvents"] if e["ph"] == "C"]
    assert max(e["args"]["bytes"] for e in counters) == spike
    times = [e["ts"] for e in counters]
    assert times == sorted(set(times))
    held = [e["args"]["bytes"] for e in counters]
    assert all(a != b for a, b in pairwise(held))


def test_a_step_without_nodes_gives_names_alone(forecast: Forecast) -> None:
    empty = replace(
        forecast,
        node_seconds=(),
        graph=replace(forecast.graph, nodes=()),
        memory=replace(forecast.memory, timeline_bytes=()),
    )
    assert {e["ph"] for e in trace_events(events_of(empty))["traceEvents"]} == {"M"}
