"""A curve as data: JSON there and back, and what cannot be one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from perfcast.cost.collective_fit import Curve, FittedLine
from perfcast.cost.collective_fit.affine import Affine
from perfcast.cost.collective_fit.interpolate import Interpolated
from perfcast.cost.collective_fit.sigmoid import Sigmoid
from perfcast.errors import CalibrationError

FORMS = (
    Affine(1e-5, 1e9),
    Affine(1e-5, float("inf")),
    Sigmoid(4.0, 0.28, 17.0, -7.0, 2.0**12, 2.0**26, 9e10),
    Interpolated((0.0, 1.0, 2.0), (0.0, 1.0, 1.0), float("inf")),
)


def curve_of(form: Affine | Sigmoid | Interpolated) -> Curve:
    return Curve(form, 9, 1e3, 1e9, 0.99, 0.02, 0.03)


@pytest.mark.parametrize("rate", [2e9, float("inf")])
def test_a_line_survives_json_and_files_of_before_have_none(rate: float):
    curve = replace(curve_of(FORMS[0]), line=FittedLine(1e-5, rate, 0.9, 0.1))
    assert Curve.from_json(json.loads(json.dumps(curve.to_json(), allow_nan=False))) == curve
    assert Curve.from_json(curve_of(FORMS[0]).to_json()).line is None
    with pytest.raises(CalibrationError, match="'line' must be an object"):
        Curve.from_json({**curve_of(FORMS[0]).to_json(), "line": 3})


@pytest.mark.parametrize("form", FORMS)
def test_a_curve_survives_json(form: Affine | Sigmoid | Interpolated):
    curve = curve_of(form)
    text = json.dumps(curve.to_json(), allow_nan=False)
    assert Curve.from_json(json.loads(text)) == curve


def test_seconds_have_the_shape_of_the_sizes():
    curve = curve_of(Affine(1.0, 1.0))
    assert curve.seconds([[1.0, 2.0], [3.0, 4.0]]).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert curve.seconds(np.float64(1.0)).shape == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"form": "cubic"}, "form is 'cubic'"),
        ({"parameters": []}, "'parameters' must be an object"),
        ({"parameters": {"latency_seconds": 0.0}}, "'bytes_per_second' is missing"),
        ({"parameters": {"latency_seconds": -1.0, "bytes_per_second": 1.0}}, "latency_seconds is -1"),
        ({"parameters": {"latency_seconds": 0.0, "bytes_per_second": 0.0}}, "bytes_per_second is 0"),
        ({"mape": "good"}, "mape is 'good'"),
    ],
)
def test_what_cannot_be_a_curve_is_refused(change: dict[str, object], words: str):
    data = curve_of(FORMS[0]).to_json()
    with pytest.raises(CalibrationError, match=words):
        Curve.from_json({**data, **change})


@pytest.mark.parametrize(
    ("sizes", "times"), [([0.0, 2.0, 1.0], [0.0, 1.0, 2.0]), ([0.0, 1.0], [2.0, 1.0]), ([0.0], [1.0])]
)
def test_knots_out_of_order_are_refused(sizes: list[float], times: list[float]):
    data = curve_of(FORMS[3]).to_json()
    data["parameters"] = {"sizes_bytes": sizes, "knot_seconds": times, "beyond_bytes_per_second": 1.0}
    with pytest.raises(CalibrationError, match="knots must rise"):
        Curve.from_json(data)
