"""Lines of ``nvidia_examples.jsonl``: columns understood, and tables under one heading told apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from perfcast.errors import InputError
from perfcast.evidence.validate.vision.examples.headings import Heading, read_heading
from perfcast.files.plain import parse_json
from perfcast.files.reading_tables import text_lines

STEM = "nvidia_examples"
_FIXED = ("source_file", "section")
_DEVICE = re.compile(r"\b(A100|V100|T4|H100|A30|A10|L40S|L4|P100)\b")
_MEMORY = re.compile(r"(\d+)\s?GB?\b")
_SYSTEM = re.compile(r"DGX[- ]?(?:2H|2|1|A100|H100)")
#: Of a system whose section names no device.
_DEVICE_OF_SYSTEM = {
    "dgx-1": "V100",
    "dgx-2": "V100",
    "dgx-2h": "V100",
    "dgx-a100": "A100",
    "dgx-h100": "H100",
}
_heading = cache(read_heading)


@dataclass(frozen=True)
class Line:
    """One row of a table.

    Attributes:
        row: 0-based line of the file.
        section: Headings above the table, as the file joins them.
        columns: Verbatim, in order.
        table: Which of the tables with these headings under this section, from 0.
        index: Of the row in its table.
    """

    row: int
    source_file: str
    section: str
    columns: Mapping[str, str]
    table: int = 0
    index: int = 0

    @property
    def headings(self) -> tuple[Heading, ...]:
        """Columns understood."""
        return tuple(_heading(name) for name in self.columns)

    @property
    def configuration(self) -> dict[str, str]:
        """Cells of what was set, by the names of ``headings``."""
        return {h.key: self.columns[h.text].strip() for h in self.headings if not h.is_result and h.key}

    @property
    def order(self) -> dict[str, tuple[str, ...]]:
        """Precisions that a configuration's heading names, in their order."""
        return {h.key: h.precisions for h in self.headings if not h.is_result}

    @property
    def part(self) -> str:
        """First word of the last part of the section, in lower case: 'base' of 'Base model'."""
        return next(iter(self.section.split(" / ")[-1].lower().split()), "")

    @property
    def is_inference(self) -> bool:
        """Whether the section is of inference."""
        return "inference" in self.section.lower()

    @property
    def system(self) -> str:
        """What it ran on, as spelled: 'NVIDIA DGX A100 (8x A100 80GB)'; '' where the section does not say."""
        for part in reversed(self.section.split(" / ")):
            if _DEVICE.search(part) or _SYSTEM.search(part):
                return (part.partition(": ")[2] or part).strip()
        return ""

    @property
    def device(self) -> str:
        """'a100', 'v100', 't4', …; '' where the section does not say."""
        found = _DEVICE.search(self.system)
        return (found[1] if found else _DEVICE_OF_SYSTEM.get(self.box, "")).lower()

    @property
    def box(self) -> str:
        """'dgx-1', 'dgx-2', 'dgx-2h', 'dgx-a100'; '' for a single card."""
        found = _SYSTEM.search(self.system)
        return re.sub(r"dgx[- ]?", "dgx-", found[0].lower()) if found else ""

    @property
    def memory(self) -> str:
        """Of the device: '16gb'; '' where the section does not say."""
        found = _MEMORY.search(self.system)
        return f"{found[1]}gb" if found else ""


def read_lines(path: Path) -> list[Line]:
    """Every line of the file.

    Raises:
        InputError: A line that is no object with a source file and a section.
    """
    lines: list[Line] = []
    tables: dict[tuple[object, ...], _Table] = {}
    for row, text in enumerate(text_lines(path, what="the published examples")):
        if text.strip():
            lines.append(_placed(_read_line(path, row, text), tables))
    return lines


def _read_line(path: Path, row: int, text: str) -> Line:
    entry = parse_json(text, f"{path}, line {row + 1}")
    try:
        if not isinstance(entry, dict):
            raise KeyError
        source, section = (str(entry.pop(name)) for name in _FIXED)
    except KeyError as error:
        raise InputError(f"{path}, line {row + 1}: no object with {', '.join(_FIXED)}") from error
    return Line(row, source, section, {name: str(cell) for name, cell in entry.items()})


class _Table:
    """Tables with the same headings under one section; a configuration that comes back begins another."""

    def __init__(self) -> None:
        self.number, self.index = 0, 0
        self._seen: set[Sequence[tuple[str, str]]] = set()

    def place(self, configuration: Mapping[str, str]) -> tuple[int, int]:
        key = tuple(sorted(configuration.items()))
        if key and key in self._seen:
            self._seen.clear()
            self.number, self.index = self.number + 1, 0
        self._seen.add(key)
        self.index += 1
        return self.number, self.index - 1


def _placed(line: Line, tables: dict[tuple[object, ...], _Table]) -> Line:
    key = (line.source_file, line.section, tuple(line.columns))
    number, index = tables.setdefault(key, _Table()).place(line.configuration)
    return Line(line.row, line.source_file, line.section, line.columns, number, index)
