"""A timeline of a plan as trace events."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from perfcast.errors import PlanError
from perfcast.report.timelines.plan_step import about, events_of
from perfcast.report.trace_events import trace_events
from plan_forecasts import plan_forecast, spans, step_time


def events(phase: str) -> list[dict]:
    return [e for e in trace_events(events_of(plan_forecast()))["traceEvents"] if e["ph"] == phase]


def test_every_rank_is_a_process_and_every_stream_a_thread():
    names = {(e["name"], e["pid"], e["args"].get("name")) for e in events("M")}
    assert ("process_name", 0, "stage 0, rank 0, stands for 4") in names
    assert ("process_name", 4, "stage 1, rank 4, stands for 4") in names
    assert ("thread_name", 0, "data stream") in names
    assert ("thread_name", 4, "data stream") not in names


def test_every_span_is_an_event_in_microseconds():
    drawn = events("X")
    assert len(drawn) == len(spans())
    (collective,) = [e for e in drawn if e["name"] == "all_reduce"]
    assert (collective["ts"], collective["dur"], collective["pid"]) == (2000.0, 1000.0, 4)
    assert collective["args"] == {"cause": "tensor", "on_critical_path": False, "micro_batch": 0}


def test_threads_never_overlap_themselves():
    by_thread: dict[tuple[int, int], list[dict]] = {}
    for event in events("X"):
        by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
    for row in by_thread.values():
        row.sort(key=lambda e: e["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(row))


def test_arrows_follow_micro_batches_down_and_up_the_pipeline():
    starts, ends = events("s"), events("f")
    ways = {(s["name"], s["pid"], f["pid"]) for s, f in zip(starts, ends, strict=True)}
    assert ways == {(f"micro-batch {i}", a, b) for i in (0, 1) for a, b in ((0, 4), (4, 0))}
    assert all(s["id"] == f["id"] and s["ts"] < f["ts"] for s, f in zip(starts, ends, strict=True))


def test_the_trace_is_strict_json():
    forecast = plan_forecast()
    text = json.dumps(trace_events(events_of(forecast), about(forecast)), allow_nan=False)
    assert json.loads(text)["otherData"]["cluster"] == "made-up"


def test_a_forecast_without_timeline_says_what_to_do():
    with pytest.raises(PlanError, match="leave --closed-form out"):
        list(events_of(plan_forecast(time=replace(step_time(), spans=()))))
