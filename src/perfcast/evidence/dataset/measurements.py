"""Measured kernels in one schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.core.kernel import SIZES, WORDS, KernelFamily, KernelTable
from perfcast.evidence.dataset.draft import UNSUPPORTED, Draft, Reader, find_faults, prepare
from perfcast.evidence.dataset.readers import efficiency, neusight, rocm, scan, serving, vidur
from perfcast.evidence.dataset.table import RawTable
from perfcast.evidence.dataset.words import decode

#: Spelling of a device in a file → its name in the catalog, or None.
Resolver = Callable[[str], str | None]

READERS: Mapping[str, Reader] = {
    **neusight.READERS,
    **serving.READERS,
    **scan.READERS,
    **vidur.READERS,
    **rocm.READERS,
    **efficiency.READERS,
}

UNSUPPORTED_TABLE = "unsupported table"


@dataclass(frozen=True, eq=False)
class Measurements:
    """n measured calls of one family; arrays of shape [n].

    Attributes:
        seconds: Measured; finite and positive.
        device: The file's own spelling, blanks as underscores.
        catalog_device: Name in the catalog, '' where it has none.
        table: Stem of the file; of several that were joined, all, by ' + '.
        row: Line of the file, from 0. One line that times several frameworks gives several calls.
        source: Citation key.
    """

    kernels: KernelTable
    seconds: Floats
    device: Objects
    catalog_device: Objects
    table: str
    row: Integers
    source: str

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, index: NDArray[Any]) -> Measurements:
        """The rows that ``index`` (integers or a mask) selects."""
        return Measurements(
            kernels=self.kernels.take(index),
            seconds=self.seconds[index],
            device=self.device[index],
            catalog_device=self.catalog_device[index],
            table=self.table,
            row=self.row[index],
            source=self.source,
        )


@dataclass(frozen=True, eq=False)
class Rejected:
    """Lines of a table that were not read, or not wholly; arrays of shape [n], a line once for each reason.

    Attributes:
        reason: 'incomplete: <column>', 'impossible value', 'unsupported operation', 'unsupported table' or
            'unknown device' (not stated, or stated in two ways that contradict each other).
    """

    table: str
    row: Integers
    reason: Objects

    def __len__(self) -> int:
        return len(self.row)


def tidy(raw: RawTable, resolve: Resolver) -> tuple[list[Measurements], Rejected]:
    """The kernels of a table, one ``Measurements`` a family, and the lines that are none, with reasons.

    A device that ``resolve`` does not know is kept with an empty ``catalog_device``.
    """
    reader = READERS.get(raw.kind)
    if reader is None:
        rows = np.arange(raw.frame.height)
        return [], Rejected(raw.stem, rows, np.full(len(rows), UNSUPPORTED_TABLE, dtype=object))
    frame = prepare(raw, reader)
    complete = frame.filter(pl.col("reason").is_null()).drop("reason")
    drafts = reader.read(complete)
    refused = [frame.filter(pl.col("reason").is_not_null()).select("row", "reason")]
    refused.append(_without_reader(complete, drafts))
    measurements = []
    for draft in drafts:
        judged = draft.frame.with_columns(find_faults(draft))
        refused.append(judged.filter(pl.col("reason").is_not_null()).select("row", "reason"))
        kept = judged.filter(pl.col("reason").is_null())
        if kept.height:
            measurements.append(_measurements(raw.stem, reader.source, draft.family, kept, resolve))
    bad = pl.concat(refused).unique().sort("row", "reason")
    return measurements, Rejected(raw.stem, bad["row"].to_numpy(), decode(bad["reason"]))


def _without_reader(complete: pl.DataFrame, drafts: Sequence[Draft]) -> pl.DataFrame:
    """Complete rows that no draft took up."""
    taken = pl.concat([draft.frame.select("row") for draft in drafts]).unique()
    return complete.select("row").join(taken, on="row", how="anti").with_columns(reason=pl.lit(UNSUPPORTED))


def _measurements(
    table: str, source: str, family: KernelFamily, frame: pl.DataFrame, resolve: Resolver
) -> Measurements:
    columns: dict[str, NDArray[Any]] = {name: frame[name].to_numpy() for name in SIZES[family]}
    columns |= {name: decode(frame[name]) for name in WORDS[family]}
    names = {device: resolve(device) or "" for device in frame["device"].unique().to_list()}
    return Measurements(
        kernels=KernelTable(family, columns),
        seconds=frame["seconds"].to_numpy(),
        device=decode(frame["device"]),
        catalog_device=decode(frame["device"].replace_strict(names, return_dtype=pl.String)),
        table=table,
        row=frame["row"].to_numpy(),
        source=source,
    )
