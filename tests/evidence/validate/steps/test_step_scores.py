"""Two predictors on the same steps."""

from __future__ import annotations

import pytest

from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.steps.scores import cluster_bootstrap, compare, score_parts, score_steps


def row(
    predictor: str, number: int, predicted: float | None, device: str = "d", **parts: float | None
) -> Row:
    columns = {f"{kind}_{part}_seconds": parts.get(f"{kind}_{part}")
               for kind in ("predicted", "measured") for part in ("forward", "backward")}  # fmt: skip
    return Row(
        suite="neusight", table="steps", row=number, device=device, catalog_device=None, predictor=predictor,
        operation="step", mode="train", columns={"model": "m", **columns}, predicted_seconds=predicted,
        measured_seconds=1.0, skipped=None if predicted else "unsupported plan",
    )  # fmt: skip


def test_the_difference_is_of_steps_that_both_predicted() -> None:
    rows = [row("a", 0, 1.1), row("b", 0, 1.3), row("a", 1, 0.9), row("b", 1, 1.0), row("a", 2, 5.0),
            row("b", 2, None)]  # fmt: skip
    (entry,) = compare(rows, "a", "b", {"all": lambda r: True, "nothing": lambda r: False})
    assert entry["n"] == 2
    assert entry["mean_difference"] == pytest.approx((0.1 - 0.3 + 0.1 - 0.0) / 2)
    assert entry["mean_absolute_relative_error_other"] == pytest.approx(0.15)
    assert (entry["wins"], entry["num_clusters"]) == (1, 1)
    assert entry["group"] == "paired with b"


def test_one_cluster_has_no_spread_and_two_range_between_their_means() -> None:
    assert cluster_bootstrap([[0.1, 0.3]]) == pytest.approx((0.2, 0.2))
    assert cluster_bootstrap([[0.0, 0.0], [1.0]]) == pytest.approx((0.0, 1.0))


def test_the_bootstrap_is_the_same_every_time_and_narrows_with_clusters() -> None:
    few, many = ([[i % 5 / 5.0] for i in range(n)] for n in (10, 200))
    assert cluster_bootstrap(few) == cluster_bootstrap(few)
    widths = [high - low for low, high in map(cluster_bootstrap, (few, many))]
    assert widths[1] < widths[0] / 3
    assert widths[1] == pytest.approx(2 * 1.645 * 0.283 / 200**0.5, rel=0.15)


def test_forward_and_backward_are_scored_apart_where_both_are_told() -> None:
    told = row("a", 0, 3.0, predicted_forward=1.0, measured_forward=2.0, predicted_backward=2.0,
               measured_backward=1.0)  # fmt: skip
    printed = row("b", 0, 3.0, measured_forward=2.0, measured_backward=1.0)
    parts = {(s.predictor, s.labels["part"][0]): s.errors[0] for s in score_parts([told, printed])}
    assert parts == {("a", "forward"): pytest.approx(-0.5), ("a", "backward"): pytest.approx(1.0)}


def test_a_step_without_a_forecast_counts_as_skipped() -> None:
    (scores,) = score_steps([row("a", 0, None), row("a", 1, 2.0)], lambda r: "somewhere")
    assert scores.skipped.tolist() == [True, False]
    assert scores.labels["skipped"].tolist() == ["unsupported plan", ""]
    assert scores.labels["distribution"].tolist() == ["somewhere"] * 2
