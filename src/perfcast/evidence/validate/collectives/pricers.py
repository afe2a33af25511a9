"""Predictors of collectives: ``datasheet`` from the catalog, ``fitted`` from half of a sweep's sizes."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.cost.collective.constants import Constants
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.table import collective_table
from perfcast.cost.collective_fit import LEAST_SIZES, fit_curve
from perfcast.errors import CalibrationError
from perfcast.evidence.validate.collectives.cases import CollectiveCases
from perfcast.evidence.validate.kernels.pricers import NO_PREDICTOR, Prices

_TAIL = 0.05
#: Beside what a curve leaves unexplained, repeats of one measurement differ by a median of 5 %.
_LEAST_SPREAD = 0.05


def price_datasheet(cases: CollectiveCases, constants: Constants | None = None) -> Prices:
    """Every case by the catalog's links and the shipped (or given) constants."""
    prices = Prices.none(len(cases), "")
    prices.reason[:] = cases.cases.reason
    spans = _spans(cases)
    names = np.array([place.cluster.name for place in cases.places] + [""], dtype=object)[cases.placed]
    for name in sorted({place.cluster.name for place in cases.places}):
        rows = np.flatnonzero(names == name)
        if not len(rows):
            continue
        clusters = [place.cluster for place in cases.places if place.cluster.name == name]
        cluster = max(clusters, key=lambda cluster: cluster.num_devices)
        table = collective_table(
            cases.collectives[rows],
            cases.message_bytes[rows],
            spans[rows, : len(cluster.levels)],
            reducible=cases.reducible[rows],
        )
        times = price_collectives(cluster, table, constants=constants)
        prices.seconds[rows], prices.low[rows], prices.high[rows] = times.seconds, times.low, times.high
        prices.provenance[rows] = "extrapolated"
    return prices


def _spans(cases: CollectiveCases) -> Integers:
    """Members of each case's group on every level, filled up with ones to the deepest tree, shape [n, L]."""
    depth = max((len(place.span) for place in cases.places), default=1)
    rows = [[*place.span, *[1] * (depth - len(place.span))] for place in cases.places] + [[1] * depth]
    return np.array(rows, dtype=np.int64)[cases.placed]


def price_fitted(cases: CollectiveCases) -> Prices:
    """Every sweep is fitted on every other size and forecast at the sizes between, both ways round.

    A row is never forecast by a curve that has seen its size. Sweeps with fewer than twice the sizes that a
    curve needs have no forecast. The interval is what the curve leaves at the sizes it was fitted on.
    """
    prices = Prices.none(len(cases), "")
    prices.reason[:] = cases.cases.reason
    usable = (cases.placed >= 0) & (cases.cases.seconds > 0)
    prices.reason[(cases.placed >= 0)] = NO_PREDICTOR
    for number in np.unique(cases.curves[usable]).tolist():
        rows = np.flatnonzero(usable & (cases.curves == number))
        sizes, index = np.unique(cases.message_bytes[rows], return_inverse=True)
        if len(sizes) < 2 * LEAST_SIZES:
            continue
        for half in (0, 1):
            _price_half(cases, prices, rows[index % 2 != half], rows[index % 2 == half])
    return prices


def _price_half(cases: CollectiveCases, prices: Prices, known: Integers, asked: Integers) -> None:
    sizes, seconds = cases.message_bytes, cases.cases.seconds
    try:
        curve = fit_curve(sizes[known], seconds[known])
    except CalibrationError:
        return
    ratios = seconds[known] / curve.seconds(sizes[known])
    low, high = np.quantile(ratios, [_TAIL, 1 - _TAIL])
    answer = curve.seconds(sizes[asked])
    prices.seconds[asked] = answer
    prices.low[asked] = answer * min(low, 1 - _LEAST_SPREAD)
    prices.high[asked] = answer * max(high, 1 + _LEAST_SPREAD)
    inside = (sizes[asked] >= curve.least_bytes) & (sizes[asked] <= curve.most_bytes)
    prices.provenance[asked] = np.where(inside, "interpolated", "extrapolated")
    prices.reason[asked] = ""
