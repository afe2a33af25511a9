"""Measuring and training: calibration, kernels, embedding lookups, a sweep, a net, captured steps."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from faults.kills import Subject
from faults.subjects.shared import check_never_fewer, records_of
from perfcast.core.dtype import DType
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.evidence.train.loop import train
from perfcast.evidence.train.task import Recipe, Task, relative_error
from perfcast.measure import calibrate as calibration
from perfcast.measure import store
from perfcast.measure.embedding import store as lookups
from perfcast.measure.embedding.cases import EmbeddingCase, design_cases
from perfcast.measure.embedding.runner import EmbeddingRun
from perfcast.measure.few.bench import Timed
from perfcast.measure.few.cases import FewCase
from perfcast.measure.few.design import choose_cases
from perfcast.measure.few.run import measure_kernels
from perfcast.measure.grid.cases import design
from perfcast.measure.kernels import operation_of_case
from perfcast.prediction import resolve_device
from perfcast.published.nets.archive import read_archive
from perfcast.published.nets.mlp import build_mlp
from perfcast.searches.sweep.cells import Cell, SweepJob, expand_grid
from perfcast.searches.sweep.run import run_sweep
from stand_in_bench import StandInBench, forecast

# ---- perfcast calibrate --------------------------------------------------------------------------

CASES = {
    case.key: operation_of_case(case).memory_traffic_bytes
    for case in design("cpu")
    if case.key.startswith(("mm_nn ", "add ")) and operation_of_case(case).memory_traffic_bytes < 40_000
}


def _time(calls: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    time.sleep(0.01 * len(calls))
    return [1e-6 + CASES[str(call())] / 1e10 for call in calls]


def _calibrate(folder: Path) -> None:
    calibration.prepare = lambda case, device: lambda: case.key  # type: ignore[assignment,return-value]
    grid = [case for case in design("cpu") if case.key in CASES]
    calibration.calibrate("cpu", folder, timer=_time, cases=grid)


def _calibrated(folder: Path) -> object:
    profile = json.loads(store.profile_path("cpu", folder).read_text())
    records = records_of(store.measurements_path("cpu", folder), store.calibration_kind("cpu"))
    return {**profile, "measured_at": ""}, sorted((r["key"], r["seconds"]) for r in records)


def _check_calibration(folder: Path) -> None:
    records = records_of(store.measurements_path("cpu", folder), store.calibration_kind("cpu"))
    check_never_fewer(folder, len(records))


# ---- perfcast measure kernels --------------------------------------------------------------------

DEVICE = resolve_device("rtx-4090")
FEW = choose_cases(DEVICE, 40)


TIMES = dict(zip([case.name for case in FEW], forecast(FEW, DEVICE).tolist(), strict=True))


class _SlowBench(StandInBench):
    def time(self, cases: Sequence[FewCase]) -> list[Timed]:
        time.sleep(0.03)
        return [Timed(TIMES[case.name], is_cold=not case.is_warm) for case in cases]


def _measure_kernels(folder: Path) -> None:
    measure_kernels(DEVICE, _SlowBench(DEVICE), FEW, folder)


def _kernels(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"learned-{DEVICE.name}.json").read_text())
    return {**found, "measured_at": ""}


def _check_kernels(folder: Path) -> None:
    names = [k["name"] for k in _kernels(folder)["kernels"]] if list(folder.glob("*.json")) else []
    assert len(set(names)) == len(names)
    check_never_fewer(folder, len(names))


# ---- perfcast train embedding --------------------------------------------------------------------

LOOKUP = EmbeddingLookup(1000, 16, 8, 2.0, DType.FP32)


class _Runner:
    def __init__(self, optimizer: str, visits: int) -> None:
        self.optimizer, self.visits = optimizer, visits

    def run(self, cases: Sequence[EmbeddingCase]) -> list[EmbeddingRun]:
        time.sleep(0.05)
        return [
            EmbeddingRun(
                (LOOKUP,),
                ("t",),
                ("uniform",),
                self.optimizer,
                np.full(self.visits, 1e-5 * (1 + case.seed)),
                np.full(self.visits, 2e-5 * (1 + case.seed)),
                np.full((self.visits, 2), 1e-6),
            )
            for case in cases
        ]


def _measure_lookups(folder: Path) -> None:
    lookups.EmbeddingRunner = _Runner  # type: ignore[assignment,misc]
    lookups._CASES_OF_TURN = 4
    some = {group: tuple(cases[:20]) for group, cases in design_cases().items()}
    lookups.measure_design(folder / "embedding.jsonl", 1, some, ("sgd",), visits=2)


def _lookups(folder: Path) -> list[str]:
    records = records_of(folder / "embedding.jsonl", lookups.KIND)
    return sorted(json.dumps(dict(plain), sort_keys=True) for plain, _ in records)


def _check_lookups(folder: Path) -> None:
    found = _lookups(folder)
    assert len(set(found)) == len(found)
    check_never_fewer(folder, len(found))


# ---- perfcast search --sweep ---------------------------------------------------------------------

CELLS = expand_grid(["a", "b"], ["x:8"], range(1, 31), [1024])


def _open_search(settings: object) -> Callable[[Cell], list[dict[str, float]]]:
    def search(cell: Cell) -> list[dict[str, float]]:
        time.sleep(0.01)
        return [{"seconds": 1.0 * cell.global_batch_size}, {"seconds": 2.0}]

    return search


JOB = SweepJob(_open_search, {"seconds": float}, {}, {"perfcast": "1"})


def _sweep(folder: Path) -> None:
    table = run_sweep(CELLS, JOB, folder / "sweep", cells_per_batch=3).table
    (folder / "table.csv").write_text(table.write_csv())


def _check_sweep(folder: Path) -> None:
    parts = list((folder / "sweep").rglob("*.parquet"))
    assert not list((folder / "sweep").rglob("*.parquet.damaged*"))
    check_never_fewer(folder, len(parts))


# ---- perfcast train ------------------------------------------------------------------------------


def _first(outputs: Tensor, context: Tensor) -> Tensor:
    return outputs[:, 0] * context[:, 0]


def _net() -> nn.Module:
    return build_mlp(2, 1, 16, 3)


def _task() -> Task:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(600, 2)).astype(np.float32)
    seconds = (2 + np.tanh(inputs[:, 0])).astype(np.float32)
    ones = np.ones((600, 1), dtype=np.float32)
    return Task("net", _net, inputs, ones, seconds, _first, relative_error, Recipe(1e-2, 8))


def _train(folder: Path) -> None:
    torch.set_num_threads(1)
    train(_task(), 0, 8, folder)


def _trained(folder: Path) -> object:
    archive = read_archive(folder / "net.checkpoint.npz")
    digest = {k: hashlib.sha256(v.tobytes()).hexdigest() for k, v in archive.arrays.items()}
    return digest, dict(archive.notes)


def _check_training(folder: Path) -> None:
    place = folder / "net.checkpoint.npz"
    check_never_fewer(folder, read_archive(place).notes["epoch"] if place.exists() else 0)


SUBJECTS = (
    Subject("calibrate", _calibrate, _calibrated, _check_calibration),
    Subject("measure kernels", _measure_kernels, _kernels, _check_kernels),
    Subject("train embedding (lookups)", _measure_lookups, _lookups, _check_lookups),
    Subject("search --sweep", _sweep, lambda folder: (folder / "table.csv").read_text(), _check_sweep),
    Subject("train (nets)", _train, _trained, _check_training),
)
