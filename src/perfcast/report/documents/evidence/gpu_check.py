"""A check of a GPU: what was measured of it beside what was forecast, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcast.evidence.gpu_check.result import CheckFile, CheckRow, PartResult, Unit
from perfcast.report.document import Block, Cell, Column, Document, Fact, Note, Section, Table
from perfcast.report.values import Value
from perfcast.units import format_bytes, format_count, format_seconds

_INSIDE = {True: "yes", False: "no", None: "–"}
_STATUS = {"done": "done", "failed": "failed", "left_out": "left out", "no_time": "no time left"}
_MOST_ROWS = 12


def document_of(check: CheckFile) -> Document:
    """What became of each part, then its rows."""
    machine = check.machine
    measured = [row for part in check.parts for row in part.rows if row.error is not None]
    inside = [row.is_inside for row in measured if row.is_inside is not None]
    facts = [
        Fact("Device", _device(check)),
        Fact("Programs", f"perfcast {machine.get('perfcast')}, {_torch(machine)}"),
        Fact("Started", check.started_at),
    ]
    if inside:
        facts.append(Fact("Inside", f"{sum(inside)} of {len(inside)} measured figures lie in their interval"))
    blocks: list[Block] = [Note(str(warning), severity="alarm") for warning in machine.get("warnings") or ()]
    blocks.append(_parts(check.parts))
    blocks += [
        Note(
            f"{part.name} {_STATUS[part.status]}: {part.reason}",
            severity="alarm" if part.status == "failed" else "plain",
        )
        for part in check.parts
        if part.reason
    ]
    blocks += [Section(title=part.name, blocks=(_rows(part.rows),)) for part in check.parts if part.rows]
    return Document(
        title="GPU check" if check.device == "cuda" else "GPU check, dry run on a processor",
        lead="whole" if check.is_whole else "not whole: run it again, and it goes on with what is missing",
        facts=tuple(facts),
        blocks=tuple(blocks),
    )


def _device(check: CheckFile) -> str:
    devices = check.machine.get("devices") or [{"name": check.machine.get("processor", "unknown")}]
    names = [str(one.get("name")) for one in devices if isinstance(one, Mapping)]
    return f"{len(names)} × {names[0]}" if len(names) > 1 else "".join(names)


def _torch(machine: Mapping[str, object]) -> str:
    packages = machine.get("packages")
    found = packages.get("torch") if isinstance(packages, Mapping) else None
    return f"PyTorch {found}"


def _parts(parts: Sequence[PartResult]) -> Table:
    columns = (
        Column("Part"),
        Column("Became"),
        Column("Took", "s"),
        Column("Rows"),
        Column("Mean error", "share"),
    )
    return Table(columns=columns, rows=tuple(_part(part) for part in parts))


def _part(part: PartResult) -> tuple[Value, ...]:
    errors = [abs(row.error) for row in part.rows if row.error is not None]
    mean = sum(errors) / len(errors) if errors else None
    return (part.name, _STATUS[part.status], part.wall_seconds or None, len(part.rows), mean)


def _rows(rows: Sequence[CheckRow]) -> Table:
    columns = (
        Column("Figure"),
        Column("Forecast"),
        Column("Measured"),
        Column("Error"),
        Column("Inside"),
        Column("Note", only="page"),
    )
    return Table(
        columns=columns, rows=tuple(map(_row, rows)), things="figures", most_rows=_MOST_ROWS, pick="spread"
    )


def _row(row: CheckRow) -> tuple[Value | Cell, ...]:
    error = row.error
    return (
        row.what,
        _shown(row.forecast, row.unit),
        _shown(row.measured, row.unit),
        None if error is None else Cell(f"{100 * error:+.1f} %", error),
        _INSIDE[row.is_inside],
        row.note,
    )


def _shown(value: float | None, unit: Unit) -> Cell | None:
    if value is None:
        return None
    match unit:
        case "s":
            return Cell(format_seconds(value), value)
        case "B":
            return Cell(format_bytes(value), value)
        case "share":
            return Cell(f"{100 * value:.1f} %", value)
        case rate:
            return Cell(format_count(value, rate), value)
