from __future__ import annotations

from dataclasses import replace

import pytest

from builders import PEAK_FLOPS_PER_SECOND, small_forecast
from perfcast.core.forecast.device import Forecast, KindTime
from perfcast.report import figures, memory_figures


def modules(*labels: str) -> tuple[KindTime, ...]:
    return tuple(KindTime(label, 1.0, 1, 0, 0) for label in labels)


def test_bars_are_in_seconds_longest_on_top_and_leave_out_what_takes_no_time(forecast: Forecast) -> None:
    bar = figures.plot_kinds(forecast).data[0]
    assert list(bar.x) == sorted(bar.x, reverse=True)
    assert bar.y[0] == "matmul"
    assert "allocation" not in bar.y
    assert sum(bar.x) == pytest.approx(forecast.step_seconds)


def test_module_times_add_up_from_the_leaves_to_the_model(forecast: Forecast) -> None:
    tree = figures.plot_modules(forecast).data[0]
    values = dict(zip(tree.ids, tree.values, strict=True))
    assert values["m."] == pytest.approx(forecast.step_seconds)
    for name, total in values.items():
        children = [v for i, v in values.items() if tree.parents[list(values).index(i)] == name]
        assert sum(children) <= total * (1 + 1e-9)
    assert set(tree.parents) - {""} <= set(tree.ids)


def test_layers_built_alike_fold_into_one_and_unlike_ones_stay(forecast: Forecast) -> None:
    labels = ("h.0.mlp", "h.1.mlp", "h.2.moe", "h.3.mlp", "features.0", "features.1", "")
    tree = figures.plot_modules(replace(forecast, by_module=modules(*labels))).data[0]
    assert {"h.0–1", "h.2", "h.3", "features.0", "features.1"} <= set(tree.labels)


def test_lists_within_lists_fold_too(forecast: Forecast) -> None:
    labels = [f"h.{layer}.experts.{expert}.w" for layer in range(3) for expert in range(4)]
    tree = figures.plot_modules(replace(forecast, by_module=modules(*labels))).data[0]
    assert {"h.0–2", "experts.0–3", "w"} <= set(tree.labels)
    assert max(tree.values) == len(labels)


def test_no_operation_lies_above_the_roof(forecast: Forecast) -> None:
    roof, _, *families = figures.plot_roofline(forecast).data
    assert max(roof.y) == PEAK_FLOPS_PER_SECOND
    for family in families:
        for intensity, rate in zip(family.x, family.y, strict=True):
            limit = min(PEAK_FLOPS_PER_SECOND, intensity * forecast.memory_bytes_per_second)
            assert rate <= limit


def test_a_long_memory_plot_is_thinned_and_keeps_its_peak() -> None:
    forecast = small_forecast(num_layers=150)
    figure = memory_figures.plot_memory(forecast)
    tops = [sum(values) for values in zip(*(trace.y for trace in figure.data), strict=True)]
    assert len(tops) == memory_figures.MAX_PLOTTED_POINTS
    assert max(tops) * 2**30 == pytest.approx(forecast.memory.peak_bytes)
    assert "peak" in figure.layout.annotations[-1].text


def test_the_capacity_line_is_drawn_where_it_is_near() -> None:
    near = memory_figures.plot_memory(small_forecast(capacity_bytes=2**29))
    far = memory_figures.plot_memory(small_forecast(capacity_bytes=2**40))
    assert "capacity<br>512 MiB" in [note.text for note in near.layout.annotations]
    assert {shape.y0 for shape in near.layout.shapes} == {512.0}
    assert len(far.layout.shapes) == 0


def test_figures_of_an_empty_step_are_drawn(forecast: Forecast) -> None:
    memory = replace(
        forecast.memory, timeline_bytes=(), timeline_bytes_by_category={}, peak_node=-1, intervals=()
    )
    empty = replace(
        forecast,
        by_kind=(),
        by_module=(),
        operations=(),
        seconds_by_phase={},
        node_seconds=(),
        memory=memory,
    )
    for plot in (
        figures.plot_kinds,
        figures.plot_phases,
        figures.plot_modules,
        figures.plot_roofline,
        memory_figures.plot_memory,
        memory_figures.plot_memory_by_module,
    ):
        assert plot(empty).to_plotly_json()
