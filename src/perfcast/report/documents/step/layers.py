"""Time of a step by layer, and by what its operations wait for."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.core.forecast.device import Forecast
from perfcast.core.graph import Node
from perfcast.report import palette
from perfcast.report.blocks import stacked_bars
from perfcast.report.document import Note, Section
from perfcast.report.documents.step.modules import fold_layers
from perfcast.report.figure import Figure

MAX_LAYERS = 16
_OPTIMIZER, _NO_MODULE, _UNKNOWN = "(optimizer)", "(no module)", "other"
#: What limits an operation, and what that is called.
_RESOURCES = {"compute": "arithmetic", "memory": "memory bandwidth", "launch": "launches", _UNKNOWN: _UNKNOWN}

#: Seconds by resource.
Seconds = dict[str, float]


def layers_section(forecast: Forecast) -> Section:
    """The figure; nothing where nodes have no times."""
    seconds = layer_seconds(forecast)
    if not seconds:
        return Section()
    note = "Equal layers together; an operation counts whole to what limits it."
    return Section(
        title="Time by layer and resource", blocks=(layers_figure(seconds), Note(note)), only="page"
    )


def layers_figure(seconds: Mapping[str, Seconds]) -> Figure:
    """A bar for each part of the model, the longest on top, cut by what limits it."""
    order = sorted(seconds, key=lambda name: -sum(seconds[name].values()))[:MAX_LAYERS]
    known = [resource for resource in _RESOURCES if any(resource in seconds[name] for name in order)]
    parts = [
        (_RESOURCES[one], palette.RESOURCES[one], [seconds[name].get(one, 0.0) for name in order])
        for one in known
    ]
    whole = sum(sum(parts.values()) for parts in seconds.values())
    return stacked_bars("layers", order, parts, totals=[whole] * len(order))


def layer_seconds(forecast: Forecast) -> dict[str, Seconds]:
    """Seconds of each part of the model by what limits its operations; the optimizer is a part."""
    if not forecast.node_seconds:
        return {}
    operations = forecast.graph.operations
    limits = {(o.name, o.phase, o.shapes): o.bound_by for o in forecast.operations}
    names = fold_layers({node.module for node in forecast.graph.nodes})
    found: dict[str, Seconds] = {}
    places: dict[tuple[int, str, str], tuple[str, str]] = {}
    for node, seconds in zip(forecast.graph.nodes, forecast.node_seconds, strict=True):
        if not seconds > 0:
            continue
        key = node.operation, node.phase.value, node.module
        if key not in places:
            shapes = ", ".join("x".join(map(str, t.shape)) or "scalar" for t in operations[key[0]].inputs[:4])
            limit = limits.get((operations[key[0]].name, key[1], shapes), _UNKNOWN)
            places[key] = _layer_of(node, names), limit if limit in _RESOURCES else _UNKNOWN
        layer, resource = places[key]
        parts = found.setdefault(layer, {})
        parts[resource] = parts.get(resource, 0.0) + seconds
    return found


def _layer_of(node: Node, names: Mapping[str, str]) -> str:
    """``'h.0–35.mlp'`` of ``'transformer.h.3.mlp.act'``: the range and what is in it; else the module."""
    if node.phase.value == "optimizer":
        return _OPTIMIZER
    parts = names[node.module].split(".")
    numbers = [at for at, part in enumerate(parts) if part[:1].isdigit()]
    if not numbers:
        return node.module or _NO_MODULE
    return ".".join(parts[max(numbers[0] - 1, 0) : numbers[0] + 2])
