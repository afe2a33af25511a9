"""Whatever is written for Perfetto: slices of one track lie within each other or apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cli.main import run
from perfcast.report.timeline_events import Flow, Slice, Thread
from perfcast.units import MICRO
from recorded_traces import two_kernels
from rendered import events_of, overlaps_in

SPANS = st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 20))


@given(st.lists(SPANS, max_size=30))
def test_what_overlaps_in_part_stands_on_further_tracks_and_nothing_is_lost(
    spans: list[tuple[int, int, int]],
):
    slices = [
        Slice(1, thread, start * MICRO, (start + long) * MICRO, str(place), "made up")
        for place, (thread, start, long) in enumerate(spans)
    ]
    written = [event for event in events_of(slices) if event["ph"] == "X"]
    assert overlaps_in(written) == []
    assert [(one["name"], one["ts"]) for one in written] == [(str(p), s[1]) for p, s in enumerate(spans)]
    for one, (_, _, long) in zip(written, spans, strict=True):
        assert long - 1 <= one["dur"] <= long  # a µs is what recordings round


def test_a_further_track_is_named_after_its_own_and_arrows_follow():
    events = [
        Thread(1, 7, "stream 7", ordered=False),
        Slice(1, 7, 0, 10 * MICRO, "first", "kernel"),
        Slice(1, 7, 5 * MICRO, 20 * MICRO, "second", "kernel"),
        Flow("end", 1, 1, 7, 5 * MICRO, "path", "path"),
    ]
    written = events_of(events)
    assert [e["args"]["name"] for e in written if e["name"] == "thread_name"] == ["stream 7", "stream 7 (2)"]
    assert [(e["name"], e["tid"]) for e in written if e["ph"] in "Xf"] == [
        ("first", 7), ("second", 8), ("path", 8)
    ]  # fmt: skip


ASKED = {
    "a plan": "predict llama3-8b --cluster dgx-h100:8 --plan tp=2,pp=4,vp=2 --batch-size 16",
    "sharded weights": "predict llama3-8b --cluster dgx-h100:8 --plan zero=3 --batch-size 8",
    "recommender": "predict dlrm-small --cluster dgx-a100:4 --batch-size 1024",
    "serving": "serving llama3-8b --device h100-sxm --num-requests 30 --input-length 256 --output-length 8 "
    "--concurrency 4",
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_every_timeline_of_a_forecast_nests(tmp_path: Path, asked: str):
    path = tmp_path / "timeline.json"
    assert run([*asked.split(), "--cost-model", "roofline", "--timeline", str(path)]) == 0
    assert overlaps_in(json.loads(path.read_text(encoding="utf-8"))["traceEvents"]) == []


def test_kernels_of_one_stream_that_overlap_are_shown_side_by_side(tmp_path: Path):
    recording = two_kernels()
    recording.kernel("begun early", 40, 30, 2)  # launched with the one before: it waits on the device itself
    path = tmp_path / "timeline.json"
    assert run(["trace", "explain", str(recording.write(tmp_path)), "--timeline", str(path)]) == 0
    written = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert overlaps_in(written) == []
    tracks = {event["args"]["name"] for event in written if event["name"] == "thread_name"}
    assert {"device 0 stream 7", "device 0 stream 7 (2)"} <= tracks
