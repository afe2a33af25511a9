"""Error tables of suites in a terminal."""

from __future__ import annotations

from typing import Any

from perfcast.report.documents.evidence.errors import with_error_figures
from perfcast.report.documents.evidence.validation import suite_document
from perfcast.report.figure import Curve
from rendered import figure_names, figure_of, text_of


def entry(
    predictor: str, group: str, value: str, error: float | None, n: int = 4, **more: Any
) -> dict[str, Any]:
    return {
        "predictor": predictor, "group": group, "value": value, "n": n, "skipped": 1,
        "mean_absolute_relative_error": error, "median_absolute_relative_error": error,
        "p90_absolute_relative_error": error, "mean_relative_error": error, "coverage": None, **more,
    }  # fmt: skip


def printed(*entries: dict[str, Any], width: int = 80) -> str:
    return text_of(suite_document(entries), width)


def test_predictors_stand_side_by_side_with_rows_and_coverage() -> None:
    out = printed(
        entry("learned", "quality, operation, device", "sound, gemm, h100_sxm", 0.082, coverage=0.9),
        entry("roofline", "quality, operation, device", "sound, gemm, h100_sxm", 0.5, n=7),
        entry("roofline", "quality, operation, device", "above peak, gemm, h100_sxm", 0.9),
    )
    (line,) = [line for line in out.splitlines() if "h100_sxm" in line]
    assert line.split() == ["gemm,", "h100_sxm", "8.2", "(4)", "90", "%", "50.0", "(7)"]


def test_reasons_to_skip_are_counted() -> None:
    out = printed(
        entry("learned", "skipped", "unknown device", None, n=0, skipped=1200),
        entry("learned", "skipped", "unsupported plan", None, n=0, skipped=3),
    )
    assert "learned skipped 1,203 rows: unknown device 1,200, unsupported plan 3" in out


def test_a_wide_table_keeps_every_column_on_a_narrow_terminal() -> None:
    predictors = [f"published:predictor{i}" for i in range(8)]
    out = printed(*(entry(name, "variant", "a rather long name of a variant", 0.1) for name in predictors))
    (line,) = [line for line in out.splitlines() if "rather long" in line]
    assert line.count("10.0 (4)") == 8
    assert "…" not in out


def test_a_paired_difference_shows_its_interval() -> None:
    more = {
        "mean_absolute_relative_error_other": 0.11,
        "mean_difference": -0.03,
        "mean_difference_low": -0.06,
        "mean_difference_high": 0.01,
        "wins": 3,
    }
    out = printed(entry("learned", "paired with published:neusight", "eager", 0.08, **more))
    (line,) = [line for line in out.splitlines() if "eager" in line]
    assert line.split() == ["eager", "4", "8.0", "11.0", "-3.0", "-6.0", "to", "+1.0", "3", "of", "4"]


def test_errors_are_drawn_by_group_the_worst_on_top_with_a_line_to_the_90th_percentile() -> None:
    entries = [
        entry("learned", "device", "h100", 0.05, p90_absolute_relative_error=0.2),
        entry("learned", "device", "t4", 0.3, p90_absolute_relative_error=0.4),
        entry("roofline", "device", "t4", 0.1),
        entry("learned", "all", "all", 0.1),
        entry("learned", "mode", "train", 0.1),
    ]
    document = with_error_figures(suite_document(entries), entries)
    assert figure_names(document) == ["error-0"]
    learned, roofline = figure_of(document, "error-0").series
    assert isinstance(learned, Curve)
    assert isinstance(roofline, Curve)
    assert learned.y == ("t4", "h100")
    assert learned.errors == ((0.3, 0.4), (0.05, 0.2))
    assert roofline.x == (0.1,)


def test_errors_of_many_sizes_have_a_logarithmic_axis() -> None:
    entries = [entry("learned", "size", "small", 190.0), entry("learned", "size", "large", 0.0)]
    figure = figure_of(with_error_figures(suite_document(entries), entries), "error-0")
    assert figure.x.scale == "log"
    (curve,) = figure.series
    assert curve.x == (190.0, figure.x.low)
