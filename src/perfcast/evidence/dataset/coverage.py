"""What the tables hold: counts by table, and by device and family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfcast.core.machine.hardware import Device
from perfcast.evidence.dataset.measurements import Resolver, tidy
from perfcast.evidence.dataset.quality import judge
from perfcast.evidence.dataset.table import RawTable
from perfcast.evidence.dataset.words import encode


@dataclass(frozen=True)
class TableSummary:
    """Counts of one table.

    Attributes:
        num_rows: Lines of the file.
        num_measurements: Calls that were read; a line may hold one for each framework.
        num_kept: Of these, calls that pass the filters.
        rejected: Reason → lines that could not be read, and calls that a filter took out.
        devices: The file's spelling → name in the catalog, '' where it has none.
        operations, dtypes, frameworks: Words of the calls that were read, sorted.
        kept_by_device: (device, family) → calls kept.
    """

    table: str
    num_rows: int
    num_measurements: int = 0
    num_kept: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    operations: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    kept_by_device: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``kept_by_device`` is left to the coverage of all tables."""
        return {
            "table": self.table,
            "num_rows": self.num_rows,
            "num_measurements": self.num_measurements,
            "num_kept": self.num_kept,
            "rejected": dict(self.rejected),
            "devices": dict(self.devices),
            "operations": list(self.operations),
            "dtypes": list(self.dtypes),
            "frameworks": list(self.frameworks),
        }


def summarise(raw: RawTable, resolve: Resolver, devices: Mapping[str, Device]) -> TableSummary:
    """Read and judge a table, and count."""
    measurements, refused = tidy(raw, resolve)
    rejected = Counter(refused.reason.tolist())
    kept: Counter[tuple[str, str]] = Counter()
    words: dict[str, set[str]] = {"operation": set(), "dtype": set(), "framework": set()}
    spellings: dict[str, str] = {}
    for part in measurements:
        verdict = judge(part, devices)
        rejected.update(verdict[verdict != ""].tolist())
        names, codes = encode(part.catalog_device[verdict == ""])
        for name, count in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
            kept[name, part.kernels.family.value] += count
        for word, found in words.items():
            found.update(encode(part.kernels.word(word))[0])
        first = np.unique(encode(part.device)[1], return_index=True)[1]
        spellings.update(zip(part.device[first].tolist(), part.catalog_device[first].tolist(), strict=True))
    return TableSummary(
        table=raw.stem,
        num_rows=raw.frame.height,
        num_measurements=sum(len(part) for part in measurements),
        num_kept=sum(kept.values()),
        rejected=dict(sorted(rejected.items())),
        devices=dict(sorted(spellings.items())),
        operations=tuple(sorted(words["operation"])),
        dtypes=tuple(sorted(words["dtype"])),
        frameworks=tuple(sorted(words["framework"])),
        kept_by_device=dict(kept),
    )


def cover(summaries: Sequence[TableSummary]) -> dict[str, dict[str, int]]:
    """Device → family → calls kept in all tables, both sorted by name."""
    total: Counter[tuple[str, str]] = Counter()
    for summary in summaries:
        total.update(summary.kept_by_device)
    coverage: dict[str, dict[str, int]] = {}
    for (device, family), count in sorted(total.items()):
        coverage.setdefault(device, {})[family] = count
    return coverage
