from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from builders import PEAK_FLOPS_PER_SECOND, small_forecast
from perfcast.core.forecast.device import Forecast, KindTime
from perfcast.report.documents.memory import curves as memory_curves
from perfcast.report.documents.step import device as step
from perfcast.report.figure import Curve, Figure
from perfcast.report.page import render_page
from perfcast.report.plots import draw, plotly_dict


def modules(*labels: str) -> tuple[KindTime, ...]:
    return tuple(KindTime(label, 1.0, 1, 0, 0) for label in labels)


def test_bars_are_in_seconds_longest_on_top_and_leave_out_what_takes_no_time(forecast: Forecast) -> None:
    figure = step.kinds_figure(forecast)
    names = [name for _, name in figure.y.ticks]
    bar = figure.series[0]
    assert list(bar.values) == sorted(bar.values, reverse=True)
    assert names[0] == "matmul"
    assert "allocation" not in names
    assert sum(bar.values) == pytest.approx(forecast.step_seconds)


def test_module_times_add_up_from_the_leaves_to_the_model(forecast: Forecast) -> None:
    tree = step.modules_figure(forecast).series[0]
    values = dict(zip(tree.ids, tree.values, strict=True))
    assert values[""] == pytest.approx(forecast.step_seconds)
    for name, total in values.items():
        children = [v for i, v in values.items() if i and tree.parents[list(values).index(i)] == name]
        assert sum(children) <= total * (1 + 1e-9)
    assert set(tree.parents) - {""} <= set(tree.ids)


def test_layers_built_alike_fold_into_one_and_unlike_ones_stay(forecast: Forecast) -> None:
    labels = ("h.0.mlp", "h.1.mlp", "h.2.moe", "h.3.mlp", "features.0", "features.1", "")
    tree = step.modules_figure(replace(forecast, by_module=modules(*labels))).series[0]
    assert {"h.0–1", "h.2", "h.3", "features.0", "features.1"} <= set(tree.labels)


def test_lists_within_lists_fold_too(forecast: Forecast) -> None:
    labels = [f"h.{layer}.experts.{expert}.w" for layer in range(3) for expert in range(4)]
    tree = step.modules_figure(replace(forecast, by_module=modules(*labels))).series[0]
    assert {"h.0–2", "experts.0–3", "w"} <= set(tree.labels)
    assert max(tree.values) == len(labels)


def test_no_operation_lies_above_the_roof(forecast: Forecast) -> None:
    roof, _, *families = step.roofline_figure(forecast).series
    assert max(roof.y) == PEAK_FLOPS_PER_SECOND
    for family in families:
        for intensity, rate in zip(family.x, family.y, strict=True):
            limit = min(PEAK_FLOPS_PER_SECOND, intensity * forecast.memory_bytes_per_second)
            assert rate <= limit


def test_a_long_memory_plot_is_thinned_and_keeps_its_peak() -> None:
    forecast = small_forecast(num_layers=150)
    figure = memory_curves.memory_figure(forecast)
    tops = [sum(values) for values in zip(*(series.y for series in figure.series), strict=True)]
    assert len(tops) == memory_curves.MAX_POINTS
    assert max(tops) == forecast.memory.peak_bytes
    assert "peak" in figure.labels[-1].bold


def test_the_capacity_line_is_drawn_where_it_is_near() -> None:
    near = draw(memory_curves.memory_figure(small_forecast(capacity_bytes=2**29)))
    far = draw(memory_curves.memory_figure(small_forecast(capacity_bytes=2**40)))
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
        step.kinds_figure,
        step.modules_figure,
        step.roofline_figure,
        memory_curves.memory_figure,
        memory_curves.memory_by_module_figure,
    ):
        assert draw(plot(empty)).to_plotly_json()
    assert render_page(step.document_of(empty))


def test_bytes_are_drawn_in_the_unit_that_the_title_says(forecast: Forecast) -> None:
    figure = memory_curves.memory_figure(forecast)
    drawn = draw(figure)
    assert drawn.layout.yaxis.title.text == "memory (MiB)"
    assert drawn.data[0].y[0] == pytest.approx(figure.series[0].y[0] / 2**20)


def test_text_of_a_figure_is_never_markup() -> None:
    curve = Curve(name="<b>x</b>", x=(0.0,), y=("<i>",), colour="red", hovers=("one\n<u>two",))
    (trace,) = draw(Figure(name="f", series=(curve,), height=100)).data
    assert trace.name == "&lt;b&gt;x&lt;/b&gt;"
    assert trace.y == ("&lt;i&gt;",)
    assert trace.customdata == ("<b>one</b><br>&lt;u&gt;two",)


def test_a_figure_as_plain_data_is_json_and_what_plotly_draws(forecast: Forecast) -> None:
    for figure in (
        step.roofline_figure(forecast),
        step.modules_figure(forecast),
        step.kinds_figure(forecast),
    ):
        plain = json.loads(json.dumps(plotly_dict(figure), allow_nan=False))
        drawn = json.loads(draw(figure).to_json())
        assert [trace["type"] for trace in plain["data"]] == [trace["type"] for trace in drawn["data"]]
        said = {key: value for key, value in plain["layout"].items() if value != []}
        assert said == {key: value for key, value in drawn["layout"].items() if key != "template"}


def test_plain_data_of_a_figure_needs_no_plotly() -> None:
    check = (
        "import sys; from perfcast.report.figure import *; from perfcast.report.plots import plotly_dict\n"
        "plotly_dict(Figure(name='f', height=9, series=(Curve(x=(1.0,), y=(2.0,), colour='red'),)))\n"
        "sys.exit('plotly' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
