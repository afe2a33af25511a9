"""``validate published``: published training, inference and whole runs against forecasts of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.model import CostModel
from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.validate.protocol import describe_sampling
from perfcast.evidence.validate.published import hours as published_hours
from perfcast.evidence.validate.published.cases import TABLE, PublishedCase, read_published_cases
from perfcast.evidence.validate.published.forecast import PREDICTORS, Track
from perfcast.evidence.validate.published.hours import HoursCase, read_hours_cases
from perfcast.evidence.validate.published.inference import forecast as published_inference
from perfcast.evidence.validate.published.inference.cases import TABLES as INFERENCE_TABLES
from perfcast.evidence.validate.published.inference.cases import InferenceCase, read_inference_cases
from perfcast.evidence.validate.published.priced import Say, choose_on_all, price_suite
from perfcast.evidence.validate.published.training import TrainingResult, forecast_training
from perfcast.evidence.validate.result import TableResult
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, sample
from perfcast.evidence.validate.step_constants.write import write_step_constants
from perfcast.evidence.validate.summary import Scores, summarize

#: Of all tables; inference knows one more, which is asked for by name.
ALL_PREDICTORS = (*PREDICTORS, published_inference.WITHOUT_HOST)
TABLES = (TABLE, *INFERENCE_TABLES, published_hours.TABLE)
#: Groups of training runs; those of the other tables carry the name before them, as do their entries.
GROUPS = (
    "all", "target", "usp", "source", "device", "devices", "plan", "kind", "interval", "source, plan",
    "source, devices", "target, usp", "size", "skipped",
)  # fmt: skip
_INFERENCE_GROUPS = (
    "all",
    "table, kind",
    "source",
    "device",
    "plan",
    "source, kind, device",
    "kind, dtype",
    "skipped",
)
_HOURS_GROUPS = ("all", "device", "plan", "skipped")
Case = PublishedCase | InferenceCase | HoursCase
_Rows = tuple[Row, ...]


def validate_published(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    leave_out: Sequence[str] = (),
    say: Say = lambda text: None,
    track: Track = lambda items, words: items,
) -> TableResult:
    """Forecast every complete line and compare.

    Args:
        predictors: All that time a step, by default.
        leave_out: Sources of training runs, or 'each': constants chosen without them, and only they are
            scored.

    Raises:
        InputError: No table, an unknown predictor or source.
    """
    names = tuple(predictors) or PREDICTORS
    for name in names:
        if name not in ALL_PREDICTORS:
            raise UnknownNameError("predictor", name, ALL_PREDICTORS, f"Known: {', '.join(ALL_PREDICTORS)}.")
    every = _read(places, is_training_only=bool(leave_out))
    taken = sample(every, max_rows, _name, _stratum)
    training = _training(taken, names, leave_out, say, track)
    inference_rows, inference_scores = _inference(taken, names, say, track)
    hours_rows, hours_scores = _hours(taken, names, say, track)
    return TableResult(
        "published",
        _protocol(names, leave_out, len(every), len(taken)),
        (),
        GROUPS,
        more_rows=(*training.rows, *inference_rows, *hours_rows),
        more_scores=training.scores,
        more_summary=(
            *training.more_summary,
            *_apart("inference", inference_scores, _INFERENCE_GROUPS),
            *_apart("whole runs", hours_scores, _HOURS_GROUPS),
        ),
    )


def write_constants(places: Sequence[Path], folder: Path, say: Say = lambda text: None) -> tuple[Path, ...]:
    """The files of constants and of frameworks anew, chosen on some tables of training runs.

    Raises:
        InputError: None is there.
    """
    cases = read_published_cases(places)
    if not cases:
        raise InputError(f"no table '{TABLE}' of training runs in {', '.join(map(str, places))}")
    return write_step_constants(choose_on_all(price_suite(cases, LearnedCost(), say), say), folder)


def _read(places: Sequence[Path], *, is_training_only: bool) -> list[Case]:
    """All lines of the tables that are there."""
    cases: list[Case] = [*read_published_cases(places)]
    if not is_training_only:
        cases += [*read_inference_cases(places), *read_hours_cases(places)]
    if not cases:
        known = (TABLE,) if is_training_only else TABLES
        raise InputError(f"no table in {', '.join(map(str, places))}; known: {', '.join(known)}")
    return cases


def _name(case: Case) -> str:
    return str(case.row) if isinstance(case, PublishedCase) else f"{case.table} {case.row}"


def _stratum(case: Case) -> tuple[str, ...]:
    """Table, device, dtype, framework."""
    if isinstance(case, PublishedCase):
        training = case.run.run.training if case.run else None
        return TABLE, case.device, training.dtype if training else "", training.framework if training else ""
    if isinstance(case, InferenceCase):
        return case.table, case.device, case.dtype, case.framework
    return case.table, case.device


def _training(
    taken: Sequence[Case], names: Sequence[str], leave_out: Sequence[str], say: Say, track: Track
) -> TrainingResult:
    cases = [case for case in taken if isinstance(case, PublishedCase)]
    wanted = [name for name in names if name in PREDICTORS]
    if not cases or not wanted:
        return TrainingResult((), (), ())
    return forecast_training(cases, wanted, leave_out, say, track)


def _inference(
    taken: Sequence[Case], names: Sequence[str], say: Say, track: Track
) -> tuple[_Rows, tuple[Scores, ...]]:
    cases = [case for case in taken if isinstance(case, InferenceCase)]
    if not cases:
        return (), ()
    say(f"forecasting {len(cases)} times of inference")
    return published_inference.inference_rows(cases, names, _learned_of(), track=track)


def _hours(
    taken: Sequence[Case], names: Sequence[str], say: Say, track: Track
) -> tuple[_Rows, tuple[Scores, ...]]:
    cases = [case for case in taken if isinstance(case, HoursCase)]
    wanted = [name for name in names if name in PREDICTORS]
    if not cases or not wanted:
        return (), ()
    say(f"forecasting {len(cases)} whole runs")
    return published_hours.hours_rows(cases, wanted, LearnedCost(), track=track)


def _learned_of() -> Callable[[str], CostModel]:
    """The shipped forecaster by framework, each made once."""
    return lru_cache(maxsize=None)(lambda framework: LearnedCost(framework=framework))


def _apart(table: str, scores: Sequence[Scores], groups: Sequence[str]) -> list[dict[str, Any]]:
    """Entries of the summary that no other table's rows are in."""
    return [{**entry, "group": f"{table}, {entry['group']}"} for entry in summarize(scores, groups)]


def _protocol(names: Sequence[str], leave_out: Sequence[str], total: int, taken: int) -> dict[str, Any]:
    fitted = (
        f"constants of the step chosen on the other sources: left out {', '.join(leave_out)}, one at a time; "
        "tables of inference and of whole runs are not scored"
        if leave_out
        else "constants of prediction/step/constants.toml, chosen on all sources of these tables together; "
        "for forecasts of runs that nothing was chosen on see --leave-out each"
    )
    return {
        "forecast": "from the configuration columns of each line alone; 'notes' is not read but for the "
        "sizes of a model in the table of inference. What a table does not say is what the source's own "
        "scripts do, in words in each row's 'assumptions'",
        "measured": "the stated step time; for usp, and where none is stated, tokens over rate",
        "fitted_on": dict.fromkeys(names, fitted),
        "left_out": ", ".join(leave_out) or "nothing",
        "interval": "by what a step consists of, quantiles of measured over forecast on left-out sources; "
        "those whose own repeats differ by more than 10 % tell only by what their program may stall",
        "choice_of_plan": "groups of at least four plans of one model, sequence, cluster, batch and "
        "precision; repeats count by their median. The plan with the least forecast is good when it was "
        "measured within 15 % of the best measured plan. searcher_3d: the published searcher's formulas on "
        "the same plans; any plan: the mean over random orders",
        "kernels": "the learned cost model, which learned from none of these tables",
        "mlperf": "our reading of published logs: unverified, not official MLPerf results",
        **published_inference.protocol(),
        **published_hours.protocol(),
        "tables_left_out": "layer_times (parts of a step); "
        "data_movement_utilization_curve (another paper's forecast); out_of_memory: see suite 'memory'",
        "sampling": describe_sampling(total, taken),
    }
