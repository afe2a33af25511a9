"""Answers as tests look at them: the text of a document, its figures, and JSON that keeps to its schema."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from rich.console import Console

from perfcast.report.answers import answer_schema, to_plain
from perfcast.report.document import Document, list_figures
from perfcast.report.figure import Figure
from perfcast.report.terminal import print_document
from perfcast.report.timeline_events import TimelineEvent
from perfcast.report.trace_events import trace_events


def text_of(document: Document, width: int = 80) -> str:
    """What a terminal shows, without colour."""
    stream = io.StringIO()
    print_document(document, Console(file=stream, width=width, color_system=None, highlight=False))
    return stream.getvalue()


def figure_of(document: Document, name: str) -> Figure:
    """A figure by its name."""
    return {figure.name: figure for figure in list_figures(document)}[name]


def figure_names(document: Document) -> list[str]:
    """Names of all figures, in order."""
    return [figure.name for figure in list_figures(document)]


def json_of(answer: object) -> dict[str, Any]:
    """What is written of an answer, checked against the schema of its type, in which no key is left open."""
    schema = answer_schema(type(answer))
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(schema["properties"])
    assert all(entry.get("description") for entry in schema["properties"].values())
    written: dict[str, Any] = json.loads(json.dumps(to_plain(answer), allow_nan=False))
    Draft202012Validator(schema).validate(written)
    return written


def events_of(events: Iterable[TimelineEvent]) -> list[dict[str, Any]]:
    """Events as they are written."""
    written: list[dict[str, Any]] = trace_events(events)["traceEvents"]
    return written


def overlaps_in(written: Iterable[Mapping[str, Any]]) -> list[str]:
    """Slices of a timeline file that overlap another of their track in part: neither within it nor apart."""
    tracks: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for event in written:
        if event["ph"] == "X":
            span = (event["ts"], -(event["ts"] + event["dur"]), event["name"])
            tracks.setdefault((event["pid"], event["tid"]), []).append(span)
    found = []
    for track, spans in tracks.items():
        open_ends: list[float] = []
        for start, negative_end, name in sorted(spans):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and -negative_end > open_ends[-1]:
                found.append(f"{track}: {name} at {start}")
            open_ends.append(-negative_end)
    return found
