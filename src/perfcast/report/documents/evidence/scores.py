"""Errors of costs and forecasts that are measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.evidence.validate.embedding import EmbeddingScore
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.traces.suite import TraceScore
from perfcast.report.document import Column, Document, Note, Table


def embedding_document(scores: Sequence[EmbeddingScore]) -> Document:
    """One line per predictor, optimizer, phase and group of embedding costs."""
    table = Table(
        columns=(
            *(Column(name, folds=False) for name in ("predictor", "optimizer", "phase", "cases")),
            Column("n"),
            *(Column(name, "share") for name in ("GMAE", "mean", "median", "in 90 %")),
        ),
        rows=tuple(
            (
                score.predictor,
                score.optimizer,
                score.phase,
                score.group,
                score.num_cases,
                score.gmae,
                score.mape,
                score.median,
                score.coverage,
            )
            for score in sorted(scores, key=lambda s: (s.optimizer, s.phase, s.group, s.predictor))
        ),
        is_wide=True,
    )
    return Document(title="Validation of embedding costs", blocks=(table,))


def trace_document(rows: Sequence[Row], scores: Sequence[TraceScore]) -> Document:
    """A line for each model and predictor, its errors by multiple of the recorded batch, and the means."""
    factors = sorted({float(row.columns["factor"]) for row in rows})
    found = []
    for score in sorted(scores, key=lambda s: (s.model == "all", s.model, s.predictor)):
        errors = dict(score.errors)
        by_factor = (errors.get(factor) for factor in factors)
        found.append((score.model, score.predictor, *by_factor, score.gmae, score.mape))
    table = Table(
        columns=(
            Column("model", folds=False),
            Column("forecast from"),
            *(Column(f"× {factor:g}", "+share", missing="") for factor in factors),
            Column("geometric", "share"),
            Column("mean", "share"),
        ),
        rows=tuple(found),
    )
    note = "errors of the step; geometric: exp(mean ln(|error| + 0.0004))"
    return Document(title="Validation of forecasts from recordings", blocks=(table, Note(note)))
