"""Measured embedding lookups on disk (``files.records``), appended as they come."""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.embedding.lookup import EmbeddingLookup, ReuseHistogram
from perfcast.errors import CalibrationError, InputError
from perfcast.files.records import Kind, Plain, open_records, read_records
from perfcast.measure.embedding.cases import GROUPS, EmbeddingCase, design_cases
from perfcast.measure.embedding.runner import OPTIMIZERS, VISITS, EmbeddingRun, EmbeddingRunner
from perfcast.measure.embedding.samples import (
    EmbeddingSample,
    Repeatability,
    join_runs,
    measure_repeatability,
)
from perfcast.measure.machine import processor_name
from perfcast.measure.store import data_folder

#: What measures and appends.
_COMMAND = "perfcast train embedding --passes 2"
#: Some five seconds.
_CASES_OF_TURN = 50


def _parse(data: Plain) -> tuple[Plain, EmbeddingRun]:
    return data, _from_json(data)


#: A file of measured lookups.
KIND = Kind("embedding lookups", 1, _parse, elsewhere="name another file or data folder")


def embedding_path(folder: Path | None = None) -> Path:
    """Where measurements of this machine lie; the user's data folder by default."""
    return (folder or data_folder()) / "embedding_cpu.jsonl"


def measurements_in(place: Path | None) -> Path:
    """A file of measurements: itself, that in a folder, or that of the user's data folder."""
    return embedding_path(place) if place is None or place.is_dir() else place


def describe_processor() -> str:
    """What measurements hold for: they are never mixed with those of another machine or PyTorch."""
    import torch

    return f"{processor_name()}, torch {torch.__version__}, one thread"


def measure_design(
    path: Path,
    passes: int = 2,
    design: Mapping[str, tuple[EmbeddingCase, ...]] | None = None,
    optimizers: tuple[str, ...] = OPTIMIZERS,
    report: Callable[[int, int], None] = lambda done, wanted: None,
    visits: int = VISITS,
) -> None:
    """Measure what is missing of a design, and append it; an interrupted run goes on where it stopped.

    Args:
        passes: How often every case is measured, all cases in turn, in another order each time.
        design: Cases by group; ``design_cases()`` by default.
        report: Called after each turn of cases with how many are done and wanted.
        visits: Of each case in a pass.
    """
    cases = design_cases() if design is None else design
    machine = describe_processor()
    with open_records(path, KIND) as file:
        done = {_key(record) for record, _ in file.records if record.get("machine") == machine}
        wanted = [one for one in _list_wanted(cases, passes, optimizers) if one.key not in done]
        runner = functools.cache(lambda optimizer: EmbeddingRunner(optimizer, visits))
        finished = 0
        for optimizer, together in _turns(wanted):
            runs = runner(optimizer).run([one.case for one in together])
            file.append(
                *(one.label(machine) | _to_json(run) for one, run in zip(together, runs, strict=True))
            )
            finished += len(together)
            report(finished, len(wanted))


@dataclass(frozen=True, slots=True)
class _Wanted:
    turn: int
    optimizer: str
    group: str
    case: EmbeddingCase

    @property
    def key(self) -> tuple[Any, ...]:
        return self.turn, self.optimizer, self.group, self.case.seed

    def label(self, machine: str) -> dict[str, Any]:
        return {"machine": machine, "pass": self.turn, "group": self.group, "seed": self.case.seed}


def _list_wanted(
    cases: Mapping[str, tuple[EmbeddingCase, ...]], passes: int, optimizers: tuple[str, ...]
) -> list[_Wanted]:
    """All cases of every pass and optimizer, each time in another order."""
    rng = random.Random(0)
    wanted: list[_Wanted] = []
    for turn in range(passes):
        for optimizer in optimizers:
            every = [_Wanted(turn, optimizer, group, case) for group, some in cases.items() for case in some]
            wanted += rng.sample(every, len(every))
    return wanted


def _turns(wanted: Sequence[_Wanted]) -> Iterator[tuple[str, list[_Wanted]]]:
    """Cases that are measured in turns: of one pass and optimizer, so many that a turn takes some seconds."""
    for (_, optimizer), some in groupby(wanted, key=lambda one: (one.turn, one.optimizer)):
        mine = list(some)
        for start in range(0, len(mine), _CASES_OF_TURN):
            yield optimizer, mine[start : start + _CASES_OF_TURN]


def load_samples(path: Path) -> dict[str, tuple[EmbeddingSample, ...]]:
    """Measured cases by group, all for one state of the machine.

    Raises:
        CalibrationError: Nothing is measured, on several machines, or a line is not one of ours.
    """
    joined = join_runs(_load_runs(path))
    return {group: tuple(s for key, s in joined.items() if key[1] == group) for group in GROUPS}


def load_repeatability(path: Path) -> tuple[Repeatability, ...]:
    """How far first and second passes are apart; nothing where there is one pass.

    Raises:
        CalibrationError: As ``load_samples``.
    """
    return measure_repeatability(list(_load_runs(path).values()))


def _load_runs(path: Path) -> dict[tuple[Any, ...], list[EmbeddingRun]]:
    """Passes of each (optimizer, group, seed)."""
    records = read_records(path, KIND).records
    if not records:
        raise CalibrationError(f"{path} holds no measured embedding lookups; measure some: {_COMMAND}")
    machines = sorted({str(record.get("machine")) for record, _ in records})
    if len(machines) > 1:
        raise CalibrationError(f"{path} holds measurements of several machines: {'; '.join(machines)}")
    passes: defaultdict[tuple[Any, ...], list[EmbeddingRun]] = defaultdict(list)
    for record, run in records:
        passes[_key(record)[1:]].append(run)
    return passes


def machine_of(path: Path) -> str:
    """What the measurements hold for.

    Raises:
        CalibrationError: Nothing is measured.
    """
    records = read_records(path, KIND).records
    if not records:
        raise CalibrationError(f"{path} holds no measured embedding lookups; measure some: {_COMMAND}")
    return str(records[0][0].get("machine"))


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record.get("pass"), record.get("optimizer"), record.get("group"), record.get("seed")


def _to_json(run: EmbeddingRun) -> dict[str, Any]:
    return {
        "optimizer": run.optimizer,
        "names": run.names,
        "distributions": run.distributions,
        "forward": _short(run.forward),
        "backward": _short(run.backward),
        "probes": _short(run.probes),
        "lookups": [
            {
                "num_rows": at.num_rows,
                "dim": at.dim,
                "batch_size": at.batch_size,
                "pooling": at.pooling,
                "dtype": at.dtype.label,
                "rows": [round(value, 9) for value in at.reuse.rows] if at.reuse else None,
                "lookups": [round(value, 9) for value in at.reuse.lookups] if at.reuse else None,
            }
            for at in run.lookups
        ],
    }


def _short(seconds: Floats) -> Any:
    """To a nanosecond."""
    return np.round(seconds, 9).tolist()


def _from_json(record: Mapping[str, Any]) -> EmbeddingRun:
    try:
        run = EmbeddingRun(
            lookups=tuple(_lookup(at) for at in record["lookups"]),
            names=tuple(map(str, record["names"])),
            distributions=tuple(map(str, record["distributions"])),
            optimizer=str(record["optimizer"]),
            forward=np.array(record["forward"], dtype=np.float64),
            backward=np.array(record["backward"], dtype=np.float64),
            probes=np.array(record["probes"], dtype=np.float64),
        )
        if not run.forward.shape == run.backward.shape == run.probes[:, 0].shape != (0,):
            raise ValueError(f"{len(run.forward)} steps forward, {len(run.backward)} backward")
        if min(run.forward.min(), run.backward.min(), run.probes.min()) <= 0:
            raise ValueError("a step or a probe that takes no time")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, InputError) as error:
        raise CalibrationError(f"not a measured embedding lookup ({error!r})") from None
    return run


def _lookup(entry: Mapping[str, Any]) -> EmbeddingLookup:
    reuse = ReuseHistogram(tuple(entry["rows"]), tuple(entry["lookups"])) if entry["rows"] else None
    return EmbeddingLookup(
        int(entry["num_rows"]),
        int(entry["dim"]),
        int(entry["batch_size"]),
        float(entry["pooling"]),
        DTYPES_BY_LABEL[entry["dtype"]],
        reuse=reuse,
    )
