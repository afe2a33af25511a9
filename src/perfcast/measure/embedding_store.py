"""Measured embedding lookups on disk: one JSON object a line, appended as they come."""

from __future__ import annotations

import platform
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.embedding import EmbeddingLookup, ReuseHistogram
from perfcast.errors import CalibrationError, InputError
from perfcast.measure.embedding import OPTIMIZERS, EmbeddingSample, measure_cases
from perfcast.measure.embedding_cases import GROUPS, EmbeddingCase, design_cases
from perfcast.measure.store import append_record, data_folder, load_records

#: What measures and appends.
_COMMAND = "perfcast train embedding --passes 2"


def embedding_path(folder: Path | None = None) -> Path:
    """Where measurements of this machine lie; the user's data folder by default."""
    return (folder or data_folder()) / "embedding_cpu.jsonl"


def measurements_in(place: Path | None) -> Path:
    """A file of measurements: itself, that in a folder, or that of the user's data folder."""
    return embedding_path(place) if place is None or place.is_dir() else place


def describe_processor() -> str:
    """What measurements hold for: they are never mixed with those of another machine or PyTorch."""
    import torch

    return f"{_model_name()}, torch {torch.__version__}, one thread"


def _model_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def measure_design(
    path: Path,
    passes: int = 2,
    design: Mapping[str, tuple[EmbeddingCase, ...]] | None = None,
    optimizers: tuple[str, ...] = OPTIMIZERS,
    report: Callable[[int, int], None] = lambda done, wanted: None,
) -> None:
    """Measure what is missing of a design, and append it; an interrupted run goes on where it stopped.

    Args:
        passes: How often every case is measured, all cases in turn, in another order each time.
        design: Cases by group; ``design_cases()`` by default.
        report: Called after each case with how many are done and wanted.
    """
    cases = design_cases() if design is None else design
    machine = describe_processor()
    done = {_key(record) for record in load_records(path) if record.get("machine") == machine}
    every = [(o, group, case) for o in optimizers for group, members in cases.items() for case in members]
    rng = random.Random(0)
    wanted = [
        (turn, optimizer, group, case)
        for turn in range(passes)
        for optimizer, group, case in rng.sample(every, len(every))
        if (turn, optimizer, group, case.seed) not in done
    ]
    for number, (turn, optimizer, group, case) in enumerate(wanted, start=1):
        (sample,) = measure_cases((case,), optimizer)
        record = {"machine": machine, "pass": turn, "group": group, "seed": case.seed, **_to_json(sample)}
        append_record(path, record)
        report(number, len(wanted))


def load_samples(path: Path) -> dict[str, tuple[EmbeddingSample, ...]]:
    """Measured cases by group, all for the state in which one record in ten found the machine, or better.

    Passes of one case are joined by their geometric mean.

    Raises:
        CalibrationError: Nothing is measured, on several machines, or a line is not one of ours.
    """
    records = load_records(path)
    if not records:
        raise CalibrationError(f"{path} holds no measured embedding lookups; measure some: {_COMMAND}")
    machines = sorted({str(record.get("machine")) for record in records})
    if len(machines) > 1:
        raise CalibrationError(f"{path} holds measurements of several machines: {'; '.join(machines)}")
    passes: defaultdict[tuple[Any, ...], list[EmbeddingSample]] = defaultdict(list)
    for record in records:
        passes[_key(record)[1:]].append(_from_json(record, path))
    probes = sorted(sample.probe_seconds for samples in passes.values() for sample in samples)
    reference = probes[len(probes) // 10]
    joined = {key: _joined([s.at_probe(reference) for s in samples]) for key, samples in passes.items()}
    return {group: tuple(s for key, s in joined.items() if key[1] == group) for group in GROUPS}


def machine_of(path: Path) -> str:
    """What the measurements hold for.

    Raises:
        CalibrationError: Nothing is measured.
    """
    records = load_records(path)
    if not records:
        raise CalibrationError(f"{path} holds no measured embedding lookups; measure some: {_COMMAND}")
    return str(records[0].get("machine"))


def _joined(samples: Sequence[EmbeddingSample]) -> EmbeddingSample:
    return replace(
        samples[0],
        forward_seconds=geometric_mean(sample.forward_seconds for sample in samples),
        backward_seconds=geometric_mean(sample.backward_seconds for sample in samples),
    )


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record.get("pass"), record.get("optimizer"), record.get("group"), record.get("seed")


def _to_json(sample: EmbeddingSample) -> dict[str, Any]:
    return {
        "optimizer": sample.optimizer,
        "names": sample.names,
        "distributions": sample.distributions,
        "forward_seconds": sample.forward_seconds,
        "backward_seconds": sample.backward_seconds,
        "probe_seconds": sample.probe_seconds,
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
            for at in sample.lookups
        ],
    }


def _from_json(record: Mapping[str, Any], path: Path) -> EmbeddingSample:
    try:
        return EmbeddingSample(
            lookups=tuple(_lookup(at) for at in record["lookups"]),
            names=tuple(map(str, record["names"])),
            distributions=tuple(map(str, record["distributions"])),
            optimizer=str(record["optimizer"]),
            forward_seconds=float(record["forward_seconds"]),
            backward_seconds=float(record["backward_seconds"]),
            probe_seconds=float(record["probe_seconds"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        raise CalibrationError(f"{path}: not a measured embedding lookup ({error!r})") from None


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
