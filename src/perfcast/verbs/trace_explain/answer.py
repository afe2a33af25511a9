"""What answers the question of ``perfcast trace explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.files.limits import parse_size
from perfcast.verbs.result import shown
from perfcast.verbs.trace_explain.question import ExplainQuestion
from perfcast.verbs.trace_explain.result import ExplanationResult

if TYPE_CHECKING:
    from perfcast.traces.events import Trace
    from perfcast.verbs.answer import OnProgress


def answer(asked: ExplainQuestion, *, on_progress: OnProgress | None = None) -> ExplanationResult:
    """The explanation, compared with another run where one is given.

    Raises:
        InputError: A recording that cannot be read, or does not hold what is needed.
    """
    from perfcast.traces.explain.compare import compare_explanations
    from perfcast.traces.explain.recordings import explain

    tell = on_progress or (lambda share, text: None)
    tell(None, "reading the recordings")
    recorded = _read(asked, asked.traces)
    tell(0.5, "explaining the steps")
    explanation = explain(recorded)
    comparison = None
    if asked.compare:
        tell(0.6, "reading the other run")
        comparison = compare_explanations(explain(_read(asked, asked.compare)), explanation)
    return shown(ExplanationResult, explanation, asked, comparison=comparison, recorded=recorded)


def _read(asked: ExplainQuestion, paths: tuple[str, ...]) -> tuple[Trace, ...]:
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs

    most = parse_size("--max-bytes", asked.text("max_bytes"))
    return read_ranks_with_inputs(paths, max_bytes=most, is_truncated_allowed=asked.allow_truncated)
