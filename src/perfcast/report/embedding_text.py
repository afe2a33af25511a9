"""Errors of embedding costs on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from perfcast.evidence.validate.embedding import EmbeddingScore


def print_embedding_scores(scores: Sequence[EmbeddingScore], console: Console) -> None:
    """One line per predictor, optimizer, phase and group."""
    from rich.table import Table

    table = Table("predictor", "optimizer", "phase", "cases", "n", "GMAE", "mean", "median", "in 90 %")
    for score in sorted(scores, key=lambda s: (s.optimizer, s.phase, s.group, s.predictor)):
        table.add_row(
            score.predictor, score.optimizer, score.phase, score.group, str(score.num_cases),
            f"{score.gmae:.1%}", f"{score.mape:.1%}", f"{score.median:.1%}", f"{score.coverage:.0%}",
        )  # fmt: skip
    console.print(table)
