"""The model card of the learned forecaster: what it was trained on, how well it does, where it ends."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from perfcast.cost.learned.predictor import CellError
from perfcast.cost.learned.store import MODEL_NAMES, WEIGHTS, load_family, read_content

PROTOCOL = (
    "known: a tenth of the rows of every device, drawn at random and left out of the training; unseen: "
    "the device's whole architecture left out, scalars and residuals fitted on the others; family: all "
    "devices left out whose matrix units take the same instructions; vendor: all of its vendor (how far to "
    "trust the rest was chosen on these very folds, once for architectures and vendors, and for each "
    "operation and format for families). The constants of the physics were fitted on all training devices "
    "once, in all. Inside the interval: of architectures with kin of their instruction family (family), of "
    "whole families (vendor) and of whole vendors (none) left out, in an interval that the other folds made. "
    "Mean absolute relative error, frameworks together, every device alike."
)
LIMITS = (
    "no measurement of fp6, of tf32 or fp64 products, of backward attention but on A100 and B200, of "
    "backward norms and softmax, of optimizers, or of any Intel or Google device: these rest on physics "
    "and are tagged extrapolated. Formats that one architecture alone has (nvfp4, mxfp4) are guesses "
    "elsewhere."
)
COMMAND = "perfcast train learned --data DIR [--data DIR] --output DIR"


def model_card(folder: Path | None = None) -> dict[str, Any]:
    """Plain data: ``protocol``, ``limits``, ``command``, and ``models`` with record and errors.

    Raises:
        CalibrationError: A model's file is missing or damaged.
    """
    models = []
    for name in MODEL_NAMES:
        record = read_content(name, folder or WEIGHTS)["record"]
        fitted = load_family(name, folder)
        models.append(
            {
                "name": name,
                "record": record,
                "coverage": dict(fitted.coverage),
                "errors": _by_operation(fitted.errors),
                "cells": [vars(e) for e in fitted.errors],
            }
        )
    return {"protocol": PROTOCOL, "limits": LIMITS, "command": COMMAND, "models": models}


def _by_operation(errors: tuple[CellError, ...]) -> list[dict[str, Any]]:
    groups: defaultdict[tuple[str, str], list[CellError]] = defaultdict(list)
    for cell in errors:
        groups[cell.operation, cell.dtype].append(cell)
    return [
        {
            "operation": operation,
            "dtype": dtype,
            "devices": len(cells),
            "count": sum(cell.count for cell in cells),
            "known_error": _mean([cell.known_error for cell in cells]),
            "unseen_error": _mean([cell.unseen_error for cell in cells]),
            "family_error": _mean([cell.family_error for cell in cells]),
            "vendor_error": _mean([cell.vendor_error for cell in cells]),
        }
        for (operation, dtype), cells in sorted(groups.items())
    ]


def _mean(values: list[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
