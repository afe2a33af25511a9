"""The picture of memory: page, text, JSON, of a step alone and of a search for the largest size."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from builders import small_forecast
from perfcast.core.forecast.device import AliveTensors, Forecast, ReservedMemory
from perfcast.core.forecast.largest import Largest, Probe
from perfcast.report import palette
from perfcast.report.data.memory import data_of
from perfcast.report.document import words
from perfcast.report.documents.memory.curves import largest_figure, memory_by_module_figure, memory_figure
from perfcast.report.documents.memory.device import describe_largest, document_of
from perfcast.report.documents.memory.intervals import MAX_TENSORS, intervals_figure
from perfcast.report.figure import Bars
from perfcast.report.page import render_page
from perfcast.units import GIB, MIB, format_bytes
from rendered import json_of, text_of

HOSTILE = "<script>alert(1)</script>"
PROBES = (Probe(1, GIB, GIB, True), Probe(9, GIB, 81 * GIB, False), Probe(8, GIB, 79 * GIB, True))
LARGEST = Largest("batch_size", 8, True, "", PROBES, 80 * GIB)


def reserved(fits: bool = True, steps: int = 3) -> ReservedMemory:
    held = tuple(100 * MIB * (1 + i % 4) for i in range(8 * steps))
    return ReservedMemory(
        settings="expandable_segments:True",
        allocated_bytes=held,
        reserved_bytes=tuple(420 * MIB for _ in held),
        step_starts=tuple(range(0, len(held), 8)),
        peak_bytes=420 * MIB,
        fragmentation=0.05,
        context_bytes=400 * MIB,
        context_low_bytes=250 * MIB,
        context_high_bytes=650 * MIB,
        num_retries=0,
        fits=fits,
    )


def pictured(
    name: str = "h.0–1.mlp", line: str = "model.py:12 in Block.forward", fits: bool = True
) -> Forecast:
    forecast = small_forecast()
    memory = forecast.memory
    half = tuple(value // 2 for value in memory.timeline_bytes)
    rest = tuple(value - part for value, part in zip(memory.timeline_bytes, half, strict=True))
    groups = (AliveTensors(10 * MIB, 4, "activation", "mm", name, line),)
    return replace(
        forecast,
        memory=replace(
            memory,
            timeline_bytes_by_module={"h.0–1": half, name: rest},
            phase_starts=(("forward", 0), ("backward", 14), ("optimizer", 42)),
            alive_at_peak=groups,
            reserved=reserved(fits),
        ),
    )


def test_the_page_shows_verdict_both_stacks_the_tensors_alive_and_the_allocator() -> None:
    html = render_page(document_of(pictured()))
    assert "of 80.0 GiB; fits" in html
    assert re.findall(r'id="figure-(\w+)"', html) == ["memory", "modules", "intervals", "reserved"]
    for text in (
        "model.py:12 in Block.forward",
        "40.0 MiB",
        "h.0–1.mlp",
        "expandable_segments:True",
        "820 MiB",
    ):
        assert text in html


def test_a_step_that_does_not_fit_says_so_in_large() -> None:
    html = render_page(document_of(pictured(fits=False)))
    assert 'class="card alarm"' in html
    assert "does not fit" in html


def test_the_page_of_a_search_shows_every_size_that_was_captured() -> None:
    html = render_page(document_of(pictured(), LARGEST))
    assert 'id="figure-largest"' in html
    figure = largest_figure(LARGEST)
    assert figure.series[0].x == (1, 8, 9)
    assert figure.labels[-1].bold == "8"


def test_names_and_lines_cannot_inject_markup() -> None:
    assert HOSTILE not in render_page(document_of(pictured(name=HOSTILE, line=HOSTILE)))


def test_the_same_forecast_gives_the_same_page() -> None:
    pages = {render_page(document_of(pictured(), LARGEST)) for _ in range(2)}
    assert len(pages) == 1


def test_modules_stack_up_to_the_total_with_what_stays_at_the_bottom() -> None:
    forecast = pictured()
    half = forecast.memory.timeline_bytes_by_module["h.0–1"]
    modules = {"(model)": half, "h.0–1": half, "(optimizer)": half}
    stacked = replace(forecast, memory=replace(forecast.memory, timeline_bytes_by_module=modules))
    names = [series.name for series in memory_by_module_figure(stacked).series]
    assert names == ["(optimizer)", "h.0–1", "(model)"]


def test_phases_are_marked_where_they_begin() -> None:
    figure = memory_figure(pictured())
    assert {"forward", "backward", "optimizer"} <= {label.text for label in figure.labels}


def test_the_terminal_shows_what_is_needed_and_the_lines_that_make_it() -> None:
    output = text_of(document_of(pictured()))
    for text in (
        "820 MiB of 80.0 GiB: fits",
        "420 MiB, by the caching",
        "250 MiB – 650 MiB",
        "4 × 10.0 MiB",
        "model.py:12",
    ):
        assert text in output
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 80


@pytest.mark.parametrize("largest", [None, LARGEST, replace(LARGEST, value=None)])
def test_the_json_satisfies_the_published_schema(largest: Largest | None) -> None:
    data = json_of(data_of(pictured(), largest))
    assert (data["largest"] is None) == (largest is None)
    assert data["alive_at_peak"][0]["total_bytes"] == 40 * MIB
    assert data["reserved"]["total_bytes"] == 820 * MIB


def test_long_traces_of_the_allocator_are_thinned_and_keep_what_is_reserved_at_most() -> None:
    long = replace(pictured().memory, reserved=reserved(steps=1000))
    data = json_of(data_of(replace(pictured(), memory=long)))["reserved"]
    assert len(data["requests"]) == len(data["allocated_bytes"]) == 2000
    assert max(data["reserved_bytes"]) == data["peak_bytes"]


def test_the_answer_of_a_search_names_its_proof() -> None:
    assert describe_largest(LARGEST) == "Largest batch size 8: 79.0 GiB of 80.0 GiB; 9 needs 81.0 GiB"
    assert "3 captures, at 1, 9, 8" in text_of(document_of(pictured(), LARGEST))


def test_a_search_without_an_answer_says_what_the_smallest_needs() -> None:
    nothing = replace(LARGEST, value=None, probes=(Probe(1, GIB, 81 * GIB, False),))
    assert (
        describe_largest(nothing) == f"Nothing fits: batch size 1 needs 81.0 GiB of {format_bytes(80 * GIB)}"
    )


def test_an_interrupted_search_says_the_best_so_far() -> None:
    assert describe_largest(replace(LARGEST, is_complete=False)).startswith("Interrupted; the largest known")


def test_a_search_that_the_model_ends_says_why() -> None:
    limited = replace(LARGEST, value=8, limit="the model ends", probes=(Probe(8, GIB, GIB, True),))
    assert describe_largest(limited).endswith("; the model ends")


def test_tensors_are_drawn_from_what_makes_them_to_their_last_reference() -> None:
    forecast = pictured()
    figure = intervals_figure(forecast)
    made = [one for one in forecast.memory.intervals if one.created_by >= 0]
    bars = [series for series in figure.series if isinstance(series, Bars)]
    assert sum(len(one.labels) for one in bars) == min(len(made), MAX_TENSORS)
    for one in bars:
        for start, value in zip(one.base, one.values, strict=True):
            assert value is not None
            assert 0 <= start <= start + value <= (figure.x.high or 0) * (1 + 1e-9)


def test_a_category_has_one_colour_in_every_figure() -> None:
    forecast = pictured()
    colours = {words(category): colour for category, colour in palette.CATEGORIES.items()}
    for figure in (memory_figure(forecast), intervals_figure(forecast)):
        for series in figure.series:
            shown = series.colours if isinstance(series, Bars) else series.colour
            assert shown == colours[series.name]
