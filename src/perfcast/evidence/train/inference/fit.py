"""``train inference``: published prompts, tokens and requests → what a step adds to its prices' interval.

Of each kind of step (``prediction/step/inference_errors``) the least half-widths that, in squares with those
of its prices, hold nine in ten of the measured times: one in twenty lies beyond either end, programs and
devices counting alike. A device on which a program's host was fitted says nothing of its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.mode import Mode
from perfcast.cost.interval import StepError
from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import InputError
from perfcast.evidence.validate.published.inference.cases import TABLES, InferenceCase, read_inference_cases
from perfcast.evidence.validate.published.inference.forecast import inference_rows
from perfcast.evidence.validate.row import Row
from perfcast.prediction.step.inference_errors import INFERENCE_STEPS, InferenceStep, inference_step

_PREDICTOR = "closed_form"
_ENDS = 0.05
#: No step is surer than this beside its prices: two programs show no less of those that nobody measured.
_LEAST = 0.08
#: Of a forecast: times below are beyond the devices' peak, and faults (Splitwise's 64 prompts of 512 tokens).
_BEYOND_PEAK = 0.4
_HOST_FITTED = {("splitwise", "a100-sxm-80gb")}
#: Megatron's host, which looks every kernel up in Python, is not what eager PyTorch's pace says of it.
_NOT_FORECAST = frozenset({"megatron"})


@dataclass(frozen=True, slots=True)
class JudgedStep:
    """A measured time over its forecast, and how far the prices' own interval reaches.

    Attributes:
        below, above: Half-widths of the prices over the forecast.
    """

    case: InferenceCase
    kind: InferenceStep
    seconds: float
    measured_seconds: float
    below: float
    above: float

    @property
    def program(self) -> tuple[str, str]:
        """Source and device, which count alike."""
        return self.case.source, self.case.catalog_device or ""

    @property
    def counts(self) -> bool:
        """Whether it says something of steps that were not fitted to."""
        is_possible = self.measured_seconds > _BEYOND_PEAK * self.seconds
        if self.case.framework in _NOT_FORECAST or not is_possible:
            return False
        return self.kind != "issued_token" or self.program not in _HOST_FITTED

    def interval(self, error: StepError) -> tuple[float, float]:
        """Low and high, in seconds, with what the step adds."""
        return (
            self.seconds * (1.0 - math.hypot(self.below, error.below)),
            self.seconds * (1.0 + math.hypot(self.above, error.above)),
        )


Errors = Mapping[InferenceStep, StepError]


def fit_inference(places: Sequence[Path], say: Callable[[str], None] = lambda text: None) -> str:
    """The data file of ``prediction/step``, of all measured times.

    Raises:
        InputError: No table, or no time of some kind.
    """
    steps = judge_steps(places, say)
    fitted = [step for step in steps if step.counts]
    return _format(fit_errors(fitted), len(fitted))


def judge_steps(places: Sequence[Path], say: Callable[[str], None] = lambda text: None) -> list[JudgedStep]:
    """Every measured time beside its forecast, whose interval is that of its prices alone.

    Raises:
        InputError: No table.
    """
    cases = read_inference_cases(places)
    if not cases:
        raise InputError(f"no table of {', '.join(TABLES)} in {', '.join(map(str, places))}")
    say(f"forecasting {len(cases)} times of inference")
    rows, _ = inference_rows(cases, (_PREDICTOR,), _learned, step_error=StepError.alike(0.0))
    return [
        _judged(case, row)
        for case, row in zip(cases, rows, strict=True)
        if row.skipped is None and row.predicted_seconds and row.measured_seconds
    ]


def fit_errors(steps: Sequence[JudgedStep]) -> Errors:
    """Widths of every kind.

    Raises:
        InputError: No time of some kind.
    """
    return {kind: _fit(kind, steps) for kind in INFERENCE_STEPS}


def _learned(framework: str) -> LearnedCost:
    return LearnedCost(framework=framework)


def kind_of(case: InferenceCase) -> InferenceStep:
    """Of a request that of its tokens."""
    mode: Mode = "prefill" if case.kind == "prefill" else "decode"
    batch = case.plan.micro_batch_size if case.plan else 1
    return inference_step(mode, batch * case.prompt_length, issues_kernels=case.issues_kernels)


def _judged(case: InferenceCase, row: Row) -> JudgedStep:
    assert row.predicted_seconds is not None
    assert row.predicted_seconds_low is not None
    assert row.predicted_seconds_high is not None
    assert row.measured_seconds is not None
    seconds = row.predicted_seconds
    return JudgedStep(
        case,
        kind_of(case),
        seconds,
        row.measured_seconds,
        1.0 - row.predicted_seconds_low / seconds,
        row.predicted_seconds_high / seconds - 1.0,
    )


def _fit(kind: InferenceStep, steps: Sequence[JudgedStep]) -> StepError:
    mine = [step for step in steps if step.kind == kind and step.counts]
    if not mine:
        raise InputError(f"no measured time of a step of the kind '{kind}'")
    programs = sorted({step.program for step in mine})
    fold = np.array([programs.index(step.program) for step in mine], dtype=np.int64)
    ratio = np.array([step.measured_seconds / step.seconds for step in mine])
    below, above = (np.array([getattr(step, name) for step in mine]) for name in ("below", "above"))
    return StepError(_needed(1.0 - ratio, below, fold), _needed(ratio - 1.0, above, fold))


def _needed(beyond: Floats, prices: Floats, fold: Integers) -> float:
    """The least h with beyond <= √(prices² + h²) but for one time in twenty; folds count alike."""
    needed = np.sqrt(np.maximum(np.maximum(beyond, 0.0) ** 2 - prices**2, 0.0))
    weight = 1.0 / np.bincount(fold)[fold]
    order = np.argsort(needed, kind="stable")
    held = np.cumsum(weight[order]) / weight.sum()
    return max(_LEAST, float(needed[order][np.searchsorted(held, 1.0 - _ENDS).clip(0, len(order) - 1)]))


def _format(errors: Errors, num_steps: int) -> str:
    source = (
        f"perfcast train inference: {num_steps} prompts, tokens and requests of inference and "
        "inference_splitwise_perf_model (Splitwise, MIT; FasterTransformer's guides, Apache-2.0); perfcast "
        "validate coverage fits to one half of the models and plans and judges the other"
    )
    lines = [
        "# What a step of inference adds to the interval of its prices: 90 % half-widths over its seconds.",
        "[sources]",
        f'fitted = "{source}"',
    ]
    for end in ("below", "above"):
        lines += ["", f"[{end}]"]
        lines += [
            f'{kind} = {{ value = {getattr(error, end):.3g}, unit = "1", source = "fitted" }}'
            for kind, error in errors.items()
        ]
    return "\n".join(lines) + "\n"
