"""A closed form beside the liveness of a captured graph, difference by difference.

Both say what is held at the peak: the closed form term by term, each term so many equal blocks (its formula
reads '32 · (2048·4096·2) + …'), the graph block by block. Within a category, blocks of a size that both know
are the same; what is left over on either side is a difference, under the name that this side has for it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from perfcast.core.forecast.device import AliveTensors, MemoryForecast
from perfcast.core.forecast.footprint import PeakCandidate, Term
from perfcast.core.tensor import Category

_BLOCKS = re.compile(r"(\d+) · \((\d+(?:·\d+)*)\)")


@dataclass(frozen=True, slots=True)
class Difference:
    """One name: its bytes in the closed form and on the graph; 0 where one side does not know it."""

    category: str
    name: str
    closed_form_bytes: int
    graph_bytes: int

    @property
    def difference_bytes(self) -> int:
        """Closed form less graph."""
        return self.closed_form_bytes - self.graph_bytes


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows by category and name; they sum to both peaks.

    Attributes:
        moment: The name of the closed form's peak candidate.
    """

    moment: str
    graph_peak: str
    rows: tuple[Difference, ...]

    @property
    def closed_form_bytes(self) -> int:
        """Bytes of the closed form's peak candidate."""
        return sum(row.closed_form_bytes for row in self.rows)

    @property
    def graph_bytes(self) -> int:
        """Bytes at the graph's peak."""
        return sum(row.graph_bytes for row in self.rows)

    @property
    def relative_error(self) -> float:
        """Error of the closed form, signed."""
        return self.closed_form_bytes / self.graph_bytes - 1 if self.graph_bytes else 0.0

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Rows in which the two differ, the largest first."""
        rows = [row for row in self.rows if row.difference_bytes]
        return tuple(sorted(rows, key=lambda row: -abs(row.difference_bytes)))


def compare_with_liveness(candidate: PeakCandidate, memory: MemoryForecast) -> Comparison:
    """The terms of a peak candidate against what is alive at the peak of a graph."""
    rows: list[Difference] = []
    for category in Category.ALL:
        terms = [term for term in candidate.terms if term.category == category]
        alive = [group for group in memory.alive_at_peak if group.category == category]
        rows += _match(category, terms, alive)
    where = f"{memory.peak_operation} in {memory.peak_module or 'the program'}, {memory.peak_phase}"
    return Comparison(candidate.name, where, tuple(rows))


def _match(category: str, terms: list[Term], alive: list[AliveTensors]) -> list[Difference]:
    """Terms of known blocks take blocks of their sizes; a single other term takes what is left."""
    sizes: Counter[int] = Counter()
    for group in alive:
        sizes[group.num_bytes] += group.count
    rows, others = [], []
    for term in terms:
        blocks = blocks_of(term)
        if blocks is None:
            others.append(term)
            continue
        found = 0
        for size, count in blocks.items():
            taken = min(count, sizes[size])
            sizes[size] -= taken
            found += taken * size
        rows.append(Difference(category, term.name, term.num_bytes, found))
    if len(others) == 1:
        left = sum(size * count for size, count in sizes.items())
        rows.append(Difference(category, others[0].name, others[0].num_bytes, left))
        return rows
    rows += [_take(term, sizes) for term in others]
    return rows + _left_over(category, alive, sizes)


def _take(term: Term, sizes: Counter[int]) -> Difference:
    """A term that says only its bytes takes a block of exactly so many, if there is one."""
    found = term.num_bytes if sizes[term.num_bytes] > 0 else 0
    if found:
        sizes[found] -= 1
    return Difference(term.category, term.name, term.num_bytes, found)


def _left_over(category: str, alive: list[AliveTensors], sizes: Counter[int]) -> list[Difference]:
    """What the graph alone holds, by the operation and the line that made it."""
    rows: Counter[str] = Counter()
    for group in alive:
        count = min(group.count, sizes[group.num_bytes])
        sizes[group.num_bytes] -= count
        if count:
            place = group.created_at or group.module or "the program"
            rows[f"{group.operation or 'held before the step'} at {place}"] += count * group.num_bytes
    return [Difference(category, name, 0, num_bytes) for name, num_bytes in rows.items()]


def blocks_of(term: Term) -> Counter[int] | None:
    """Block sizes of a term whose formula counts blocks: '2 · (16·8·4)' is two of 512; None for others."""
    found = _BLOCKS.findall(term.formula)
    if not found or " + ".join(f"{count} · ({factors})" for count, factors in found) != term.formula:
        return None
    blocks: Counter[int] = Counter()
    for count, factors in found:
        blocks[math.prod(map(int, factors.split("·")))] += int(count)
    return blocks
