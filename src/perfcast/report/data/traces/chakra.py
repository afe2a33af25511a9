"""What JSON holds of Chakra traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.report.answers import Answer, view
from perfcast.traces.chakra.summary import ChakraSummary, WorkloadSummary


@dataclass(frozen=True, kw_only=True)
class ChakraData(Answer):
    """What Chakra traces hold.

    Attributes:
        ranks: One for each file; no unit.
        groups: Process groups beside that of all ranks, by name: their ranks; no unit.
        together_seconds: Until the last rank has ended, where collectives start with their last
            member; null where they do not fit together; seconds.
        problem: Why they do not fit together; empty where they do; no unit.
        objections: The first of what ASTRA-sim would stumble over; no unit.
        num_objections: How many of those there are; no unit.
        files: Files that were written; no unit.
    """

    ranks: tuple[ChakraSummary, ...]
    groups: dict[str, tuple[int, ...]]
    together_seconds: float | None
    problem: str
    objections: tuple[str, ...]
    num_objections: int
    files: tuple[str, ...]


def data_of(summary: WorkloadSummary, written: Sequence[str]) -> ChakraData:
    """What traces hold, and the files that were written."""
    return view(ChakraData, summary, files=tuple(written))
