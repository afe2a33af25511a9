from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Disaggregated, Pool
from perfcast.core.serving.outcome import StepLog
from perfcast.errors import InputError
from perfcast.report.timelines.serving import events_of
from rendered import events_of as written
from serving_forecasts import serving_forecast


def log(*rows: tuple[float, float, int, int, int, int, int]) -> StepLog:
    """Steps: start, end, how many, engine, pool, sequences, prompt tokens (of one prompt, if any)."""
    start, end, steps, engine, pool, sequences, prompt_tokens = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    held = np.arange(len(rows))
    return StepLog(
        start_seconds=start,
        end_seconds=end,
        steps=steps,
        engine=engine,
        pool=pool,
        sequences=sequences,
        prompts=(prompt_tokens > 0).astype(np.int64),
        prompt_tokens=prompt_tokens,
        cached_tokens=100.0 * sequences,
        running=sequences + 1,
        waiting=held,
        kv_tokens=1000 * held,
    )


STEPS = log((1.0, 1.5, 1, 0, 0, 0, 512), (1.5, 3.0, 8, 0, 0, 3, 0), (1.0, 2.0, 1, 1, 0, 2, 64))


@pytest.fixture(scope="module")
def forecast() -> ServingForecast:
    return serving_forecast()


def events(forecast: ServingForecast, steps: StepLog = STEPS) -> list[dict[str, Any]]:
    assert forecast.played is not None
    return written(events_of(replace(forecast, played=replace(forecast.played, steps=steps))))


def slices(found: list[dict[str, Any]], process: int) -> list[dict[str, Any]]:
    return [event for event in found if event["ph"] == "X" and event["pid"] == process]


def test_steps_are_slices_of_their_engine_with_their_batch(forecast: ServingForecast):
    first, second = slices(events(forecast), 0)
    assert (first["name"], first["cat"]) == ("reads 512 of 1 prompts", "prefill")
    assert (second["name"], second["cat"]) == ("writes 3 × 8", "decode")
    assert (first["ts"], first["dur"]) == (1e6, 0.5e6)
    assert second["args"]["cached_tokens"] == 300
    (mixed,) = slices(events(forecast), 1)
    assert (mixed["name"], mixed["cat"]) == ("reads 64 of 1 prompts, writes 2", "mixed")


def test_counters_say_what_an_engine_has(forecast: ServingForecast):
    counters = [event for event in events(forecast) if event["ph"] == "C" and event["pid"] == 0]
    assert [each["args"] for each in counters if each["name"] == "requests"] == [
        {"running": 1, "waiting": 0},
        {"running": 4, "waiting": 1},
    ]
    assert [each["args"]["tokens"] for each in counters if each["name"] == "tokens held"] == [0, 1000]


def test_requests_of_a_row_follow_each_other_and_all_of_the_window_are_there(forecast: ServingForecast):
    rows = defaultdict(list)
    for event in slices(events(forecast), 10_000):
        rows[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    played = forecast.played
    assert played is not None
    there = ((played.sent_seconds < 3.0) & (played.finished_seconds > 1.0)).sum()
    names = {event["name"].split(" ")[1] for event in slices(events(forecast), 10_000)}
    assert len(names) == there


def test_a_request_waits_is_read_and_is_written(forecast: ServingForecast):
    played = forecast.played
    assert played is not None
    found = {event["name"]: event for event in slices(events(forecast), 10_000)}
    last = int((played.sent_seconds < 3.0).nonzero()[0][-1])
    assert found[f"request {last} waits"]["ts"] == pytest.approx(played.sent_seconds[last] * 1e6, abs=1)
    assert found[f"request {last} is written"]["args"]["answer_tokens"] == played.answer_tokens[last]


def test_pools_are_named(forecast: ServingForecast):
    apart = replace(forecast, deployment=Disaggregated(Pool(Plan()), Pool(Plan())))
    steps = log((1.0, 1.5, 1, 0, 0, 0, 512), (1.5, 3.0, 8, 1, 1, 3, 0))
    names = [event["args"]["name"] for event in events(apart, steps) if event["name"] == "process_name"]
    assert names == ["reads: engine 0", "writes: engine 1", "requests"]


def test_a_forecast_without_steps_says_why_there_is_no_timeline(forecast: ServingForecast):
    with pytest.raises(InputError, match="leave --method closed-form out"):
        list(events_of(forecast))
    with pytest.raises(InputError, match="move it with --window"):
        events(forecast, StepLog(*(np.array([]) for _ in range(12))))
