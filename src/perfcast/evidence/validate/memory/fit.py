"""Fits what no program states of a framework's memory to half of the measured peaks; their spread to all.

Half: the lines whose CRC-32 of table and line number is even. A figure is fitted by the least mean absolute
relative error; spreads by ``widths``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.training import FRAMEWORKS
from perfcast.errors import InputError
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.memory.forecast import Predictor, forecast_cases
from perfcast.evidence.validate.memory.rows import read_memory_cases
from perfcast.evidence.validate.memory.widths import (
    FEWEST_PEAKS,
    WidthRow,
    fit_spreads,
    to_json,
    width_rows,
)
from perfcast.evidence.validate.profile_files import write_profiles
from perfcast.files.writing import write_fitted_text
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.memory_use.footprint.spread import Spread

#: Figures that are fitted, in bytes or as a plain count; where the search starts, and its first step.
FITTED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "megatron": {"other_bytes": (40e6, 20e6)},
    "nanotron": {
        "local_gradient_bytes": (1.0, 0.5),
        "bucket_bytes": (1.0, 0.5),
        "further_width": (2.0, 1.0),
        "softmax_bytes": (8.0, 2.0),
        "tensors_issued_ahead": (30.0, 10.0),
        "other_bytes": (200e6, 100e6),
    },
}
_MOST_EVALUATIONS = 400


@dataclass(frozen=True)
class MemoryFit:
    """What is fitted.

    Attributes:
        figures: Of ``MemoryProfile``, by framework.
        spread: What ``memory_use/data/footprint_spread.json`` holds, by framework.
    """

    figures: dict[str, dict[str, float]]
    spread: dict[str, Spread]

    def write(self, folder: Path) -> tuple[Path, ...]:
        """The file of spreads, and the profiles of the frameworks that were fitted."""
        path = folder / "footprint_spread.json"
        write_fitted_text(path, json.dumps(to_json(self.spread), indent=2) + "\n")
        return (path, *write_profiles(self.figures, folder, table="memory", source="fit"))


def is_fitting_half(label: str) -> bool:
    """Whether a line, as 'table:line', is among those that are fitted on."""
    return zlib.crc32(label.encode()) % 2 == 0


def fit_memory(places: Sequence[Path], say: Callable[[str], None] = lambda text: None) -> MemoryFit:
    """Figures and spreads from the fitting half of the tables.

    Raises:
        InputError: No table of measured memory, or too few measurements.
    """
    every = [case for case in read_memory_cases(places) if case.run is not None and case.duplicate_of is None]
    half = [case for case in every if _is_usable(case) and is_fitting_half(case.label)]
    if len(half) < FEWEST_PEAKS:
        raise InputError(f"a spread takes at least {FEWEST_PEAKS} measured peaks")
    figures = {}
    for framework, start in FITTED.items():
        cases = [case for case in half if _framework(case) == framework and case.metric == "allocated"]
        if cases:
            say(f"{framework}: {len(cases)} measured peaks")
            figures[framework] = _fit_figures(cases, start)
    return MemoryFit(figures, _spreads(every, figures))


def _is_usable(case: MemoryCase) -> bool:
    return (
        case.run is not None
        and not case.skipped
        and case.duplicate_of is None
        and case.measured_bytes is not None
        and case.metric in ("allocated", "reserved")
        and case.measured_by == "allocator"
    )


def _framework(case: MemoryCase) -> str:
    return case.run.training.framework if case.run else ""


def _fit_figures(cases: Sequence[MemoryCase], start: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    from scipy.optimize import minimize

    names = list(start)

    def error(values: Floats) -> float:
        if (values < 0).any():
            return 1e3
        changes = dict(zip(names, values.tolist(), strict=True))
        ratios = _ratios(cases, _predictor(dict.fromkeys(FRAMEWORKS, changes)))
        return float(np.abs(1 / ratios - 1).mean())

    first = np.array([start[name][0] for name in names])
    steps = np.array([start[name][1] for name in names])
    simplex = np.vstack([first, first + np.diag(steps)])
    found = minimize(
        error, first, method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": _MOST_EVALUATIONS, "xatol": 1e-3, "fatol": 1e-5},
    )  # fmt: skip
    return {name: float(f"{value:.4g}") for name, value in zip(names, found.x.tolist(), strict=True)}


def _predictor(figures: Mapping[str, Mapping[str, Any]]) -> Predictor:
    """The closed form with other figures, by framework."""

    def predict(model, plan, training, sequence_length, *, device=None):  # type: ignore[no-untyped-def]
        own = load_training_profile(training.framework)
        changes = figures.get(training.framework)
        profile = replace(own, memory=replace(own.memory, **changes)) if own.memory and changes else own
        return estimate_footprint(model, plan, training, sequence_length, device=device, profile=profile)

    return predict


def _ratios(cases: Sequence[MemoryCase], predictor: Predictor) -> Floats:
    """Measured over estimated."""
    answers = forecast_cases(cases, predictor)
    return np.array(
        [
            (case.measured_bytes or 0) / answer.num_bytes
            for case, answer in zip(cases, answers, strict=True)
            if answer.num_bytes
        ]
    )


def _spreads(cases: Sequence[MemoryCase], figures: Mapping[str, Mapping[str, float]]) -> dict[str, Spread]:
    """Of all lines, under the fitted figures."""
    rows, reserved = read_widths(cases, _predictor(figures))
    return fit_spreads(rows, tuple(FITTED), reserved)


def read_widths(
    cases: Sequence[MemoryCase], predictor: Predictor
) -> tuple[list[WidthRow], tuple[float, float]]:
    """What widths are fitted to, and the median and 95th percentile of reserved over allocated.

    Raises:
        InputError: No measured reserve.
    """
    reserved = [case for case in cases if case.metric == "reserved" and _is_usable(case)]
    reserved = [case for case in reserved if is_fitting_half(case.label)]
    if not reserved:
        raise InputError("no measured reserve of PyTorch's allocator in the half that is fitted on")
    over = _ratios([replace(case, metric="allocated") for case in reserved], predictor)
    ends = (_quantile(over, 0.5), _quantile(over, 0.95))
    return width_rows(cases, predictor, ends[0]), ends


def _quantile(values: Floats, share: float) -> float:
    return float(f"{np.quantile(values, share):.4g}")
