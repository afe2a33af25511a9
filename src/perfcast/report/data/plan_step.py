"""What JSON holds of a step under a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.plan import CAUSES, PlanForecast, RankTime, StragglerEffect
from perfcast.core.forecast.recommendation import BoundRecommendation
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.core.training import Training
from perfcast.prediction.run.predict import RunForecast
from perfcast.report.answers import Answer, view
from perfcast.report.data import plan_memory
from perfcast.report.data import run as whole_run
from perfcast.report.data.plan_memory import PlanMemoryData
from perfcast.report.data.run import RunData


@dataclass(frozen=True, kw_only=True)
class RankData:
    """A rank that stands for its equals.

    Attributes:
        rank: Global number.
        stage: Pipeline stage.
        num_equal: Ranks that it stands for.
        seconds_by_cause: Seconds of a step by what they go to; they add up to the step. compute,
            recompute, optimizer; exposed communication of tensor, context, expert, data and pipeline
            parallelism; offload; bubble (waiting for another stage); host (waiting for launches);
            straggler (waiting for a slower rank); other.
    """

    rank: int
    stage: int
    num_equal: int
    seconds_by_cause: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class PathData:
    """Work of one kind on the critical path.

    Attributes:
        label: What it is.
        seconds: Along the path.
    """

    label: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PlanStepData(Answer):
    """Time and memory of one step on many devices.

    Times in seconds, sizes in bytes.

    Attributes:
        fits: Whether the device's memory holds it; null where that is not known; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: As asked for.
        cluster: Catalog name.
        device: Catalog name.
        num_devices: Devices of the plan.
        mode: train, prefill or decode.
        method: simulated or closed_form.
        dtype: Precision.
        sequence_length: Tokens.
        global_batch_size: Sequences of a step.
        plan: How the work is spread. Null for a parallel program of one's own.
        training: Null for inference.
        parameter_count: Of the whole model.
        program: What runs: its framework, whether the model's own modules are captured and compiled, and
            which option changes that.
        defaults: What was chosen of precision and sequence where nothing was asked for, in words.
        cost_model: What priced the kernels.
        step_seconds: Best estimate of one step.
        step_seconds_low: Lower end of the 90 % interval.
        step_seconds_high: Upper end of the 90 % interval.
        num_tokens: Of one step, over all devices; decode: one a sequence.
        tokens_per_second: Over all devices.
        tokens_per_second_per_device: Of one device.
        flops: Model flops of one step, over all devices, without what is computed twice.
        recompute_flops: What is computed twice, over all devices.
        peak_flops_per_second: Of one device in this precision.
        mfu: Model flops over what all devices could do; 0 to 1.
        hfu: The same with recomputed flops; 0 to 1.
        seconds_by_cause: Mean over all ranks. Seconds of a step by what they go to; they add up to
            the step. compute, recompute, optimizer; exposed communication of tensor, context, expert,
            data and pipeline parallelism; offload; bubble (waiting for another stage); host
            (waiting for launches); straggler (waiting for a slower rank); other.
        ranks: Every differing rank; the first has the most work of its own.
        critical_path: What decides the step, longest first.
        recommendations: What would help: the step with one bound relaxed, most saved first.
        stragglers: The step when ranks differ in speed; null where none was asked for.
        seconds_by_provenance: Compute of the busiest rank by what its prices rest on: measured,
            interpolated, extrapolated or bounded.
        num_events: Simulated operations; 0 for a closed form.
        memory: Memory of each stage's rank; null where no closed form of it is known.
        assumptions: What was taken for granted.
        run: The whole run; null where none was asked for.
    """

    table: ClassVar[str] = "ranks"

    fits: bool | None
    verdict: str
    model: str
    cluster: str
    device: str
    num_devices: int
    mode: str
    method: str
    dtype: str
    sequence_length: int
    global_batch_size: int
    plan: Plan | None
    training: Training | None
    parameter_count: int
    program: StepProgram
    defaults: tuple[str, ...]
    cost_model: str
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    num_tokens: int
    tokens_per_second: float
    tokens_per_second_per_device: float
    flops: int
    recompute_flops: int
    peak_flops_per_second: float
    mfu: float
    hfu: float
    seconds_by_cause: dict[str, float]
    ranks: tuple[RankData, ...]
    critical_path: tuple[PathData, ...]
    recommendations: tuple[BoundRecommendation, ...]
    stragglers: StragglerEffect | None
    seconds_by_provenance: dict[str, float]
    num_events: int
    memory: PlanMemoryData | None
    assumptions: tuple[str, ...]
    run: RunData | None


def data_of(forecast: PlanForecast, run: RunForecast | None = None) -> PlanStepData:
    """Everything but the timeline.

    Args:
        run: The whole run, where one was asked for.
    """
    time, memory = forecast.time, forecast.memory
    return view(
        PlanStepData,
        forecast,
        verdict=first_said((forecast.fit,)),
        global_batch_size=forecast.num_sequences,
        seconds_by_cause=time.seconds_by_cause,
        ranks=tuple(_rank(rank) for rank in time.ranks),
        critical_path=tuple(PathData(label=label, seconds=seconds) for label, seconds in time.critical_path),
        num_events=time.num_events,
        memory=None if memory is None else plan_memory.data_of(memory),
        run=None if run is None else whole_run.data_of(run),
    )


def _rank(rank: RankTime) -> RankData:
    causes = {cause: rank.seconds_by_cause[cause] for cause in CAUSES if cause in rank.seconds_by_cause}
    return view(RankData, rank, seconds_by_cause=causes)
