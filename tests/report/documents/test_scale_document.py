from made_up_steps import step_forecast
from perfcast.core.plan import Plan
from perfcast.prediction.sweep.scale import ScaleCurve, ScaleForecast, ScalePoint
from perfcast.report.data.scale import data_of
from perfcast.report.documents.scale import describe_degrees, document_of, parts_figure, throughput_figure
from perfcast.report.page import render_page
from rendered import json_of, text_of


def made_up_scaling(is_weak: bool = False) -> ScaleForecast:
    parts = {"tensor": 1.0, "bubble": 2.0}
    points = tuple(
        ScalePoint(
            count,
            64,
            step_forecast(causes=parts, num_devices=count, plan=Plan(data_parallel=count)),
            efficiency=8 / count,
        )
        for count in (8, 16)
    )
    points = (*points, ScalePoint(24, 64, None, "64 sequences are no multiple of 24"))
    first = ScaleCurve("one", "<First>", "h100-sxm", points)
    curves = (first, ScaleCurve("two", "Second", "gb200", points[:2]))
    return ScaleForecast("a-model", None, 128, is_weak, 64, curves, ("as always",))


def test_the_table_has_a_row_for_each_number_of_devices_within_80_columns() -> None:
    text = text_of(document_of(made_up_scaling()))
    assert "strong scaling: 64 sequences of 128 tokens" in text
    for words in ("10.0 s", "50.0 %", "20.0 %", "no multiple of 24", "as always", "<First>"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_growing_batch_is_shown() -> None:
    assert "Batch" in text_of(document_of(made_up_scaling(is_weak=True)))
    assert "Batch" not in text_of(document_of(made_up_scaling()))


def test_json_says_why_a_point_is_missing() -> None:
    data = json_of(data_of(made_up_scaling()))
    first, _, missing = data["curves"][0]["points"]
    assert (first["efficiency"], first["bubble_share"]) == (1.0, 0.2)
    assert first["plan"]["data_parallel"] == 8
    assert missing["skipped"] == "64 sequences are no multiple of 24"
    assert missing["step_seconds"] is None


def test_the_page_has_all_clusters_on_one_chart_and_nothing_from_outside() -> None:
    html = render_page(document_of(made_up_scaling()))
    assert "&lt;First&gt;" in html
    assert "src=" not in html.partition("<body>")[2].split("<script")[0]
    names = {one.name for one in throughput_figure(made_up_scaling()).series if one.name}
    assert names == {"<First>", "Second"}


def test_parts_of_a_step_add_up_to_it() -> None:
    figure = parts_figure(made_up_scaling().curves[0])
    assert [sum(values) for values in zip(*(bar.values for bar in figure.series), strict=True)] == [1.0, 1.0]


def test_a_plan_is_named_by_what_is_more_than_one() -> None:
    plan = Plan(
        tensor_parallel=8,
        pipeline_parallel=2,
        data_parallel=4,
        zero_stage=1,
        sequence_parallel=True,
        recompute="full",
    )
    assert describe_degrees(plan) == "tp=8 pp=2 zero=1 recompute=full"
    assert describe_degrees(Plan()) == "dp alone"
    assert describe_degrees(None) == ""
