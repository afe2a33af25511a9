"""``validate neusight``: kernels and whole-model steps of the NeuSight study (ASPLOS 2025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Objects
from perfcast.errors import InputError
from perfcast.evidence.dataset.table import find_tables, kind_of, known_files, stem_of
from perfcast.evidence.validate.kernels.cases import Cases, collect_cases
from perfcast.evidence.validate.kernels.leave_out import Demand, Fold, LeaveOut, demand_of, folds_of
from perfcast.evidence.validate.kernels.pricers import build_pricers
from perfcast.evidence.validate.kernels.rows import price_cases
from perfcast.evidence.validate.kernels.trained import STUDY_DEVICES
from perfcast.evidence.validate.protocol import QUALITY, describe_predictors, describe_sampling
from perfcast.evidence.validate.result import PricedCases, TableResult
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, sample
from perfcast.evidence.validate.steps.cases import FUSED, PRINTED, STEM, StepCase, read_steps
from perfcast.evidence.validate.steps.rows import capture_steps, demand_of_steps, forecast_steps
from perfcast.evidence.validate.steps.scores import compare, score_parts, score_steps
from perfcast.evidence.validate.summary import summarize
from perfcast.published.registry import PREDICTORS as PUBLISHED

PREDICTORS = ("learned", *PUBLISHED)
#: The study's own table: its four predictors, and ours.
STUDY_PREDICTORS = ("learned", "neusight", "habitat", "li2020", "roofline")
TEST_TABLES = ("bmm_test", "linear_test", "elem_test", "softmax_test", "ln_test")
TRAIN_TABLES = ("matmul_train", "vector_train", "convolution")
GROUPS = (
    "all", "device", "operation", "source", "size", "provenance", "quality", "distribution", "skipped",
    "operation, device", "operation, distribution", "quality, operation, device",
    "mode", "model", "variant", "model, mode", "mode, device", "mode, distribution",
)  # fmt: skip

#: Models that it counts as unseen, by the beginning of their file's name.
_UNSEEN_MODELS = "gpt3"


def validate_neusight(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    all_tables: bool = False,
    study: bool = False,
    weights: Path | None = None,
    leave_out: LeaveOut | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> TableResult:
    """Price the study's test kernels and its whole-model steps by every predictor.

    Args:
        places: Folders of tables, or single tables.
        predictors: Of ``pricers.known_predictors``; ``PREDICTORS``, with ``study`` ``STUDY_PREDICTORS``, by
            default.
        max_rows: Of kernels and steps.
        all_tables: The tables that the study trained on too.
        study: Only the eager steps on one device for which each of the study's predictors printed a forecast.
        weights, leave_out, say: See ``validate_kernels``.

    Raises:
        InputError: No tables, unknown predictors or devices.
    """
    names = tuple(predictors) or (STUDY_PREDICTORS if study else PREDICTORS)
    build_pricers(names)
    tables = () if study else TEST_TABLES + TRAIN_TABLES * all_tables
    sampled = _sample(places, max_rows, tables, leave_out.keeps if leave_out else lambda device: True)
    say(sampled.description)
    programs = capture_steps(sampled.steps, say, names)
    demand = _join(demand_of(sampled.cases), demand_of_steps(sampled.steps, programs))
    priced: list[PricedCases] = []
    rows: list[Row] = []
    fitted: dict[str, Any] = {}
    with folds_of(leave_out, weights, demand, say) as folds:
        for fold in folds:
            mine = fold.select(sampled.cases)
            labels = {number: {"distribution": _distributions(part)} for number, part in enumerate(mine)}
            priced += price_cases(mine, build_pricers(names, fold.folder, fold.dies), labels)
            steps = [case for case in sampled.steps if fold.scores(case.catalog_device or "")]
            rows += forecast_steps(steps, programs, names, fold.folder, fold.dies)
            stems = {part.table for part in mine}
            fitted[fold.name] = describe_predictors(names, fold.folder, stems, fold.dies)
        protocol = _protocol(folds, fitted, sampled.description)
    return TableResult(
        "neusight",
        protocol,
        tuple(priced),
        GROUPS,
        more_rows=tuple(rows),
        more_scores=tuple(score_steps(rows, _distribution_of)),
        more_summary=(
            *summarize(score_parts(rows), ("part", "part, device")),
            *compare(rows, "learned", "published:neusight", _SUBSETS),
        ),
    )


@dataclass(frozen=True)
class _Sample:
    """What is scored, and how it was drawn."""

    cases: list[Cases]
    steps: list[StepCase]
    description: str


def _sample(places: Sequence[Path], most: int, tables: Sequence[str], keep: Callable[[str], bool]) -> _Sample:
    """Kernels and steps; the steps count as one table more when ``most`` is shared out.

    Args:
        tables: Of kernels; without any, only the steps of which the study printed every forecast.
    """
    holding = [place for place in places if _holds_kernels(place)]
    every = [case for path in find_tables(places, (STEM,)) for case in read_steps(path, keep)]
    if not tables:
        every = [case for case in every if _has_every_forecast(case)]
    steps = sample(every, max(1, most // (len(tables) + 1)), lambda c: f"{c.row}", lambda c: c.device)
    cases, total = collect_cases(
        holding if tables else (), most - len(steps), use=lambda stem: stem in tables, keep=keep
    )
    if not cases and not steps:
        raise InputError(
            f"no row of {', '.join((*tables, STEM))} in {', '.join(map(str, places))}"
            + (f"; --all-tables takes {', '.join(TRAIN_TABLES)} too" if tables == TEST_TABLES else "")
        )
    taken = sum(map(len, cases))
    words = f"kernels: {describe_sampling(total, taken)}; steps: {len(steps)} of {len(every)}"
    return _Sample(cases, steps, words)


def _holds_kernels(place: Path) -> bool:
    """Whether to look for tables of kernels; a folder may hold steps alone."""
    if place.is_file():
        return kind_of(stem_of(place)) is not None
    return bool(known_files(place)) or not find_tables([place], (STEM,))


def _has_every_forecast(case: StepCase) -> bool:
    is_eager = not case.columns.get("variant")
    return is_eager and not case.skipped and all(case.printed.get(name) for name in PRINTED)


def _join(one: Demand, other: Demand) -> dict[str, set[str]]:
    return {key: one.get(key, set()) | other.get(key, set()) for key in {**one, **other}}


def _distributions(cases: Cases) -> Objects:
    return np.array([_distribution(name, "") for name in cases.catalog_device.tolist()], dtype=object)


def _distribution_of(row: Row) -> str:
    return _distribution(row.catalog_device or "", str(row.columns.get("model") or ""))


def _distribution(device: str, model: str) -> str:
    """As the study counts: relative to its own training, whatever a predictor here learned from."""
    if device not in STUDY_DEVICES:
        return "unseen device"
    return "unseen model" if model.startswith(_UNSEEN_MODELS) else "in distribution"


def _is_eager(row: Row) -> bool:
    return not row.columns.get("variant")


def _is_fused(row: Row) -> bool:
    return row.columns.get("variant") == FUSED


_SUBSETS: Mapping[str, Callable[[Row], bool]] = {
    "all": lambda row: True,
    "eager": _is_eager,
    "eager, inference": lambda row: _is_eager(row) and row.mode == "inference",
    "eager, train": lambda row: _is_eager(row) and row.mode == "train",
    "eager, in distribution": lambda row: _is_eager(row) and _distribution_of(row) == "in distribution",
    "eager, unseen model": lambda row: _is_eager(row) and _distribution_of(row) == "unseen model",
    "eager, unseen device": lambda row: _is_eager(row) and _distribution_of(row) == "unseen device",
    "fusion": _is_fused,
    "several devices": lambda row: not _is_eager(row) and not _is_fused(row),
}


def _protocol(folds: Sequence[Fold], fitted: Mapping[str, Any], sampling: str) -> dict[str, Any]:
    return {
        "forecast": "kernels: from the configuration columns of each line alone. Steps: the study's own "
        "model file captured on symbolic tensors in fp32 with eager attention and no optimizer, each "
        "different operation priced once and summed over nodes; 'inference' is a forward, 'train' a "
        "forward and a backward; 'fusion' is the same graph fused as a compiler would. 'dp4', 'tp4', "
        "'pp4_1': what ran on four devices of one server was a whole step of Megatron-LM through Accelerate, "
        "with clipping and Adam, and no gradient reduction beside the backward; it is captured from a "
        "module of the same kernels, cut by the plan, priced with the links of the server and simulated. "
        "'neusight' forecasts them by the study's own rules",
        "measured": "as the study states it; steps: mean of the 5 fastest of 25",
        "fitted_on": dict(fitted),
        "published": "published:NAME are the predictions that the study printed beside its steps; "
        "published:li2020 is its column 'micro'",
        "distribution": "as the study counts: 'unseen device' and 'unseen model' (GPT-3) relative to what "
        "its own predictors learned from, whatever a predictor here learned from",
        "paired": "difference of absolute relative errors on steps that both predicted, with a 90 % "
        "bootstrap interval over clusters of (device, model)",
        "left_out": "; ".join(fold.description for fold in folds) + "; no step was fitted on",
        "quality": QUALITY,
        "sampling": sampling,
    }
