"""Rows that a published system gains from measured steps."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from perfcast.evidence.validate.steps.study_figures import figures_of, product_errors, with_study
from perfcast.published.comparison import Comparison
from perfcast.published.nets.compare import PLACES, describe_row
from perfcast.published.registry import BATCHED_PRODUCT_NETS
from perfcast.published.systems import compare_system


def entry(group: str, value: str, predictor: str, error: float, n: int = 3) -> dict[str, object]:
    return {
        "group": group, "value": value, "predictor": predictor, "n": n, "mean_absolute_relative_error": error,
    }  # fmt: skip


def test_a_row_holds_the_printed_error_and_ours_over_the_same_steps_totals_last():
    summary = [
        entry("all", "all", "li2020", 0.2), entry("all", "all", "published:li2020", 0.86),
        entry("mode, distribution", "train, unseen device", "li2020", 0.07),
        entry("mode, distribution", "train, unseen model", "li2020", 0.0, n=0),
        entry("device", "l4", "li2020", 0.5), entry("all", "all", "learned", 0.07),
    ]  # fmt: skip
    first, last = figures_of(summary, ["li2020"])
    assert (first.what, first.published) == (
        "li2020, mean error of steps: train, unseen device (3)", None
    )  # fmt: skip
    assert first.ours == pytest.approx(7.0)
    assert last.difference == pytest.approx(20 - 86)


def test_a_predictor_that_is_not_trained_is_named_with_its_command(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
    found = with_study(Comparison(system="habitat", paper="p", protocol="q", reason="r"), tmp_path)
    assert found.reason == "r habitat: not trained (perfcast train habitat --data DIR)"
    assert not found.figures


def test_rows_of_nets_are_those_that_their_comparison_has():
    rows = {one.what for one in compare_system("nets").figures}
    assert {describe_row(net, place) for net in BATCHED_PRODUCT_NETS for place in PLACES} == rows


def test_products_larger_than_those_trained_on_are_out_of_distribution(tmp_path: Path):
    sizes = {"B": [16, 2048], "M": [256, 256], "N": [512, 512], "K": [128, 128]}
    figures = {"op": ["bmm"] * 2, "latency_ms": [1.0, 1000.0], "device": ["Tesla T4"] * 2}
    pl.DataFrame({**figures, **sizes}).write_parquet(tmp_path / "bmm_test.parquet")
    found = product_errors(["roofline"], tmp_path)
    flops, peak = 2 * 16 * 256 * 512 * 128, 8.141e12
    inside, outside = (found[describe_row("roofline", place)] for place in PLACES)
    assert inside == pytest.approx(100 * (1 - flops / peak / 1e-3), abs=1.0)
    assert outside == pytest.approx(100 * (1 - 128 * flops / peak), abs=1.0)


def test_other_systems_stay_as_they_are(tmp_path: Path):
    found = Comparison(system="mystique", paper="p", protocol="q", reason="r")
    assert with_study(found, tmp_path) == found
