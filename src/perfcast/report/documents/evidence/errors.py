"""Errors of predictors as figures: by device, model, operator and whatever else a suite groups by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfcast.report import palette
from perfcast.report.document import Document, Section
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.report.values import percent

#: An entry of a suite's summary as it is written as JSON.
Entry = Mapping[str, Any]

#: Values of a group that are drawn, the worst of more.
MOST_ROWS = 40
#: Errors beyond which an axis is logarithmic, and where it begins.
_FAR, _LEAST = 2.0, 1e-3
#: Groups that are tables of something else than errors of forecasts.
_NOT_DRAWN = ("all", "skipped", "choice of plan", "rank correlation", "noise floor")
_SHOWN_BY = ("median_absolute_relative_error", "p90_absolute_relative_error")


def with_error_figures(document: Document, summary: Sequence[Entry]) -> Document:
    """The document, then a figure of each group of its summary that has several values."""
    groups: dict[str, list[Entry]] = {}
    for entry in summary:
        group = str(entry["group"])
        has_errors = entry.get("n") and entry.get(_SHOWN_BY[0]) is not None
        if has_errors and group not in _NOT_DRAWN and not group.startswith(("paired with", "outcome")):
            groups.setdefault(group, []).append(entry)
    figures = tuple(
        Section(title=f"Error by {group}", blocks=(error_figure(f"error-{at}", entries),), only="page")
        for at, (group, entries) in enumerate(groups.items())
        if len({str(entry["value"]) for entry in entries}) > 1
    )
    return replace(document, blocks=(*document.blocks, *figures))


def error_figure(name: str, entries: Sequence[Entry]) -> Figure:
    """The median of the absolute errors of each value and predictor, with a line to the 90th percentile."""
    worst: dict[str, float] = {}
    for entry in entries:
        value = str(entry["value"])
        worst[value] = max(worst.get(value, 0.0), float(entry[_SHOWN_BY[0]]))
    shown = sorted(worst, key=worst.__getitem__, reverse=True)[:MOST_ROWS]
    predictors = list(dict.fromkeys(str(entry["predictor"]) for entry in entries))
    colours = palette.in_turns(len(predictors))
    farthest = max((float(entry[key]) for entry in entries for key in _SHOWN_BY), default=0.0)
    axis = Axis(title="absolute error: median, and to the 90th percentile", unit="share", from_zero=True)
    if farthest > _FAR:
        axis = replace(axis, scale="log", low=_LEAST, high=1.3 * farthest)
    return Figure(
        name=name,
        series=tuple(
            _predictor(predictor, colour, [e for e in entries if e["predictor"] == predictor], shown)
            for predictor, colour in zip(predictors, colours, strict=True)
        ),
        height=110 + 24 * len(shown),
        legend="above",
        is_horizontal=True,
        x=axis,
        y=Axis(scale="category", is_reversed=True),
    )


def _predictor(name: str, colour: str, entries: Sequence[Entry], shown: Sequence[str]) -> Curve:
    mine = sorted(
        (e for e in entries if str(e["value"]) in shown), key=lambda e: shown.index(str(e["value"]))
    )
    ends = [[max(float(entry[key]), _LEAST) for key in _SHOWN_BY] for entry in mine]
    return Curve(
        name=name,
        mode="markers",
        colour=colour,
        x=tuple(median for median, _ in ends),
        y=tuple(str(entry["value"]) for entry in mine),
        errors=tuple((median, farthest) for median, farthest in ends),
        hovers=tuple(_hover(entry) for entry in mine),
    )


def _hover(entry: Entry) -> str:
    median, farthest = (percent(float(entry[key])) for key in _SHOWN_BY)
    covered = entry.get("coverage")
    sure = "" if covered is None else f"\n{percent(covered)} inside the interval"
    head = f"{entry['value']}, {entry['predictor']}"
    return f"{head}\nmedian {median}, 90 % within {farthest}, {entry['n']} rows{sure}"
