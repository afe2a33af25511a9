"""What a forecast is at a prompt: its figures, not its lists."""

import pytest

from builders import small_forecast
from plan_forecasts import plan_forecast
from serving_forecasts import sweep, with_both_forms

#: Letters that a prompt shows of one forecast without being flooded.
MOST_LETTERS = 4000


@pytest.mark.parametrize(
    "make", [small_forecast, plan_forecast, with_both_forms], ids=lambda make: make.__name__
)
def test_a_forecast_at_a_prompt_is_its_figures_alone(make):
    forecast = make()
    assert len(repr(forecast)) < MOST_LETTERS
    assert "model=" in repr(forecast)


def test_a_sweep_names_its_points_without_their_forecasts():
    found = sweep()
    assert repr(found.points[0]) == "SweptPoint(values={'plan': 'tp=2', 'concurrency': '1'}, skipped='')"
    assert len(repr(found)) < 100 * len(found.points)


def test_a_graph_at_a_prompt_has_no_nodes():
    assert len(repr(small_forecast().graph)) < MOST_LETTERS
