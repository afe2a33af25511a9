"""Forecasts over what is varied, whose engines' step times are built once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from perfcast.core.forecast.serving_sweep import ServingSweep, SweptPoint
from perfcast.errors import InputError, PlanError
from perfcast.prediction.request.serving import ServingRequest
from perfcast.prediction.serving.engines import StepTables
from perfcast.prediction.serving.predict import predict_serving


def sweep_serving(
    points: Sequence[tuple[Mapping[str, str], ServingRequest]],
    on_point: Callable[[Mapping[str, str]], None] | None = None,
) -> ServingSweep:
    """Every point; one that cannot be forecast says why.

    Args:
        points: What is varied, as text, and the request.
        on_point: Called with the former before each.

    Raises:
        InputError: No point can be forecast; the message is of the first.
    """
    tables, found = StepTables(), []
    for values, request in points:
        if on_point is not None:
            on_point(values)
        try:
            found.append(SweptPoint(values, predict_serving(request, tables)))
        except PlanError as error:
            found.append(SweptPoint(values, None, str(error)))
    if all(point.forecast is None for point in found):
        more = f", and the other {len(found) - 1} neither" if len(found) > 1 else ""
        raise InputError(f"the first point cannot be forecast{more}: {found[0].skipped}")
    return ServingSweep(tuple(found))
