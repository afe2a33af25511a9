"""Measured tables of kernels: what is there, what is kept, and why not the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcast.evidence.dataset.coverage import TableSummary
from perfcast.report.document import Column, Document, Section, Table
from perfcast.report.values import Value

_NAMES_SHOWN = 6


def document_of(tables: Sequence[TableSummary], coverage: Mapping[str, Mapping[str, int]]) -> Document:
    """One line a table, reasons of what is not kept, and devices by families.

    Args:
        coverage: Calls that are kept, by device and family.
    """
    rejected = tuple(
        (table.table, reason, count) for table in tables for reason, count in table.rejected.items()
    )
    reasons = Table(
        columns=(Column("table", folds=False), Column("reason"), Column("count", "number")), rows=rejected
    )
    return Document(
        title="Measured tables",
        blocks=(
            _tables(tables),
            Section(title="Not kept", blocks=(reasons,)),
            Section(title="Kept, by device and family", blocks=(_coverage(coverage),)),
        ),
    )


def _tables(tables: Sequence[TableSummary]) -> Table:
    rows: list[tuple[Value, ...]] = []
    for table in tables:
        devices = [name or f"{spelling} (unknown)" for spelling, name in table.devices.items()]
        names = (devices, table.operations, table.dtypes, table.frameworks)
        counts = (table.num_rows, table.num_measurements, table.num_kept)
        rows.append((table.table, *map(_shorten, names), *counts))
    return Table(
        columns=(
            Column("table", folds=False),
            *(Column(heading) for heading in ("devices", "operations", "dtypes", "frameworks")),
            *(Column(heading, "number") for heading in ("rows", "read", "kept")),
        ),
        rows=tuple(rows),
    )


def _coverage(coverage: Mapping[str, Mapping[str, int]]) -> Table:
    families = sorted({family for counts in coverage.values() for family in counts})
    return Table(
        columns=(Column("device", folds=False), *(Column(family, "number") for family in families)),
        rows=tuple(
            (device, *(counts.get(family) for family in families)) for device, counts in coverage.items()
        ),
    )


def _shorten(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    more = [f"and {len(shown) - _NAMES_SHOWN} more"] if len(shown) > _NAMES_SHOWN else []
    return ", ".join(shown[:_NAMES_SHOWN] + more)
