"""Coverage of published prompts, tokens and requests of language models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.coverage.rows import scores_of_rows
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.published.inference.cases import TABLES
from perfcast.evidence.validate.published.suite import validate_published
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.summary import Scores

_PREDICTOR = "closed_form"
_NUM_TOKENS = (128, 512, 2048)


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, TABLES)
    if not files:
        return ()
    result = validate_published(files, (_PREDICTOR,), max_rows=max_rows, say=say)
    rows = [row for row in result.more_rows if row.table in TABLES]
    return scores_of_rows(
        _PREDICTOR,
        rows,
        {
            "device": lambda row: row.catalog_device or row.device,
            "kind": lambda row: row.operation or "",
            "framework": lambda row: row.framework or "",
            "scale": _scale,
            "split": lambda row: str(row.columns.get("source_group") or ""),
        },
    )


def _scale(row: Row) -> str:
    """Tokens of a prompt of the whole batch."""
    if row.operation != "prefill":
        return ""
    tokens = int(row.columns.get("prompt_size") or 0) * int(row.columns.get("batch_size") or 0)
    for most in _NUM_TOKENS:
        if tokens <= most:
            return f"prompts of up to {most:,} tokens together"
    return f"prompts of more than {_NUM_TOKENS[-1]:,} tokens together"


LLM_INFERENCE = Subject("inference of language models", "the shipped widths", _score)
