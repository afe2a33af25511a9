"""Fitting the lines of Li et al."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.core.machine.hardware import Device
from perfcast.evidence.train.loop import measured_ratios
from perfcast.evidence.train.published.request import TrainingRequest
from perfcast.evidence.train.published.study_rows import (
    CONVOLUTION_SIZES,
    TRAINING_TABLES,
    StudyRows,
)
from perfcast.files.writing import make_folder
from perfcast.published.li2020 import Li2020, WorkLine, operators_of, rates_of, work_of
from perfcast.published.nets.direct import SIZES_SEEN, square_convolutions
from perfcast.published.nets.store import write_predictor


def fit_lines(
    kernels: KernelTable, seconds: Floats, devices: Sequence[Device], device_index: Integers
) -> dict[str, dict[str, WorkLine]]:
    """One line per operator and device, by least squares."""
    work, operators = work_of(kernels), operators_of(kernels)
    rates = rates_of(kernels, devices, device_index)
    lines: dict[str, dict[str, WorkLine]] = {}
    for operator in np.unique(operators):
        for place, device in enumerate(devices):
            index = np.flatnonzero((operators == operator) & (device_index == place))
            if len(index) > 1:
                slope, intercept = np.polyfit(work[index], seconds[index], 1)
                line = WorkLine(float(slope), float(intercept), float(slope * rates[index[0]]))
                lines.setdefault(str(operator), {})[device.name] = line
    return lines


def line_ratios(
    lines: Mapping[str, Mapping[str, WorkLine]], kernels: KernelTable, rows: StudyRows
) -> dict[str, dict[str, tuple[float, float]]]:
    """5th and 95th percentile of measured / predicted by operator of a table.

    'known': by a device's own line. 'unseen': by the lines of the others, each device left out in turn.
    """
    own = Li2020(lines).predict(kernels, rows.devices, rows.device_index)
    carried = np.full(len(kernels), np.nan)
    for place, device in enumerate(rows.devices):
        index = np.flatnonzero(rows.device_index == place)
        others = {name: {d: line for d, line in of.items() if d != device.name} for name, of in lines.items()}
        carried[index] = Li2020(others).predict(kernels.take(index), rows.devices, rows.device_index[index])
    operators = operators_of(kernels)
    return {
        str(name): {
            kind: measured_ratios(rows.seconds[operators == name], predicted[operators == name])
            for kind, predicted in (("known", own), ("unseen", carried))
        }
        for name in np.unique(operators)
    }


def train_li2020(request: TrainingRequest) -> dict[str, Any]:
    """Fit all lines; a fit has neither a seed nor epochs, so they make no difference.

    Returns:
        The record that holds them.

    Raises:
        InputError: A table is missing or no row is left.
    """
    make_folder(request.folder)
    lines: dict[str, dict[str, WorkLine]] = {}
    ratios: dict[str, dict[str, tuple[float, float]]] = {}
    names: set[str] = set()
    for sizes in TRAINING_TABLES:
        table = request.read(sizes)
        if sizes == CONVOLUTION_SIZES and not request.is_measured(table):
            continue
        rows = request.select(table)
        lines |= fit_lines(table_of(rows, len(sizes)), rows.seconds, rows.devices, rows.device_index)
        ratios |= line_ratios(lines, table_of(rows, len(sizes)), rows)
        names |= set(rows.device_names().tolist())
    plain = {k: {d: vars(line) for d, line in of.items()} for k, of in lines.items()}
    record = {
        "vendor": request.vendor,
        "left_out": sorted(request.left_out),
        "devices": sorted(names),
        "lines": plain,
        "ratios": ratios,
        "nets": {},
    }
    write_predictor(request.folder, "li2020", {}, record)
    return record


_WORDS = {"dtype": "fp32", "framework": "pytorch"}


def table_of(rows: StudyRows, num_sizes: int) -> KernelTable:
    """The study's rows as a table of fp32 kernels; the number of sizes tells the family."""
    words = {name: np.full(len(rows), word, dtype=object) for name, word in _WORDS.items()}
    words["operation"] = rows.operation
    if num_sizes == 2:
        each = rows.row_work()[:, 0]
        elements = rows.shape.prod(axis=1)
        columns = {
            "num_rows": rows.shape[:, 0],
            "row_length": rows.shape[:, 1],
            "read_bytes": (each - 4.0) * elements,
            "written_bytes": 4.0 * elements,
        }
        return KernelTable(KernelFamily.ROWS, {**columns, **words})
    if num_sizes == len(CONVOLUTION_SIZES):
        return square_convolutions(rows.shape, rows.operation)
    sizes = dict(zip(SIZES_SEEN[KernelFamily.PRODUCT], rows.shape.T, strict=True))
    return build_kernel_table(KernelFamily.PRODUCT, len(rows), **sizes, layout="", **words)
