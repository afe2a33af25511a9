"""Coverage of published training steps: plans over many devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.cost.learned.model import LearnedCost
from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.published.cases import TABLE, PublishedCase, read_published_cases
from perfcast.evidence.validate.published.priced import left_out_rows, price_suite, values_without_each
from perfcast.evidence.validate.published.summary import devices_label, step_class
from perfcast.evidence.validate.sampling import sample
from perfcast.evidence.validate.step_constants.widths import WidthRow, widths_without_each
from perfcast.evidence.validate.summary import Scores, score_figures


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, (TABLE,))
    cases = sample(read_published_cases(files), max_rows, lambda case: f"{TABLE}:{case.row}")
    suite = price_suite(cases, LearnedCost(), say)
    if not suite.judged():
        return ()
    rows, noisy = left_out_rows(suite, values_without_each(suite, say)), suite.noisy_sources
    say("fitting widths without each source")
    widths = widths_without_each(rows, noisy)
    figures = [(row.seconds, *row.interval(widths[row.source, row.group]), row.measured) for row in rows]
    labels = _labels([case for case, _ in suite.judged()], rows)
    splits = [f"{row.source}, {row.group}" if row.source in noisy else row.source for row in rows]
    return [score_figures("closed_form", figures, labels | {"split": splits}, [False] * len(rows))]


def _labels(cases: Sequence[PublishedCase], rows: Sequence[WidthRow]) -> dict[str, list[str]]:
    return {
        "device": [case.catalog_device or "" for case in cases],
        "kind": [_kind(case, row) for case, row in zip(cases, rows, strict=True)],
        "framework": [row.framework for row in rows],
        "scale": [devices_label(case) for case in cases],
    }


def _kind(case: PublishedCase, row: WidthRow) -> str:
    stages = ", pipeline" if row.plan.pipeline_parallel > 1 else ""
    return f"{step_class(case)}{stages}"


TRAINING_STEPS = Subject(
    "training steps",
    "constants of the step and widths of the interval from all other sources; what a program may stall by, "
    "of which only a source of noisy repeats is known, from that source's other models",
    _score,
)
