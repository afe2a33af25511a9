"""Time of a step by layer and by what limits it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import small_forecast
from perfcast.report.documents.step.layers import layer_seconds, layers_figure, layers_section
from perfcast.report.figure import Bars


def test_layers_built_alike_are_one_bar_and_all_time_is_in_them() -> None:
    forecast = small_forecast(num_layers=4)
    seconds = layer_seconds(forecast)
    assert sum(sum(parts.values()) for parts in seconds.values()) == pytest.approx(sum(forecast.node_seconds))
    assert any(name.startswith("h.0–3") for name in seconds)
    assert "(optimizer)" in seconds


def test_bars_are_cut_by_what_limits_them_the_longest_on_top() -> None:
    figure = layers_figure({"a": {"compute": 1.0, "memory": 2.0}, "b": {"memory": 5.0}, "c": {"launch": 0.5}})
    bars = [series for series in figure.series if isinstance(series, Bars)]
    assert [one.name for one in bars] == ["arithmetic", "memory bandwidth", "launches"]
    assert bars[0].labels == ("b", "a", "c")
    assert bars[1].values == (5.0, 2.0, 0.0)


def test_a_step_without_times_has_no_such_figure() -> None:
    empty = replace(small_forecast(), node_seconds=())
    assert layers_section(empty).blocks == ()
