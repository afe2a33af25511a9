"""Logs of nccl-tests and rccl-tests, as printed.

A table of one row per message size, below a header that names the columns; times and rates stand twice,
out of place and in place. Versions differ in the column of wrong elements (``error``, ``#wrong``), in
whether operation and root are printed, and in extra columns after each block; the header says which.
Launchers put a label before every line (``[1,0]<stdout>:``, ``0:``). A file may hold several runs.

Sizes are in bytes of the full buffer, times in µs, rates in 10⁹ bytes per second (PERFORMANCE.md of
nccl-tests): bus bandwidth is algorithm bandwidth times 2 (n−1)/n for all-reduce, (n−1)/n for all-gather,
reduce-scatter and all-to-all, 1 for the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from perfcast.errors import InputError
from perfcast.files.reading import read_text
from perfcast.units import GIGA, MICRO

#: Name of the program, less '_perf' → collective of perfcast.
_PROGRAMS: Mapping[str, str] = {
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "gather": "gather_to_root",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "scatter": "scatter_from_root",
    "sendrecv": "send",
}
_LABEL = re.compile(r"^\s*(?:\[[\w,.\- ]+\](?:<\w+>)?:?\s?|\d+:\s)")
_PROGRAM = re.compile(r"\b([a-z_]+)_perf\b")
_STARTING = re.compile(r"#\s*Collective test starting:\s*([a-z_]+)_perf")
_OPTIONS = re.compile(r"^#\s*nThread\s")
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\b")
_ROW = re.compile(r"^\d+\s+\d+\s+[a-z]\w*\s")
_HEADER = re.compile(r"^#?\s*size\s+count\b")
_FAILURE = re.compile(r"Test (?:NCCL|CUDA|HIP|RCCL) failure|: Test failure\b")
_END = re.compile(r"^#\s*Avg bus bandwidth")
_COUNT = re.compile(r"^(?:\d+|\d[\d.]*e\+\d+|N/A)$")
_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class LogRow:
    """One message size of one run.

    Attributes:
        collective: One of ``core.collective.COLLECTIVES``.
        size_bytes: The full, unsharded buffer.
        seconds, bus_bytes_per_second: Out of place.
        in_place_seconds: None where the run has no such column, or it says N/A.
        num_ranks: Of the communicator.
        dtype: As printed.
        line: In the file, from 1.
    """

    collective: str
    size_bytes: int
    seconds: float
    bus_bytes_per_second: float
    in_place_seconds: float | None
    num_ranks: int
    dtype: str
    line: int


@dataclass(slots=True)
class _Run:
    """What has been read of one run."""

    program: str | None = None
    columns: list[str] = field(default_factory=list)
    header_line: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)


def load_nccl_log(
    path: str | Path, collective: str | None = None, num_ranks: int | None = None
) -> tuple[LogRow, ...]:
    """Read a log from a file.

    Args:
        collective, num_ranks: For logs that do not say; see ``parse_nccl_log``.

    Raises:
        InputError: It cannot be read, or is no such log; says file and line.
    """
    text = read_text(path, what="the log", errors="replace")
    return parse_nccl_log(text, str(path), collective, num_ranks)


def parse_nccl_log(
    text: str, where: str = "log", collective: str | None = None, num_ranks: int | None = None
) -> tuple[LogRow, ...]:
    """Rows of every run in a log, in the order printed; messages of no bytes are left out.

    Args:
        text: The log.
        where: Its name in messages.
        collective: What was measured, for logs that do not name the program.
        num_ranks: For logs without their list of ranks; all-reduce, all-gather, reduce-scatter and
            all-to-all tell it by the ratio of their two bandwidths too.

    Raises:
        InputError: No table, a row that does not fit the header, a run cut off before its end or ended by
            an error, wrong results, ranks missing or twice, an unknown program; says file and line.
    """
    runs = _runs(text, where)
    if not runs:
        _refuse(
            where,
            None,
            "no table was found; expected the output of nccl-tests or rccl-tests, with a "
            "header '# size count type …' above its rows",
        )
    return tuple(row for run in runs for row in _rows_of(run, where, collective, num_ranks))


def _runs(text: str, where: str) -> list[_Run]:
    """Complete runs: those that reach their average bandwidth."""
    runs, run, number = [], _Run(), 0
    lines = [_LABEL.sub("", line).strip() for line in text.splitlines()]
    for number, line in enumerate(lines, start=1):
        if _FAILURE.search(line):
            _refuse(where, number, f"the run failed: {' '.join(_error_lines(lines[number - 1 :]))}")
        if starting := _STARTING.search(line):
            _require_end(run, where, number)
            run = _Run(starting[1])
        elif _OPTIONS.match(line):
            run.places.clear()  # of a run that never came to its table
        elif rank := _RANK.match(line):
            run.places.append((int(rank[2] or 0), int(rank[1])))
        elif _HEADER.match(line):
            _require_end(run, where, number)
            run.columns, run.header_line = line.lstrip("# ").split(), number
        elif run.columns and _ROW.match(line):
            run.rows.append((number, line.split()))
        elif run.columns and _END.match(line):
            runs.append(run)
            run = _Run()
        elif program := _PROGRAM.search(line):
            _name_program(run, runs, line, program[1])
    _require_end(run, where, number)
    return runs


def _name_program(run: _Run, runs: Sequence[_Run], line: str, program: str) -> None:
    """A command line above a table names its program, and so does the last line below it."""
    if "concluded" not in line:
        run.program = program
    elif runs and runs[-1].program is None:
        runs[-1].program = program


def _require_end(run: _Run, where: str, line: int) -> None:
    if run.columns:
        _refuse(
            where,
            line,
            f"the run whose table begins at line {run.header_line} is cut off after "
            f"{len(run.rows)} rows; expected '# Avg bus bandwidth' at its end",
        )


def _error_lines(lines: Sequence[str]) -> Iterator[str]:
    """A failure and the lines that go on about it."""
    for index, line in enumerate(lines[:4]):
        if index and not (line.startswith("..") or _FAILURE.search(line)):
            return
        yield line


def _rows_of(run: _Run, where: str, collective: str | None, num_ranks: int | None) -> Iterator[LogRow]:
    name = collective or _collective_of(run, where)
    ranks = _count_ranks(run, where)
    if ranks and num_ranks and ranks != num_ranks:
        _refuse(where, run.header_line, f"the run has {ranks} ranks, not {num_ranks}")
    if not run.rows:
        _refuse(where, run.header_line, "the table has no rows")
    parsed = [_Fields.read(run, tokens, where, line) for line, tokens in run.rows]
    ranks = ranks or num_ranks or _ranks_by_ratio(name, parsed[-1], where)
    for one in parsed:
        if one.size_bytes:
            yield LogRow(
                name,
                one.size_bytes,
                one.seconds,
                one.bus_bytes_per_second,
                one.in_place_seconds,
                ranks,
                one.dtype,
                one.line,
            )


@dataclass(frozen=True, slots=True)
class _Fields:
    """One row, in SI."""

    line: int
    size_bytes: int
    dtype: str
    seconds: float
    algorithm_bytes_per_second: float
    bus_bytes_per_second: float
    in_place_seconds: float | None

    @classmethod
    def read(cls, run: _Run, tokens: list[str], where: str, line: int) -> _Fields:
        """By the header's columns, counted from the right: operation and root may be blank."""
        if "time" not in run.columns:
            _refuse(where, run.header_line, "no column 'time'; a log with 'cputime' times the host alone")
        first = run.columns.index("time")
        block = run.columns[first:]
        if not 3 + len(block) <= len(tokens) <= len(run.columns):
            _refuse(where, line, _misfit(run, tokens))
        named: dict[str, list[str]] = {}
        for column, token in zip(block, tokens[-len(block) :], strict=True):
            named.setdefault(column, []).append(token)
        for wrong in named.get("#wrong", []):
            if not _COUNT.match(wrong):
                _refuse(where, line, f"'{wrong}' in the column '#wrong': {_misfit(run, tokens)}")
            if wrong not in ("0", "N/A"):
                _refuse(where, line, f"{wrong} wrong elements: results that are wrong are not timings")
        seconds, *in_place = [_number(t, where, line) for t in named["time"]]
        rates = [_number(named.get(name, ["N/A"])[0], where, line) for name in ("algbw", "busbw")]
        if seconds is None or rates[0] is None or rates[1] is None:
            _refuse(where, line, "no out-of-place time, algbw and busbw")
        found = cls(
            line,
            int(tokens[0]),
            tokens[2],
            seconds * MICRO,
            rates[0] * GIGA,
            rates[1] * GIGA,
            in_place[0] * MICRO if in_place and in_place[0] is not None else None,
        )
        found._check(where)
        return found

    def _check(self, where: str) -> None:
        """Rates are printed to two decimals; where that says enough they must agree with size and time."""
        if self.size_bytes and self.seconds <= 0:
            _refuse(where, self.line, f"a time of {self.seconds:g} µs for {self.size_bytes} bytes")
        rate = self.algorithm_bytes_per_second
        if rate >= GIGA and abs(self.size_bytes / self.seconds / rate - 1) > _TOLERANCE:
            _refuse(
                where,
                self.line,
                f"{self.size_bytes} bytes in {self.seconds / MICRO:g} µs are not the "
                f"{rate / GIGA:g} GB/s printed; expected bytes, µs and 10⁹ bytes/s",
            )


def _misfit(run: _Run, tokens: Sequence[str]) -> str:
    header = f"the header at line {run.header_line} has {len(run.columns)}: {' '.join(run.columns)}"
    return f"{len(tokens)} columns where {header}"


def _number(token: str, where: str, line: int) -> float | None:
    if token == "N/A":
        return None
    try:
        return float(token)
    except ValueError:
        _refuse(where, line, f"'{token}' where a number was expected")


def _collective_of(run: _Run, where: str) -> str:
    if run.program is None:
        _refuse(
            where,
            run.header_line,
            "the log does not name its program (all_reduce_perf …); say which collective it measured",
        )
    if run.program not in _PROGRAMS:
        known = ", ".join(f"{name}_perf" for name in _PROGRAMS)
        _refuse(where, run.header_line, f"{run.program}_perf is not a collective known here; known: {known}")
    return _PROGRAMS[run.program]


def _count_ranks(run: _Run, where: str) -> int | None:
    """Ranks of a communicator, by the list of devices; None where there is no list."""
    if not run.places:
        return None
    if len(set(run.places)) < len(run.places):
        twice = Counter(run.places).most_common(1)[0][0]
        _refuse(
            where,
            run.header_line,
            f"rank {twice[1]} is listed twice: programs that do not know of each "
            f"other (nccl-tests built without MPI) measure nothing between them",
        )
    groups: dict[int, list[int]] = {}
    for group, rank in run.places:
        groups.setdefault(group, []).append(rank)
    everyone = sorted(rank for _, rank in run.places)
    for members in groups.values():
        if sorted(members) != list(range(len(members))) and everyone != list(range(len(everyone))):
            held = set(members) if set(everyone) >= set(range(len(members))) else set(everyone)
            missing = next(rank for rank in range(len(held)) if rank not in held)
            _refuse(where, run.header_line, f"rank {missing} is missing from the list of devices")
    return len(run.places) // len(groups)


def _ranks_by_ratio(collective: str, row: _Fields, where: str) -> int:
    """n from bus over algorithm bandwidth of the last, largest row."""
    doubled = 2.0 if collective == "all_reduce" else 1.0
    if collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        algorithm = row.algorithm_bytes_per_second
        share = row.bus_bytes_per_second / algorithm / doubled if row.seconds and algorithm else 1.0
        if 0 < share < 1:
            return round(1 / (1 - share))
    return _refuse(where, row.line, "the log does not list its ranks; say how many there were")


def _refuse(where: str, line: int | None, reason: str) -> NoReturn:
    raise InputError(f"{where}:{line}: {reason}" if line else f"{where}: {reason}")
