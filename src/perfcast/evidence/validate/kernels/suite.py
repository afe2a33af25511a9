"""``validate kernels``: single kernels of serving frameworks and other collections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perfcast.evidence.validate.kernels.cases import collect_cases
from perfcast.evidence.validate.kernels.few_measurements import FewResult, Score, check_numbers, score_devices
from perfcast.evidence.validate.kernels.leave_out import LeaveOut, demand_of, folds_of
from perfcast.evidence.validate.kernels.pricers import build_pricers
from perfcast.evidence.validate.kernels.rows import price_cases
from perfcast.evidence.validate.protocol import QUALITY, describe_predictors, describe_sampling
from perfcast.evidence.validate.result import PricedCases, TableResult
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS

PREDICTORS = ("learned", "roofline")
#: Of rows that stand for measured kernels.
DRAWS = 5
GROUPS = (
    "all", "device", "operation", "source", "size", "dtype", "framework", "provenance", "quality",
    "skipped", "operation, device", "operation, dtype", "operation, framework", "quality, operation, device",
)  # fmt: skip


def validate_kernels(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    weights: Path | None = None,
    leave_out: LeaveOut | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> TableResult:
    """Price a sample of all measured kernels by every predictor.

    Args:
        places: Folders of tables, or single tables.
        predictors: Of ``pricers.known_predictors``; ``PREDICTORS`` by default.
        weights: Of the learned forecaster; the shipped ones by default.
        leave_out: Train the learned forecaster without some devices, and score those alone.
        say: Told what goes on.

    Raises:
        InputError: No tables, unknown predictors or devices.
    """
    names = tuple(predictors) or PREDICTORS
    build_pricers(names)
    keep = leave_out.keeps if leave_out else lambda device: True
    cases, total = collect_cases(places, max_rows, by_kind=True, keep=keep)
    taken = sum(map(len, cases))
    say(f"{taken} of {total} cases read")
    priced: list[PricedCases] = []
    fitted: dict[str, Any] = {}
    with folds_of(leave_out, weights, demand_of(cases), say) as folds:
        for fold in folds:
            mine = fold.select(cases)
            priced += price_cases(mine, build_pricers(names, fold.folder, fold.dies))
            tables = {part.table for part in mine}
            fitted[fold.name] = describe_predictors(names, fold.folder, tables, fold.dies)
        protocol = {
            "forecast": "from the configuration columns of each line alone; one call of one kernel, repeated",
            "measured": "as each table states it; of several versions the median",
            "fitted_on": fitted,
            "left_out": "; ".join(fold.description for fold in folds),
            "quality": QUALITY,
            "sampling": describe_sampling(total, taken),
        }
    return TableResult("kernels", protocol, tuple(priced), GROUPS)


def validate_few_measurements(
    places: Sequence[Path],
    numbers: Sequence[int],
    *,
    draws: int = DRAWS,
    max_rows: int = DEFAULT_MAX_ROWS,
    weights: Path | None = None,
    leave_out: LeaveOut | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> FewResult:
    """How the error of 'learned' falls with measurements on each device of the tables.

    Args:
        numbers: Of measurements; none is always one of them.
        draws: How often rows are drawn that stand for the measured kernels.

    Raises:
        InputError: No tables, or unknown devices.
    """
    numbers = check_numbers(numbers)
    keep = leave_out.keeps if leave_out else lambda device: True
    cases, total = collect_cases(places, max_rows, by_kind=True, keep=keep)
    taken = sum(map(len, cases))
    say(f"{taken} of {total} cases read")
    scores: list[Score] = []
    with folds_of(leave_out, weights, demand_of(cases), say) as folds:
        for fold in folds:
            scores += score_devices(fold.select(cases), fold.folder, numbers, draws, say)
        protocol = {
            "measured": "rows of tables nearest to the kernels of 'perfcast measure kernels', in its order",
            "scored": "all others; 'measured': of an operation, format and program that was measured",
            "draws": draws,
            "left_out": "; ".join(fold.description for fold in folds),
            "quality": QUALITY,
            "sampling": describe_sampling(total, taken),
        }
    return FewResult("kernels", protocol, tuple(scores))
