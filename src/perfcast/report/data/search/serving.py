"""What JSON holds of a search for inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_plan
from perfcast.core.program import StepProgram
from perfcast.prediction.sweep.batches import Phase
from perfcast.report.answers import Answer, view
from perfcast.searches.serving.batches import ServingChoice, ServingReport, ServingResult


@dataclass(frozen=True, kw_only=True)
class PhaseData:
    """The time of one token of all sequences.

    Attributes:
        seconds: Best estimate, in seconds.
        seconds_low: Low end of a 90 % interval, in seconds.
        seconds_high: High end of a 90 % interval, in seconds.
    """

    seconds: float
    seconds_low: float
    seconds_high: float


@dataclass(frozen=True, kw_only=True)
class ChoiceData:
    """A plan with the batch that serves it best.

    Attributes:
        rank: Of the plans shown, from 1.
        option: Degrees, as --plan takes them.
        command: The perfcast predict that forecasts it with the same time and memory.
        plan: Keys of the plan.
        batch_size: Sequences that are answered at once.
        first_token: Until the first token of all sequences; null where it was not asked for.
        token: Each further token of all sequences; null where it was not asked for.
        tokens_per_second: Over all devices.
        tokens_per_second_per_device: Of one device.
        memory_bytes: Of a device, in bytes.
        dollars_per_token: Null without a price.
    """

    rank: int
    option: str
    command: str
    plan: Plan
    batch_size: int
    first_token: PhaseData | None
    token: PhaseData | None
    tokens_per_second: float
    tokens_per_second_per_device: float
    memory_bytes: float
    dollars_per_token: float | None


@dataclass(frozen=True, kw_only=True)
class ClusterData:
    """What was found on one cluster.

    Attributes:
        cluster: Catalog name.
        device: Catalog name.
        num_devices: Devices of the plans.
        cost_model: What priced the operations.
        num_plans: Cuts of the model.
        num_points: Batches of them that were forecast.
        memory_capacity_bytes: Of a device, in bytes.
        ranked: Plans, the best first.
        assumptions: What was taken for granted.
    """

    cluster: str
    device: str
    num_devices: int
    cost_model: str
    num_plans: int
    num_points: int
    memory_capacity_bytes: int
    ranked: tuple[ChoiceData, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FailedData:
    """A cluster without a plan.

    Attributes:
        cluster: As the user named it.
        reason: Why.
    """

    cluster: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ServingSearchData(Answer):
    """What a search for inference found.

    Attributes:
        fits: Whether the device's memory holds the best plan, as that of every plan here; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: As asked for.
        mode: prefill or decode.
        dtype: Precision.
        program: What runs: its framework, whether the model's own modules are captured and compiled, and
            which option changes that.
        defaults: What was chosen of precision and sequence where nothing was asked for, in words.
        context_length: Tokens of a prompt, and of the cache when a token is written.
        objective: What the plans are ordered by.
        max_first_token_seconds: Limit on the first token, in seconds; null for none.
        max_token_seconds: Limit on each further token, in seconds; null for none.
        clusters: The best first.
        failed: Clusters without a plan.
    """

    table: ClassVar[str] = "clusters[cluster].ranked"

    fits: bool
    verdict: str
    model: str
    mode: str
    dtype: str
    program: StepProgram
    defaults: tuple[str, ...]
    context_length: int
    objective: str
    max_first_token_seconds: float | None
    max_token_seconds: float | None
    clusters: tuple[ClusterData, ...]
    failed: tuple[FailedData, ...]


def data_of(found: ServingReport) -> ServingSearchData:
    """Every figure in SI units, the best cluster first."""
    best = found.results[0]
    request = best.request
    return view(
        ServingSearchData,
        best,
        fits=True,
        verdict="",
        mode=request.mode,
        dtype=request.dtype,
        objective=found.objective,
        max_first_token_seconds=request.max_first_seconds,
        max_token_seconds=request.max_token_seconds,
        clusters=tuple(_result(result) for result in found.results),
        failed=tuple(FailedData(cluster=name, reason=reason) for name, reason in found.failed),
    )


def _result(result: ServingResult) -> ClusterData:
    return view(
        ClusterData,
        result,
        num_points=len(result.points),
        memory_capacity_bytes=result.capacity_bytes,
        ranked=tuple(_choice(choice, result, rank) for rank, choice in enumerate(result.ranked, 1)),
    )


def _choice(choice: ServingChoice, result: ServingResult, rank: int) -> ChoiceData:
    point = choice.point
    return ChoiceData(
        rank=rank,
        option=plan_degrees(choice).replace(" ", ","),
        command=result.command(choice),
        plan=choice.plan,
        batch_size=point.batch_size,
        first_token=_phase(point.prefill),
        token=_phase(point.decode),
        tokens_per_second=choice.tokens_per_second,
        tokens_per_second_per_device=choice.tokens_per_second / result.num_devices,
        memory_bytes=point.memory_bytes,
        dollars_per_token=result.dollars_per_token(choice),
    )


def plan_degrees(choice: ServingChoice) -> str:
    """Degrees alone: micro-batches follow from the batch."""
    keys = [key for key in format_plan(choice.plan, " ").split() if not key.startswith(("mbs=", "sp="))]
    return " ".join(keys) or "one device"


def _phase(phase: Phase | None) -> PhaseData | None:
    return None if phase is None else view(PhaseData, phase)
