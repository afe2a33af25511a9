"""Figures of a published system beside ours: ``published | ours | difference``.

Every system answers ``compare(data)`` with a ``Comparison`` (``systems`` has them by name), and its module,
run with ``-m``, prints it:

    if __name__ == "__main__":
        print_comparison(compare)

Rows that need measured tables stand in it only where ``data`` names their folder (``--data DIR``); ``reason``
says in one line which rows are missing, or why there are none at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perfcast.errors import PerfcastError
from perfcast.printer.streams import drop_output, say

#: Units whose difference is one of points, since they are shares already.
SHARES = ("%", "points")
_HEADINGS = ("", "published", "ours", "difference")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a paper, and ours.

    Attributes:
        what: What it is of, in a few words.
        published: As printed, in ``unit``; None where the paper prints none, and ours stands alone.
        ours: In the same unit; None where it is not reproduced, which ``note`` then explains.
        unit: As printed: 'ms', '%', 'FLOP' …; shares are percent. '' for counts.
        where: Table, section or page of the paper.
        note: Why the two differ, or why there is no figure of ours.
        digits: Significant digits that are shown.
    """

    what: str
    published: float | None
    ours: float | None
    unit: str = ""
    where: str = ""
    note: str = ""
    digits: int = 5

    @property
    def difference(self) -> float | None:
        """Ours beyond the published: of shares in points, of all else a share of the published.

        None where one of the two is missing, or the published is 0.
        """
        if self.published is None or self.ours is None:
            return None
        if self.unit in SHARES:
            return self.ours - self.published
        return self.ours / self.published - 1 if self.published else None

    @property
    def texts(self) -> tuple[str, str, str]:
        """Published, ours and their difference as they are shown; '–' where there is none."""
        return (
            _shown(self.published, self.unit, self.digits),
            _shown(self.ours, self.unit, self.digits),
            self._difference_text,
        )

    @property
    def _difference_text(self) -> str:
        difference = self.difference
        if difference is None:
            return "–"
        if self.unit in SHARES:
            return f"{difference:+.1f} points" if difference else "none"
        return f"{100 * difference:+.1f} %" if difference else "none"


def _shown(value: float | None, unit: str, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}g} {unit}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of a plot.

    Attributes:
        points: (x, y), by x.
        is_line: Whether a line goes through them, and no marks.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    is_line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What is better seen than read: published points and ours; x is drawn as powers of ten.

    Attributes:
        y_unit: 'share' is a fraction drawn in percent; '' is none.
    """

    name: str
    x_title: str
    y_title: str
    y_unit: Literal["share", "s", ""]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A system's figures beside ours.

    Attributes:
        system: Its name, as ``systems`` has it.
        paper: Authors, title, where and when.
        protocol: How ours were computed, in a sentence or two.
        figures: In the paper's order.
        reason: One line: which rows are missing and what brings them, or why there are none; '' if none is.
        notes: What else sets ours apart, a line each.
        plots: The same as figures, for pages and pictures.
    """

    system: str
    paper: str
    protocol: str
    figures: tuple[Figure, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()

    def __post_init__(self) -> None:
        if not self.figures and not self.reason:
            raise ValueError(f"{self.system}: neither figures nor a reason why there are none")

    @property
    def row_notes(self) -> tuple[tuple[str, str], ...]:
        """(row, its note); what is said of several rows stands at the first."""
        noted: dict[str, str] = {}
        for one in self.figures:
            if one.note:
                noted.setdefault(one.note, one.what)
        return tuple((what, note) for note, what in noted.items())


#: Data folder, or None → figures.
Compare = Callable[[Path | None], Comparison]


def unread(data: Path | None) -> tuple[str, ...]:
    """What a system says of a folder of which it reads nothing."""
    return () if data is None else (f"No row rests on measured tables: nothing of {data} was read.",)


def lines_of(comparison: Comparison) -> list[str]:
    """The comparison as text: paper, protocol, table, notes of single rows, and what is missing."""
    lines = [f"{comparison.system}: {comparison.paper}", comparison.protocol]
    if comparison.figures:
        lines += ["", *_table([(one.what, *one.texts) for one in comparison.figures])]
        noted = [f"{what}: {note}" for what, note in comparison.row_notes]
        lines += ["", *noted] if noted else []
    more = [*comparison.notes, *([comparison.reason] if comparison.reason else [])]
    return [*lines, "", *more] if more else lines


def _table(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    columns = list(zip(_HEADINGS, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return [
        f"{row[0]:<{widths[0]}}"
        + "".join(f" | {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in (_HEADINGS, *rows)
    ]


def print_comparison(compare: Compare, arguments: Sequence[str] | None = None) -> None:
    """What ``python -m perfcast.published.NAME [--data DIR]`` does; ends the process with its exit code."""
    sys.exit(run_comparison(compare, sys.argv[1:] if arguments is None else arguments))


def run_comparison(compare: Compare, arguments: Sequence[str]) -> int:
    """The same, answering the exit code: 0 done, 2 bad input."""
    import argparse

    parser = argparse.ArgumentParser(description="Published figures beside ours.")
    parser.add_argument("--data", metavar="DIR", type=Path, help="Measured tables, for rows that need them.")
    options = parser.parse_args(arguments)
    try:
        for line in lines_of(compare(options.data)):
            say(line)
    except BrokenPipeError:  # nobody reads on
        drop_output()
    except PerfcastError as error:
        say(f"error: {error}", is_error=True)
        return 2
    return 0


def print_part(module: str, *systems: str) -> None:
    """What a module prints that is a part of systems, and has no figures of its own."""
    commands = ", ".join(f"python -m perfcast.published.{name}" for name in systems)
    say(f"{module}: a part of {' and '.join(systems)}, without figures of its own; see {commands}")


if __name__ == "__main__":
    say("comparison: what every published system answers; perfcast published lists them")
