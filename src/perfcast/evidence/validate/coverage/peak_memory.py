"""Coverage of peak memory: what training runs allocated and reserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.memory.fit import FITTED, read_widths
from perfcast.evidence.validate.memory.forecast import MemoryForecast, forecast_cases
from perfcast.evidence.validate.memory.rows import TABLES, read_memory_cases
from perfcast.evidence.validate.memory.widths import fold_of, spreads_without_each
from perfcast.evidence.validate.sampling import sample
from perfcast.evidence.validate.summary import Scores, score_figures
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.memory_use.footprint.spread import Spread, spread_name


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, TABLES)
    if not files:
        return ()
    every = [case for case in read_memory_cases(files) if case.run is not None and not case.skipped]
    measured = [case for case in every if case.metric != "outcome" and case.duplicate_of is None]
    if not measured:
        return ()
    cases = sample(measured, max_rows, lambda case: f"{case.label} {case.metric}")
    say(f"widths of {len(cases)} measurements, each fold left out")
    rows, reserved = read_widths(cases, estimate_footprint)
    parts = []
    for fold, spreads in spreads_without_each(rows, tuple(FITTED), reserved).items():
        mine = [case for case in cases if fold_of(case) == fold]
        forecasts = forecast_cases(mine, estimate_footprint, partial(_spread_of, spreads))
        parts.append(_scores(fold, mine, forecasts))
    return parts


def _spread_of(spreads: Mapping[str, Spread], framework: str) -> Spread:
    return spreads[spread_name(framework, spreads)]


def _scores(fold: str, cases: Sequence[MemoryCase], forecasts: Sequence[MemoryForecast]) -> Scores:
    figures = [
        (answer.num_bytes, answer.low, answer.high, case.measured_bytes)
        for case, answer in zip(cases, forecasts, strict=True)
    ]
    labels = {
        "device": [case.device for case in cases],
        "kind": [case.metric for case in cases],
        "framework": [case.run.training.framework if case.run else "" for case in cases],
        "scale": [f"{case.num_devices} devices" if case.num_devices else "" for case in cases],
        "split": [fold] * len(cases),
    }
    return score_figures("footprint", figures, labels, (answer.skipped is not None for answer in forecasts))


PEAK_MEMORY = Subject(
    "peak memory",
    "widths fitted without a row's fold: the runs of its source on its device (the playbook's: of its model; "
    "Galvatron's: of its number of stages); figures of megatron and nanotron as shipped, fitted to half of "
    "the lines",
    _score,
)
