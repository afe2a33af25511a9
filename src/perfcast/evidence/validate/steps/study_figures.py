"""Errors of whole steps as NeuSight's study printed them, beside those of the predictors trained here.

Rows that a published system gains from measured steps: both columns are mean absolute errors over
the same steps, those of ``perfcast validate neusight --study``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.evidence.validate.kernels.trained import STUDY_DEVICES, find_trained
from perfcast.evidence.validate.steps.suite import validate_neusight
from perfcast.published.comparison import Comparison, Figure
from perfcast.published.nets.compare import PLACES, describe_row
from perfcast.published.registry import BATCHED_PRODUCT_NETS, PREDICTORS, training_command

#: System → its predictors whose steps the study printed.
SCORED: Mapping[str, tuple[str, ...]] = {
    "neusight": ("neusight", "roofline"),
    "habitat": ("habitat",),
    "li2020": ("li2020",),
    "nets": tuple(BATCHED_PRODUCT_NETS),
}
#: Groups of the suite's summary that are shown, in order.
_GROUPS = ("mode, distribution", "mode", "all")
#: Devices and sizes of the products that nets were trained on; the study's grid ends there.
_TRAINED_ON = sorted(STUDY_DEVICES)
LARGEST_TRAINED = 1024


def with_study(found: Comparison, data: Path) -> Comparison:
    """A comparison with a row for each set of steps and each of its predictors that is trained.

    Predictors that are not trained are named in its reason, with the command that trains them.

    Raises:
        InputError: The folder holds no steps of the study.
    """
    names = SCORED.get(found.system, ())
    ready = tuple(name for name in names if not PREDICTORS[name].is_trained or find_trained(name, "nvidia"))
    lacking = [f"{name}: not trained ({training_command(name)})" for name in names if name not in ready]
    reason = " ".join(filter(None, (found.reason, "; ".join(lacking))))
    if found.system == "nets":
        ours = product_errors(ready, data) if ready else {}
        scored = tuple(replace(one, ours=ours.get(one.what)) for one in found.figures)
        return replace(found, figures=scored, reason=reason)
    figures = study_figures(ready, data) if ready else ()
    return replace(found, figures=(*found.figures, *figures), reason=reason)


def product_errors(names: Sequence[str], data: Path) -> dict[str, float]:
    """Mean errors in percent of nets on the study's test products, by the row of their comparison.

    In distribution are devices that were trained on and sizes of at most what was (``LARGEST_TRAINED``).
    """
    result = validate_neusight([_folder(data) / "bmm_test.parquet"], names)
    errors: dict[str, list[Floats]] = {}
    for priced in result.priced:
        cases = priced.cases
        if cases.kernels is None:
            continue
        sizes = np.stack([cases.kernels.size(name) for name in ("batch", "m", "k", "n")])
        is_inside = (sizes <= LARGEST_TRAINED).all(axis=0) & np.isin(cases.catalog_device, _TRAINED_ON)
        for name, prices in priced.prices.items():
            apart = np.abs(prices.seconds / cases.seconds - 1)
            for place, rows in zip(PLACES, (is_inside, ~is_inside), strict=True):
                errors.setdefault(describe_row(name, place), []).append(apart[rows & np.isfinite(apart)])
    joined = {row: np.concatenate(parts) for row, parts in errors.items()}
    return {row: 100 * float(apart.mean()) for row, apart in joined.items() if len(apart)}


def _folder(data: Path) -> Path:
    inner = data / "neusight"
    return inner if inner.is_dir() else data


def study_figures(names: Sequence[str], data: Path) -> tuple[Figure, ...]:
    """Rows of predictors that are trained, or need no training."""
    result = validate_neusight([_folder(data)], names, study=True)
    return figures_of(result.summary, names)


def figures_of(summary: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[Figure, ...]:
    """The same from the suite's summary."""
    entries = {(one["group"], one["value"], one["predictor"]): one for one in summary if one["n"]}
    figures = []
    for name in names:
        for group, value, predictor in sorted(
            (key for key in entries if key[0] in _GROUPS and key[2] == name),
            key=lambda key: (_GROUPS.index(key[0]), key[1]),
        ):
            ours = entries[group, value, predictor]
            printed = entries.get((group, value, f"published:{name}"))
            figures.append(
                Figure(
                    what=f"{name}, mean error of steps: {value} ({ours['n']})",
                    published=None if printed is None else _percent(printed), ours=_percent(ours),
                    unit="%", digits=3, where="its printed predictions",
                )
            )  # fmt: skip
    return tuple(figures)


def _percent(entry: Mapping[str, Any]) -> float:
    return 100 * float(entry["mean_absolute_relative_error"])
