"""Published times of prompts, tokens and requests beside forecasts from their configuration alone.

To these tables nothing is fitted but the host of vLLM of 2023, to Splitwise's A100 rows. A token is forecast
at the mean context of the answer; a request is its prompt and all tokens behind the first. A host that
issues every kernel does so at eager PyTorch's pace, or at that of vLLM's modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import METHODS, Method
from perfcast.core.plan import Plan
from perfcast.core.serving.host import NO_HOST, StepHost
from perfcast.core.words import known_word
from perfcast.core.work import Calls, Layer, StepWork
from perfcast.cost.interval import StepError
from perfcast.cost.model import CostModel
from perfcast.errors import InputError
from perfcast.evidence.validate.published.forecast import Track, main_provenance
from perfcast.evidence.validate.published.inference.cases import InferenceCase
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.summary import Scores, score_rows
from perfcast.frameworks.precision import PLAIN
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.serving.steps import step_host
from perfcast.prediction.step.constants import load_step_constants
from perfcast.prediction.step.predict import forecast_step
from perfcast.prediction.step.priced import price_planned
from perfcast.prediction.step.resolve import resolve_step
from perfcast.prediction.step.timer import Timer
from perfcast.prediction.step.work import plan_step
from perfcast.prediction.sweep.batches import split_batch
from perfcast.units import format_seconds

#: Beside the predictors of steps: a closed form as if no host issued a kernel (CUDA graphs).
WITHOUT_HOST = "graph_replay"
#: Of Splitwise's vLLM, from June to October 2023.
VLLM_OF_2023 = "0.2.0"
#: Whose measured kernels a framework runs, as the learned cost model knows them; else PyTorch's.
_KERNELS = {
    "vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "fastertransformer": "trtllm",
    "megatron": "pytorch",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Asked:
    """What tells one forward pass from another.

    Attributes:
        method: Of ``core.mode.METHODS``.
        context: Tokens that are read at once, or that the cache holds.
        issues_kernels: Whether a host issues every kernel.
    """

    case: InferenceCase
    method: Method
    is_decode: bool
    context: int
    issues_kernels: bool


@dataclass(frozen=True, slots=True)
class _Pass:
    """Seconds (best estimate, low, high), and what most of the compute's prices rest on."""

    span: tuple[float, float, float]
    provenance: str | None


def inference_rows(
    cases: Sequence[InferenceCase],
    predictors: Sequence[str],
    cost_model_of: Callable[[str], CostModel],
    *,
    step_error: StepError | None = None,
    track: Track = lambda items, words: items,
) -> tuple[tuple[Row, ...], tuple[Scores, ...]]:
    """A row for each case and predictor, and the same in columns.

    Args:
        predictors: Methods of timing a step, or ``WITHOUT_HOST``.
        cost_model_of: By framework, as the learned cost model knows them.
        step_error: What a step adds to the interval of its prices; None: what is shipped.
    """
    pricer = _Pricer(cost_model_of, step_error)
    rows = tuple(
        _row(case, name, pricer) for case in track(cases, "forecasting inference") for name in predictors
    )
    return rows, tuple(score_rows(rows, lambda same: _labels(cases)))


def eager_host_seconds() -> float:
    """Between two kernels of a host that issues every one: that of eager PyTorch."""
    return load_step_constants().launch_seconds["pytorch"]


def protocol() -> dict[str, str]:
    """How inference is forecast, in words."""
    host = format_seconds(eager_host_seconds())
    return {
        "inference": "prompts of a batch at once, in as many micro-batches as there are stages; a token at "
        "the mean context of its answer, the prompt and half of what is written; a request is its prompt and "
        "all tokens behind the first. Nothing is fitted to these tables but the host of vLLM of 2023",
        "inference_host": f"Megatron issues every kernel, one in {host} (the constant of eager PyTorch); so "
        "does vLLM of 2023, whose host also works between steps (frameworks/data/vllm.toml: fitted on the "
        "A100 rows of Splitwise, the H100 rows left out); FasterTransformer is ahead of its device. "
        f"'{WITHOUT_HOST}', asked for by name: the closed form with no host",
        "inference_kernels": "Splitwise's vLLM (2023), FasterTransformer and Megatron reduce by NCCL and "
        "fuse neither quantisation nor norms with it",
        "inference_left_out": "h100-80gb-pcap (capped power, another device); throughput under load, whose "
        "batch is not stated; lines of memory. Splitwise's lines of 'inference' are medians of the repeats "
        "in 'inference_splitwise_perf_model': where both tables are there, read them apart",
    }


class _Pricer:
    """Forward passes by what tells them apart; each is priced once."""

    def __init__(self, cost_model_of: Callable[[str], CostModel], step_error: StepError | None) -> None:
        self._model_of, self._step_error = cost_model_of, step_error
        self._known: dict[Any, _Pass] = {}

    def forecast(self, asked: _Asked) -> _Pass:
        """One forward pass of a batch."""
        case = asked.case
        key = (
            case.model,
            case.plan,
            case.cluster,
            case.dtype,
            case.framework,
            asked.method,
            asked.is_decode,
            asked.context,
            asked.issues_kernels,
        )
        if key not in self._known:
            found = self._forecast(asked)
            seconds = (found.step_seconds, found.step_seconds_low, found.step_seconds_high)
            self._known[key] = _Pass(seconds, main_provenance(found))
        return self._known[key]

    def _forecast(self, asked: _Asked) -> PlanForecast:
        """Of a batch, a micro-batch for each stage."""
        case = asked.case
        assert case.model is not None
        assert case.cluster is not None
        assert case.plan is not None
        request = PlanRequest(
            model=case.model,
            cluster=case.cluster,
            plan=split_batch(case.plan, case.plan.micro_batch_size),
            mode="decode" if asked.is_decode else "prefill",
            dtype=case.dtype,
            sequence_length=asked.context,
            framework=_KERNELS[case.framework],
            cost_model=self._model_of(_KERNELS[case.framework]),
            method=asked.method,
            recommendations=False,
            memory=False,
        )
        step = resolve_step(request)
        host = _host_of(asked, step.device)
        batch = case.plan.micro_batch_size
        fixed = (
            float(host.seconds(batch, 0) if asked.is_decode else host.seconds(0, batch)) + host.gap_seconds
        )
        timer = Timer(
            asked.method,
            request.mode,
            launch_seconds=host.launch_seconds,
            fixed_seconds=fixed,
            step_error=self._step_error,
        )
        step = replace(step, timer=timer)
        # programs of 2023 and before have none of today's fused kernels
        planned = plan_step(replace(step, program=replace(step.program, framework=PLAIN)))
        if asked.issues_kernels:
            planned = replace(planned, work=_with_launches(planned.work))
        return forecast_step(price_planned(planned), request)


def _host_of(asked: _Asked, device: Device) -> StepHost:
    """What a case's host does around each step: all of it in vLLM's of 2023, kernels alone in Megatron."""
    if not asked.issues_kernels:
        return NO_HOST
    if asked.case.framework == "vllm":
        return step_host("vllm", VLLM_OF_2023, device)
    return StepHost(launch_seconds=eager_host_seconds())


def _with_launches(work: StepWork) -> StepWork:
    """The same work by a host that issues every kernel."""

    def issued(calls: Calls) -> Calls:
        return tuple(replace(call, num_launches=1) for call in calls)

    layers: tuple[Layer, ...] = tuple(replace(layer, forward=issued(layer.forward)) for layer in work.layers)
    return replace(work, layers=layers)


def forecast_case(case: InferenceCase, predictor: str, pricer: _Pricer) -> _Pass:
    """Seconds of a case, with a 90 % interval.

    Raises:
        InputError: A plan that cannot cut the model, a precision that the device lacks.
    """
    issues = case.issues_kernels and predictor != WITHOUT_HOST
    method = known_word("method", "closed_form" if predictor == WITHOUT_HOST else predictor, METHODS)
    prompt = _Asked(case, method, False, case.prompt_length, issues)
    token = _Asked(case, method, True, case.prompt_length + max(1, case.output_length // 2), issues)
    if case.kind == "prefill":
        return pricer.forecast(prompt)
    if case.kind == "decode":
        return pricer.forecast(token)
    first, each = pricer.forecast(prompt), pricer.forecast(token)
    middle, low, high = (a + (case.output_length - 1) * b for a, b in zip(first.span, each.span, strict=True))
    return _Pass((middle, low, high), each.provenance)


def _row(case: InferenceCase, predictor: str, pricer: _Pricer) -> Row:
    found, skipped = None, case.skipped
    if skipped is None:
        try:
            found = forecast_case(case, predictor, pricer)
        except InputError:
            skipped = "unsupported plan"
    middle, low, high = found.span if found else (None, None, None)
    return Row(
        suite="published",
        table=case.table,
        row=case.row,
        device=case.device,
        catalog_device=case.catalog_device,
        predictor=predictor,
        columns={**case.configuration, "source_group": case.source},
        operation=case.kind,
        dtype=case.dtype or None,
        framework=case.framework,
        mode=case.kind,
        predicted_seconds=middle,
        predicted_seconds_low=low,
        predicted_seconds_high=high,
        measured_seconds=case.measured_seconds,
        provenance=found.provenance if found else None,
        skipped=skipped,
    )


def _labels(cases: Sequence[InferenceCase]) -> dict[str, list[str]]:
    return {
        "table": [case.table for case in cases],
        "source": [case.source for case in cases],
        "device": [case.catalog_device or "" for case in cases],
        "plan": [_plan_label(case.plan) for case in cases],
        "kind": [case.kind for case in cases],
        "dtype": [case.dtype for case in cases],
    }


def _plan_label(plan: Plan | None) -> str:
    return "" if plan is None else f"tp{plan.tensor_parallel} pp{plan.pipeline_parallel}"
