"""``validate memory``: measured peaks and outcomes of training runs against their footprints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perfcast.errors import InputError
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.memory.forecast import Predictor, forecast_cases
from perfcast.evidence.validate.memory.protocol import describe_memory
from perfcast.evidence.validate.memory.result import MemoryResult, MemoryRow
from perfcast.evidence.validate.memory.rows import read_memory_cases
from perfcast.evidence.validate.protocol import describe_sampling
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, sample

PREDICTORS = ("footprint",)
_DRAWN = (
    "evenly over table, device, dtype and framework (small groups whole), by a fixed hash of table, line and "
    "metric"
)


def validate_memory(
    places: Sequence[Path],
    predictors: Mapping[str, Predictor],
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    say: Callable[[str], None] = lambda text: None,
) -> MemoryResult:
    """Forecast every measurement of every table by every predictor.

    Args:
        places: Folders of tables, or single tables.
        predictors: By name; see ``load_predictors``.
        max_rows: Of cases, drawn evenly over table, device, dtype and framework.

    Raises:
        InputError: No table of measured memory.
    """
    every = read_memory_cases(places)
    cases = sample(every, max_rows, lambda case: f"{case.label} {case.metric}", _stratum)
    sampling = describe_sampling(len(every), len(cases), "measurements", _DRAWN)
    say(sampling)
    expanding = _expanding(every)
    answers = {name: forecast_cases(cases, predictor) for name, predictor in predictors.items()}
    rows = tuple(
        MemoryRow(case, name, forecasts[index], expands=case.table in expanding)
        for index, case in enumerate(cases)
        for name, forecasts in answers.items()
    )
    return MemoryResult(describe_memory(tuple(predictors), sampling), rows)


def load_predictors(names: Sequence[str] = ()) -> dict[str, Predictor]:
    """The named predictors; all without a name.

    Raises:
        InputError: Unknown name.
    """
    from perfcast.memory_use.footprint import estimate_footprint

    known: dict[str, Predictor] = {"footprint": estimate_footprint}
    for name in names:
        if name not in known:
            raise InputError(f"unknown predictor '{name}' of memory; known: {', '.join(known)}")
    return {name: known[name] for name in names or known}


def _stratum(case: MemoryCase) -> tuple[str, str, str, str]:
    run = case.run
    return (case.table, case.device, *((run.training.dtype, run.training.framework) if run else ("", "")))


def _expanding(cases: Sequence[MemoryCase]) -> set[str]:
    """Tables of which a line gives several measurements."""
    seen: set[str] = set()
    found = set()
    for case in cases:
        if case.label in seen:
            found.add(case.table)
        seen.add(case.label)
    return found
