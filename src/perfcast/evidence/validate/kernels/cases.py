"""Lines of measured tables as cases: what was run, on which device, and the time it took.

Everything is held in columns, and drawn from before a row becomes an object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from perfcast.catalogs.devices import find_device_name, load_device_entries
from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.core.kernel import KernelTable
from perfcast.errors import InputError
from perfcast.evidence.dataset.measurements import Measurements, Rejected, tidy
from perfcast.evidence.dataset.quality import judge
from perfcast.evidence.dataset.table import RawTable, kind_of, read_frame, read_tables, stem_of
from perfcast.evidence.dataset.words import encode, join_words, word_column
from perfcast.evidence.validate.runs.lines import spelled
from perfcast.evidence.validate.sampling import draw_evenly, hash_rows

#: Columns that a measurement fills: times and rates, spreads, what a profiler saw, what a tuner chose.
_MEASURED = re.compile(
    r".*_(ms|us|s|per_s|gbps)|latency.*|us\d?|err\d?|errRatio|.*tflops|efficiency|bw|n_obs|(min|max|std)_.*|"
    r"kernel|kernelName\d?|kernel_name|grid(_[xyz])?|block(_[xyz])?|count|"
    r"block_m|ksplit|splitK|libtype|run_1stage|flat|xbf16|max_m|tile_\w+|[mn]_warp2?|num_buffers|"
    r"num_buffer_stage2|split_k\d|grouped_persistent_m|wave_specialized_tdm|tdm_as_in_prologue|cluster_n|"
    r"waves_per_tensor_tdm|next_stage_prefetch"
)
#: Of a name that looks measured, what is a device's datasheet.
_CONFIGURED = frozenset({"peak_tflops"})

_UNSUPPORTED = "unsupported operation"


@dataclass(frozen=True, eq=False)
class Cases:
    """n cases of one table and one family of kernels; arrays of shape [n].

    Attributes:
        kind: Of table: 'gemm', 'linear'.
        kernels: None for lines that could not be read.
        rows: Line of the file.
        expands: Whether one line gives several cases.
        seconds: Measured; NaN where unread.
        columns: The file's configuration columns, aligned.
        reason: Why a case has no forecast, whatever the predictor; '' for none.
        strata, keys: What the sampling goes by.
    """

    table: str
    kind: str
    kernels: KernelTable | None
    rows: Integers
    expands: bool
    device: Objects
    catalog_device: Objects
    operation: Objects
    dtype: Objects
    framework: Objects
    seconds: Floats
    reason: Objects
    columns: pl.DataFrame
    source: str
    strata: Objects
    keys: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: NDArray[Any]) -> Cases:
        """The cases that ``index`` (integers or a mask) selects."""
        index = np.flatnonzero(index) if index.dtype == bool else index
        arrays = {
            name: getattr(self, name)[index]
            for name in (
                "rows",
                "device",
                "catalog_device",
                "operation",
                "dtype",
                "framework",
                "seconds",
                "reason",
                "strata",
                "keys",
            )
        }
        kernels = None if self.kernels is None else self.kernels.take(index)
        return replace(self, kernels=kernels, columns=self.columns[index], **arrays)

    @property
    def labels(self) -> list[int | str]:
        """The line, or 'table:line' where one line gives several cases."""
        rows = self.rows.tolist()
        return [f"{self.table}:{row}" for row in rows] if self.expands else rows

    def judge(self) -> Objects:
        """Verdict on each measurement: 'above peak', 'known fault: …'; '' for none; shape [n]."""
        if self.kernels is None:
            return np.full(len(self), "", dtype=object)
        devices = {name: entry.device for name, entry in load_device_entries().items()}
        measured = Measurements(
            self.kernels, self.seconds, self.device, self.catalog_device, self.table, self.rows, self.source
        )
        verdict = judge(measured, devices)
        silent = np.isin(verdict.astype(str), ["duplicate", "unknown device"])
        return np.where(silent, "", verdict).astype(object)


def collect_cases(
    places: Sequence[Path],
    most: int,
    *,
    use: Callable[[str], bool] = lambda stem: True,
    by_kind: bool = False,
    keep: Callable[[str], bool] = lambda catalog_device: True,
) -> tuple[list[Cases], int]:
    """A sample of the cases of all tables, and how many cases there were.

    Args:
        places: Folders of tables, or single tables.
        most: Sampled evenly over table, device, dtype and framework, by a hash of table, line and framework.
        use: Which tables, by stem.
        by_kind: Operations are called by their kind of table ('gemm', 'aiter_gemm'), not by their own name.
        keep: Which devices, by the catalog's name ('' for unknown ones).

    Raises:
        InputError: A place holds no known table, or a file cannot be read.
    """
    kept: list[Cases] = []
    total = 0
    for raw in _read(places, use):
        for cases in _cases_of(raw):
            if by_kind:
                operation = np.full(len(cases), raw.kind.removesuffix("_amd"), dtype=object)
                cases = replace(cases, operation=operation)
            names, codes = encode(cases.catalog_device)
            chosen = cases.take(np.array([keep(name) for name in names], dtype=bool)[codes])
            if len(chosen):
                kept.append(chosen)
                total += len(chosen)
        kept = _draw(kept, most)
    return kept, total


def _draw(parts: Sequence[Cases], most: int) -> list[Cases]:
    if sum(map(len, parts)) <= most:
        return list(parts)
    codes = encode(np.concatenate([part.strata for part in parts]))[1]
    chosen = draw_evenly(codes, np.concatenate([part.keys for part in parts]), most)
    ends = np.cumsum([len(part) for part in parts])
    drawn = []
    for part, end in zip(parts, ends.tolist(), strict=True):
        mine = chosen[(chosen >= end - len(part)) & (chosen < end)] - (end - len(part))
        if len(mine):
            drawn.append(part.take(mine))
    return drawn


def _read(places: Sequence[Path], use: Callable[[str], bool]) -> Iterator[RawTable]:
    for place in places:
        if not place.is_file():
            yield from read_tables(place, use)
            continue
        stem = stem_of(place)
        if kind_of(stem) is None:
            raise InputError(f"{place}: '{stem}' is no known table")
        if use(stem):
            yield RawTable(stem, place, read_frame(place))


def _cases_of(raw: RawTable) -> Iterator[Cases]:
    frame = raw.frame.select(configuration_columns(raw.frame.columns))
    parts, rejected = tidy(raw, find_device_name)
    for part in parts:
        yield _measured_cases(raw, part, frame)
    if len(rejected):
        yield _rejected_cases(raw, rejected, frame)


def configuration_columns(names: Iterable[str]) -> list[str]:
    """The columns of a table that state what was run, not what came of it.

    >>> configuration_columns(["gpu", "m", "n_obs", "vllm_ms", "grid_x", "kernel_source"])
    ['gpu', 'm', 'kernel_source']
    """
    return [name for name in names if name in _CONFIGURED or not _MEASURED.fullmatch(name)]


def _measured_cases(raw: RawTable, part: Measurements, frame: pl.DataFrame) -> Cases:
    dtype, framework = part.kernels.word("dtype"), part.kernels.word("framework")
    known = part.catalog_device != ""
    return Cases(
        table=raw.stem,
        kind=raw.kind,
        kernels=part.kernels,
        rows=part.row,
        expands=len(np.unique(part.row)) < len(part),
        device=part.device,
        catalog_device=part.catalog_device,
        operation=part.kernels.word("operation"),
        dtype=dtype,
        framework=framework,
        seconds=part.seconds,
        reason=np.where(known, "", "unknown device").astype(object),
        columns=frame[part.row],
        source=part.source,
        strata=join_words(raw.stem, part.device, dtype, framework),
        keys=hash_rows(raw.stem, part.row, framework),
    )


def _rejected_cases(raw: RawTable, rejected: Rejected, frame: pl.DataFrame) -> Cases:
    """Lines that were not read, each with the first of its reasons."""
    rows, first = np.unique(rejected.row, return_index=True)
    reason = rejected.reason[first]
    reason = np.where(reason == "unsupported table", _UNSUPPORTED, reason).astype(object)
    columns = frame[rows]
    device = word_column(columns, ("gpu", "device"), raw.named_device or "unknown")
    device = np.array([spelled(name) for name in device.tolist()], dtype=object)
    spellings, codes = encode(device)
    names = np.array([find_device_name(name) or "" for name in spellings], dtype=object)
    return Cases(
        table=raw.stem,
        kind=raw.kind,
        kernels=None,
        rows=rows,
        expands=False,
        device=device,
        catalog_device=names[codes],
        operation=word_column(columns, ("op", "op_name"), raw.kind),
        dtype=np.full(len(rows), "", dtype=object),
        framework=word_column(columns, ("framework",)),
        seconds=np.full(len(rows), np.nan),
        reason=reason,
        columns=columns,
        source="",
        strata=np.array([f"{raw.stem} | {text}" for text in reason.tolist()], dtype=object),
        keys=hash_rows(raw.stem, rows, np.full(len(rows), "", dtype=object)),
    )
