"""One subject of ``validate coverage``: what is forecast with an interval, and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perfcast.evidence.validate.summary import Scores

Say = Callable[[str], None]
#: What coverage is shown by. A subject's scores carry those labels that they have; '' is in no group. The
#: split is what was left out of the fit of the widths that a row is judged by: a source, a die, a program.
Dimension = Literal["device", "kind", "framework", "scale", "split"]
DIMENSIONS: tuple[Dimension, ...] = ("device", "kind", "framework", "scale", "split")
#: (places, most rows, told what goes on) → scored rows; none where no table of the subject is there.
Score = Callable[[Sequence[Path], int, Say], Sequence[Scores]]


@dataclass(frozen=True)
class Subject:
    """A subject and how it is scored.

    Attributes:
        name: As the table and ``--subject`` name it: 'peak memory'.
        protocol: What the widths were fitted on, and what was left out for each row, in words.
        score: Columns of predicted, low, high and measured with labels of ``DIMENSIONS``.
    """

    name: str
    protocol: str
    score: Score
