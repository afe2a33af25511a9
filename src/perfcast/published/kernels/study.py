"""Whole steps of NeuSight's study with what it printed for them: each predictor's mean error anew.

``steps.csv`` holds, of every step, the measured milliseconds and the study's own predictions by NeuSight,
Habitat, Li et al. (the study's "micro") and a roofline. The paper sums them up over NVIDIA's devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from perfcast.errors import InputError
from perfcast.files.reading_tables import csv_entries
from perfcast.published.comparison import Comparison, Figure, print_part

STEPS_FILE = "steps.csv"
PAPER = (
    'Lee, Phanishayee and Mahajan, "Forecasting GPU Performance for Deep Learning Training and Inference", '
    "ASPLOS 2025"
)
#: Predictor → mean errors of whole steps in percent, inference and training, over NVIDIA's devices.
PRINTED_ERRORS: Mapping[str, tuple[float, float]] = {
    "neusight": (9.7, 7.3),
    "habitat": (220.9, 725.8),
    "li2020": (61.2, 58.3),
    "roofline": (31.2, 31.9),
}
_COLUMNS = {"li2020": "micro_predicted_ms"}
_MODES = ("inference", "train")


def compare_with_study(predictor: str, paper: str, data: Path | None) -> Comparison:
    """A baseline whose public errors are those that NeuSight's study printed.

    Args:
        paper: The baseline's own.
        data: The folder of the study's steps; without it there are no figures.

    Raises:
        InputError: The folder holds no steps of the study.
    """
    return Comparison(
        system=predictor,
        paper=f"{paper}; errors as printed by {PAPER}",
        protocol="Mean errors of whole fp32 steps on NVIDIA's devices.",
        figures=() if data is None else study_figures(predictor, data),
        reason="" if data else "Errors of whole steps are compared with --data DIR (neusight/steps.csv).",
    )


def study_figures(predictor: str, data: Path) -> tuple[Figure, ...]:
    """The paper's mean errors of a predictor beside those of its own printed predictions, by mode.

    Raises:
        InputError: The folder holds no such table, or one without numbers.
    """
    errors = _errors_by_mode(_find(data), _COLUMNS.get(predictor, f"{predictor}_predicted_ms"))
    figures = []
    for mode, printed in zip(_MODES, PRINTED_ERRORS[predictor], strict=True):
        found = errors[mode]
        mean = 100 * sum(found) / len(found) if found else None
        figures.append(
            Figure(what=f"the study's own forecasts, mean error of {mode} steps ({len(found)} public)",
                   published=printed, ours=mean, unit="%", where="summary of its evaluation", digits=4,
                   note="published: of all steps of the study; ours: of its own printed forecasts of the "
                   "public ones, none of which we made")
        )  # fmt: skip
    return tuple(figures)


def _find(data: Path) -> Path:
    for place in (data / STEPS_FILE, data / "neusight" / STEPS_FILE):
        if place.is_file():
            return place
    raise InputError(f"{data} holds no {STEPS_FILE} of NeuSight's study, nor does its folder 'neusight'")


def _errors_by_mode(path: Path, column: str) -> dict[str, list[float]]:
    """Absolute relative errors of whole, unfused steps on one NVIDIA device."""
    errors: dict[str, list[float]] = {mode: [] for mode in _MODES}
    for where, row in csv_entries(path, what="the steps of NeuSight's study"):
        if row.get("mode") not in errors or row.get("variant") or row.get("device", "").startswith("AMD"):
            continue
        try:
            measured, predicted = float(row["step_ms"]), float(row[column] or "nan")
        except (KeyError, ValueError) as error:
            raise InputError(f"{path}: {where}: no numbers under step_ms and {column}") from error
        if math.isfinite(predicted) and measured > 0:
            errors[row["mode"]].append(abs(predicted / measured - 1))
    return errors


if __name__ == "__main__":
    print_part("kernels.study", "neusight", "habitat", "li2020")
