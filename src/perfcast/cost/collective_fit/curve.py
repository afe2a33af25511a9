"""A fitted curve: its form, its range and its quality; JSON of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perfcast.core.arrays import Floats
from perfcast.cost.collective_fit.affine import Affine
from perfcast.cost.collective_fit.interpolate import Interpolated
from perfcast.cost.collective_fit.sigmoid import Sigmoid
from perfcast.cost.fit_quality import Quality, describe_fit, judge_fit, spread_of_fit
from perfcast.errors import CalibrationError

Form = Affine | Sigmoid | Interpolated

_FORMS: Mapping[str, type[Affine] | type[Sigmoid] | type[Interpolated]] = {
    "affine": Affine,
    "sigmoid": Sigmoid,
    "interpolated": Interpolated,
}


@dataclass(frozen=True, slots=True)
class FittedLine:
    """latency + bytes / bandwidth through all sizes (``affine.fit_affine``), whatever form the curve has.

    Attributes:
        r_squared: Of the logarithms of time, at the sizes it was fitted on.
        mape: Mean absolute relative error there.
    """

    latency_seconds: float
    bytes_per_second: float
    r_squared: float
    mape: float

    def seconds(self, sizes_bytes: ArrayLike) -> Floats:
        """Time of messages of the sizes given, in an array of the same shape."""
        return self.latency_seconds + np.asarray(sizes_bytes, dtype=np.float64) / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds over message size, never falling.

    Attributes:
        form: Which curve, with its parameters.
        count: Different sizes that it was fitted on.
        least_bytes, most_bytes: Range of the sizes; beyond it the curve is extrapolated.
        r_squared: Of the logarithms of time, at the sizes it was fitted on.
        mape: Mean absolute relative error there.
        held_out_mape: The same at every other size, by fits of this form on the sizes between.
        line: Latency and bandwidth in two numbers; None where a file of before does not say.
    """

    form: Form
    count: int
    least_bytes: float
    most_bytes: float
    r_squared: float
    mape: float
    held_out_mape: float
    line: FittedLine | None = None

    @property
    def form_name(self) -> str:
        """'affine', 'sigmoid' or 'interpolated'."""
        return next(name for name, kind in _FORMS.items() if isinstance(self.form, kind))

    @property
    def quality(self) -> Quality:
        """See ``cost.fit_quality``."""
        return judge_fit(self.held_out_mape, self.r_squared, spread_of_fit(self.held_out_mape))

    @property
    def described_quality(self) -> str:
        """What to think of the curve, and why, as a part of a sentence."""
        return describe_fit(self.held_out_mape, self.r_squared, spread_of_fit(self.held_out_mape))

    def seconds(self, sizes_bytes: ArrayLike) -> Floats:
        """Time of messages of the sizes given, in an array of the same shape."""
        return self.form.seconds(np.asarray(sizes_bytes, dtype=np.float64))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; infinite rates become null."""
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("form", "line")}
        plain = {"form": self.form_name, "parameters": _without_infinity(self.form), **data}
        return plain if self.line is None else {**plain, "line": _without_infinity(self.line)}

    @classmethod
    def from_json(cls, data: Any, where: str = "curve") -> Curve:
        """Read back what ``to_json`` made.

        Raises:
            CalibrationError: A key is missing, of the wrong type or impossible; says which.
        """
        found = data.get("form") if isinstance(data, dict) else type(data).__name__
        if not isinstance(data, dict) or not isinstance(found, str) or found not in _FORMS:
            raise CalibrationError(f"{where}: form is {found!r}; expected one of {', '.join(_FORMS)}")
        kind = _FORMS[found]
        parameters = data.get("parameters")
        if not isinstance(parameters, dict):
            raise CalibrationError(f"{where}: 'parameters' must be an object")
        form = kind(**{f.name: _parameter(parameters, f, where) for f in fields(kind)})
        if isinstance(form, Interpolated):
            _check_knots(form, where)
        names = [f.name for f in fields(cls)[2:] if f.name != "line"]
        numbers = {name: _number(data, name, where) for name in names}
        line = data.get("line")
        if line is not None and not isinstance(line, dict):
            raise CalibrationError(f"{where}: 'line' must be an object")
        found_line = None if line is None else _line(line, f"{where}: line")
        return cls(form, int(_number(data, "count", where)), line=found_line, **numbers)


def _without_infinity(figures: Form | FittedLine) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in asdict(figures).items()
    }


def _line(data: Mapping[str, Any], where: str) -> FittedLine:
    parameters = [_parameter(data, f, where) for f in fields(FittedLine)[:2]]
    return FittedLine(*parameters, *(_number(data, name, where) for name in ("r_squared", "mape")))


def _parameter(data: Mapping[str, Any], field: Field[Any], where: str) -> Any:
    """A number, infinity where null stands for a rate; a row of numbers where the form has one."""
    name = field.name
    if str(field.type).startswith("tuple"):
        if not isinstance(data.get(name), list):
            raise CalibrationError(f"{where}: {name} must be a list of numbers")
        return tuple(_checked(value, name, where) for value in data[name])
    if name in data and data[name] is None and name.endswith("bytes_per_second"):
        return math.inf
    value = _number(data, name, where)
    is_signed, may_be_zero = name in ("centre", "base"), name == "latency_seconds"
    if not is_signed and (value < 0 or (value == 0 and not may_be_zero)):
        raise CalibrationError(f"{where}: {name} is {value:g}, which cannot be")
    return value


def _number(data: Mapping[str, Any], name: str, where: str) -> float:
    if name not in data:
        raise CalibrationError(f"{where}: '{name}' is missing")
    return _checked(data[name], name, where)


def _checked(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CalibrationError(f"{where}: {name} is {value!r}; expected a finite number")
    return float(value)


def _check_knots(form: Interpolated, where: str) -> None:
    sizes, times = form.sizes_bytes, form.knot_seconds
    is_good = (
        isinstance(sizes, tuple)
        and isinstance(times, tuple)
        and len(sizes) == len(times) >= 2
        and all(a < b for a, b in pairwise(sizes))
        and all(a <= b for a, b in pairwise(times))
        and sizes[0] == 0
        and times[0] >= 0
    )
    if not is_good:
        raise CalibrationError(f"{where}: knots must rise from size 0, with times that never fall")
