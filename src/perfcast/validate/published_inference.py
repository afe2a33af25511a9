"""Published times of prompts, tokens and requests beside forecasts from their configuration alone.

Nothing is fitted to these tables. A token is forecast at the mean context of the answer; a request is its
prompt and all tokens behind the first. A host that issues every kernel does so at eager PyTorch's pace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalog.devices import load_device
from perfcast.core.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.step_forecast import PlanForecast
from perfcast.core.weights import count_parameters
from perfcast.core.work import Calls, Layer, StepWork
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.prediction.names import resolve_cost_model
from perfcast.prediction.plan_step import forecast_work
from perfcast.prediction.plan_timer import Timer
from perfcast.prediction.plan_work import StepFacts
from perfcast.prediction.serving import pipelined_seconds, split_batch
from perfcast.prediction.step_constants import load_step_constants
from perfcast.units import format_seconds
from perfcast.validate.inference_cases import InferenceCase, read_inference_cases
from perfcast.validate.suite import Row
from perfcast.validate.summary import Scores

#: 'closed_form' with the host that the source's program had; 'graph_replay' as if none issued a kernel.
PREDICTORS = ("closed_form", "graph_replay")
#: Whose measured kernels a framework runs, as the learned cost model knows them; else PyTorch's.
_KERNELS = {"vllm": "vllm", "fastertransformer": "trtllm"}

Track = Callable[[Sequence[Any], str], Iterable[Any]]
Span = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What tells one forward pass from another."""

    case: InferenceCase
    is_decode: bool
    context: int
    issues_kernels: bool


def inference_rows(
    places: Sequence[Path],
    predictors: Sequence[str] = PREDICTORS,
    *,
    cost_model_of: Callable[[str, Device], CostModel] | None = None,
    track: Track = lambda items, words: items,
) -> tuple[tuple[Row, ...], tuple[Scores, ...]]:
    """Rows of both tables by each predictor, and the same in columns.

    Args:
        cost_model_of: By framework and device; by default the learned one with that framework's kernels.
    """
    pricer = _Pricer(cost_model_of or _learned)
    cases = read_inference_cases(places)
    found: dict[str, list[Row]] = {name: [] for name in predictors}
    for case in track(cases, "forecasting inference"):
        for name in predictors:
            found[name].append(_row(case, name, pricer))
    rows = tuple(row for name in predictors for row in found[name])
    return rows, tuple(_scores(cases, found[name], name) for name in predictors)


def eager_host_seconds() -> float:
    """Between two kernels of a host that issues every one: that of eager PyTorch."""
    return load_step_constants().launch_seconds["pytorch"]


def protocol() -> dict[str, str]:
    """How inference is forecast, in words."""
    host = format_seconds(eager_host_seconds())
    return {
        "inference": "prompts of a batch at once, in as many micro-batches as there are stages; a token at "
        "the mean context of its answer, the prompt and half of what is written; a request is its prompt and "
        "all tokens behind the first. Nothing is fitted to these tables",
        "inference_host": f"'closed_form': vLLM of 2023 issues every kernel, one in {host} (the constant of "
        "eager PyTorch); FasterTransformer is ahead of its device. 'graph_replay': no host",
        "inference_left_out": "h100-80gb-pcap (capped power, another device); throughput under load, whose "
        "batch is not stated",
    }


class _Pricer:
    """Forward passes by what tells them apart; each is priced once."""

    def __init__(self, cost_model_of: Callable[[str, Device], CostModel]) -> None:
        self._model_of = lru_cache(maxsize=None)(cost_model_of)
        self._known: dict[Any, Span] = {}

    def seconds(self, asked: _Asked) -> Span:
        """Best estimate, low and high."""
        case = asked.case
        key = (
            case.model, case.plan, case.cluster, case.dtype, case.framework, asked.is_decode, asked.context,
            asked.issues_kernels,
        )  # fmt: skip
        if key not in self._known:
            found, count = self._forecast(asked)
            seconds = pipelined_seconds(found, count)
            ends = (found.step_seconds_low, found.step_seconds_high)
            low, high = (seconds * end / found.step_seconds for end in ends)
            self._known[key] = (seconds, low, high)
        return self._known[key]

    def _forecast(self, asked: _Asked) -> tuple[PlanForecast, int]:
        """Of one micro-batch, and how many there are."""
        from perfcast.workload.blocks.serving import build_serving_work

        case = asked.case
        assert case.model is not None
        assert case.cluster is not None
        assert case.plan is not None
        assert case.catalog_device is not None
        device = load_device(case.catalog_device)
        split = split_batch(case.plan, case.plan.micro_batch_size)
        plan = replace(split, num_micro_batches=1)
        work = build_serving_work(case.model, plan, case.dtype, asked.context, is_decode=asked.is_decode)
        facts = StepFacts(
            model="", plan=plan, mode="decode" if asked.is_decode else "prefill", training=None,
            dtype=case.dtype, sequence_length=asked.context, parameter_count=count_parameters(case.model),
        )  # fmt: skip
        host = eager_host_seconds() if asked.issues_kernels else 0.0
        timer = Timer(method="closed_form", mode=facts.mode, launch_seconds=host)
        found = forecast_work(
            _with_launches(work) if asked.issues_kernels else work, facts, case.cluster, device,
            self._model_of(_KERNELS[case.framework], device), timer, reliefs=False,
        )  # fmt: skip
        return found, split.num_micro_batches


def _learned(framework: str, device: Device) -> CostModel:
    return resolve_cost_model("learned", device, framework)


def _with_launches(work: StepWork) -> StepWork:
    """The same work by a host that issues every kernel."""

    def issued(calls: Calls) -> Calls:
        return tuple(replace(call, num_launches=1) for call in calls)

    layers: tuple[Layer, ...] = tuple(replace(layer, forward=issued(layer.forward)) for layer in work.layers)
    return replace(work, layers=layers)


def forecast_case(case: InferenceCase, predictor: str, pricer: _Pricer) -> Span:
    """Seconds of a case, with a 90 % interval.

    Raises:
        PlanError: A plan that cannot cut the model.
    """
    issues = case.issues_kernels and predictor == PREDICTORS[0]
    prompt = _Asked(case, False, case.prompt_length, issues)
    token = _Asked(case, True, case.prompt_length + max(1, case.output_length // 2), issues)
    if case.kind == "prefill":
        return pricer.seconds(prompt)
    if case.kind == "decode":
        return pricer.seconds(token)
    first, each = pricer.seconds(prompt), pricer.seconds(token)
    low, middle, high = (
        a + (case.output_length - 1) * b for a, b in zip(_sorted(first), _sorted(each), strict=True)
    )
    return middle, low, high


def _sorted(span: Span) -> Span:
    """Low, estimate, high."""
    return span[1], span[0], span[2]


def _row(case: InferenceCase, predictor: str, pricer: _Pricer) -> Row:
    span, skipped = None, case.skipped
    if skipped is None:
        try:
            span = forecast_case(case, predictor, pricer)
        except PlanError:
            skipped = "unsupported plan"
    return Row(
        suite="published", table=case.table, row=case.row, device=case.device,
        catalog_device=case.catalog_device, predictor=predictor,
        columns={**case.configuration, "source_group": case.source}, operation=case.kind,
        dtype=case.dtype or None, framework=case.framework, mode=case.kind,
        predicted_seconds=span[0] if span else None, predicted_seconds_low=span[1] if span else None,
        predicted_seconds_high=span[2] if span else None, measured_seconds=case.measured_seconds,
        skipped=skipped,
    )  # fmt: skip


def _scores(cases: Sequence[InferenceCase], rows: Sequence[Row], predictor: str) -> Scores:
    def numbers(values: Iterable[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def words(values: Iterable[str]) -> np.ndarray[Any, np.dtype[np.object_]]:
        return np.array(list(values), dtype=object)

    return Scores(
        predictor=predictor,
        labels={
            "source": words(case.source for case in cases),
            "device": words(case.catalog_device or "" for case in cases),
            "plan": words(_plan_label(case.plan) for case in cases),
            "kind": words(case.kind for case in cases),
            "skipped": words(row.skipped or "" for row in rows),
        },
        predicted=numbers(row.predicted_seconds for row in rows),
        low=numbers(row.predicted_seconds_low for row in rows),
        high=numbers(row.predicted_seconds_high for row in rows),
        measured=numbers(row.measured_seconds for row in rows),
        skipped=np.array([row.skipped is not None for row in rows]),
    )


def _plan_label(plan: Plan | None) -> str:
    return "" if plan is None else f"tp{plan.tensor_parallel} pp{plan.pipeline_parallel}"
