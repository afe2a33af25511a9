"""Tables of measured memory → cases, one reader for each table and source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcast.errors import InputError
from perfcast.evidence.dataset.table import find_tables, read_frame, stem_of
from perfcast.evidence.validate.memory.case import METRICS, Instrument, MeasuredStage, MemoryCase
from perfcast.evidence.validate.memory.megatron import read_golden
from perfcast.evidence.validate.memory.outcomes import mark_contradicted
from perfcast.evidence.validate.runs.lines import Line, Run, UnreadableError, read_or_reason, spelled
from perfcast.evidence.validate.runs.sources import read_bloom, read_galvatron, read_playbook, read_simumax
from perfcast.units import GIB, MIB

#: In the order in which they are read: a measurement that two hold counts as the earlier one's.
TABLES = ("megatron_golden_values", "peak_memory", "training", "out_of_memory", "galvatron_llama2_7b_bf16")
#: Columns that a measurement fills. 'notes' mixes both; what is read there is configuration alone.
_MEASURED = re.compile(
    r"metric_value|step_time_s|tflops_per_gpu|tokens_per_s_per_gpu|mfu|hfu|peak_mem_gb|notes|derived_fields|"
    r"label|n_points|iter_time_\w+|mem_\w+|value_MB"
)
#: 'GB' of BLOOM's log, nvidia-smi's MiB by the thousand: it prints 80 where 79.3 GiB is all there is.
_THOUSAND_MIB = 1000 * MIB


@dataclass(frozen=True)
class _Measured:
    """One number of a line and what it is."""

    metric: str
    num_bytes: float | None = None
    fits: bool | None = None
    stage: MeasuredStage = "peak"
    by: Instrument = "allocator"


@dataclass(frozen=True)
class _Source:
    """How a line of a source is read: what was run, and what was measured."""

    name: str
    read: Callable[[Line], Run]
    measure: Callable[[Line], Sequence[_Measured]]
    needs_device: bool = True


def read_memory_cases(places: Sequence[Path]) -> list[MemoryCase]:
    """All measurements of all tables in folders, or single files; other tables are passed over.

    Raises:
        InputError: None of ``TABLES`` is there, or a file cannot be read.
    """
    for place in places:
        if place.is_file() and stem_of(place) not in TABLES:
            raise InputError(f"{place}: '{stem_of(place)}' is no known table; known: {', '.join(TABLES)}")
    files = find_tables(places, TABLES)
    if not files:
        raise InputError(
            f"no table of measured memory in {', '.join(map(str, places))}; known: {', '.join(TABLES)}"
        )
    cases = [case for path in sorted(files, key=_order) for case in _read_table(path)]
    return mark_contradicted(_mark_duplicates(cases))


def _order(path: Path) -> tuple[int, str]:
    return TABLES.index(stem_of(path)), str(path)


def _read_table(path: Path) -> Iterator[MemoryCase]:
    table = stem_of(path)
    for row, cells in enumerate(read_frame(path).to_dicts()):
        line = Line(cells)
        yield from _cases_of(table, row, line, _source_of(table, line))


def _cases_of(table: str, row: int, line: Line, source: _Source) -> Iterator[MemoryCase]:
    spelling = line.text("gpu")
    device = line.catalog_device
    run, reason = read_or_reason(lambda: source.read(line))
    if reason is None and device is None and source.needs_device:
        reason = "unknown device"
    for measured in source.measure(line):
        is_number = measured.num_bytes is None or measured.num_bytes > 0
        yield MemoryCase(
            table=table,
            row=row,
            source=source.name,
            device=spelled(spelling),
            catalog_device=device,
            num_devices=_whole_or_none(line.find("num_gpus")),
            run=run if reason is None else None,
            metric=measured.metric,
            measured_bytes=None if measured.num_bytes is None else round(measured.num_bytes),
            measured_fits=measured.fits,
            measured_stage=measured.stage,
            measured_by=measured.by,
            skipped=reason or (None if is_number else "impossible value"),
            configuration=configuration_of(line.cells),
        )


def configuration_of(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a line that state what was run."""
    return {name: value for name, value in cells.items() if not _MEASURED.fullmatch(name)}


def _whole_or_none(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None


# ---- what was measured -------------------------------------------------------------------------------


def _measure_simumax(line: Line) -> list[_Measured]:
    """Largest over all ranks; what the allocator reserved stands in the notes of one table."""
    peak = line.number("peak_mem_gb")
    if peak is None:
        return []
    found = [_Measured("allocated", peak * GIB), _Measured("outcome", fits=True)]
    reserved = re.search(r"real_reserved_gib=([\d.]+)", line.text("notes"))
    return [*found, _Measured("reserved", float(reserved[1]) * GIB)] if reserved else found


def _measure_bloom(line: Line) -> list[_Measured]:
    """What nvidia-smi showed on the nodes with the embedding, which need most."""
    peak = line.number("peak_mem_gb")
    if peak is not None:
        held = _Measured("reserved", peak * _THOUSAND_MIB, by="nvidia-smi")
        return [held, _Measured("outcome", fits=True)]
    return [_Measured("outcome", fits=False)] if "OOM" in line.text("notes") else []


def _measure_playbook(line: Line) -> list[_Measured]:
    """Of rank 0, which holds the first stage: it writes nanotron's table (``log_throughput``), in GiB."""
    peak = line.number("peak_mem_gb")
    if peak is None:
        return []
    return [_Measured("allocated", peak * GIB, stage="first"), _Measured("outcome", fits=True)]


def _measure_failure(line: Line) -> list[_Measured]:
    return [_Measured("outcome", fits=False)]


def _measure_golden(line: Line) -> list[_Measured]:
    found = []
    for metric, column in (
        ("allocated", "mem_max_allocated_bytes"),
        ("allocated_steady", "mem_allocated_bytes"),
    ):
        value = line.number(column)
        if value is not None:
            found.append(_Measured(metric, value, stage="last"))
    return found


def _measure_galvatron(line: Line) -> list[_Measured]:
    """Of rank 0 or the last, in MiB."""
    kind, value = line.text("kind").removesuffix("_MB"), line.number("value_MB")
    stage: MeasuredStage = "first" if line.text("rank") == "0" else "last"
    return [] if value is None or kind not in METRICS else [_Measured(kind, value * MIB, stage=stage)]


def _measure_other(line: Line) -> list[_Measured]:
    peak = line.number("peak_mem_gb")
    return [] if peak is None else [_Measured("allocated", peak * GIB)]


def _read_other(line: Line) -> Run:
    """Sources whose lines leave out what a forecast needs, or that train in ways that no plan says.

    LoRA, quantised weights, weights and optimizer in bf16 without a master copy.
    """
    for column in ("layers", "hidden", "vocab", "global_batch"):
        if line.find(column) is None:
            raise UnreadableError(f"incomplete: {column}")
    raise UnreadableError("unsupported plan")


_SIMUMAX = _Source("simumax", read_simumax, _measure_simumax)
_BLOOM = _Source("bloom", read_bloom, _measure_bloom)
_GOLDEN = _Source("megatron-lm", read_golden, _measure_golden)
_PLAYBOOK = _Source("usp", read_playbook, _measure_playbook)
_GALVATRON = _Source("galvatron", read_galvatron, _measure_galvatron, needs_device=False)
_FAILURES = _Source("usp", read_playbook, _measure_failure)


def _source_of(table: str, line: Line) -> _Source:
    """By table, by repository or by the prefix of the line's id."""
    by_table = {
        "megatron_golden_values": _GOLDEN,
        "out_of_memory": _FAILURES,
        "galvatron_llama2_7b_bf16": _GALVATRON,
    }
    if table in by_table:
        return by_table[table]
    name = line.text("id").partition("-")[0] if table == "training" else line.text("source_repo").lower()
    for key, source in (("simumax", _SIMUMAX), ("bigscience", _BLOOM), ("bloom", _BLOOM), ("usp", _PLAYBOOK)):
        if key in name:
            return source
    return _Source(name.rpartition("/")[2], _read_other, _measure_other)


# ---- the same measurement twice ----------------------------------------------------------------------


def _mark_duplicates(cases: Iterable[MemoryCase]) -> list[MemoryCase]:
    """Name the first table's line in measurements that a later table repeats.

    Tables overlap by file of origin or by configuration: a precision that only one of them states apart.
    """
    first: dict[Any, MemoryCase] = {}
    marked = []
    for case in cases:
        for key in _identities(case):
            known = first.setdefault(key, case)
            if known.table != case.table:
                case = replace(case, duplicate_of=known.label)
                break
        marked.append(case)
    return marked


def _identities(case: MemoryCase) -> list[Any]:
    keys: list[Any] = []
    path = case.configuration.get("source_path")
    if isinstance(path, str) and "golden_values" in path:
        keys.append((path, case.metric))
    if case.run is not None:
        run = case.run
        keys.append((case.source, case.metric, case.measured_fits, run.model, run.plan, run.sequence_length))
    return keys
