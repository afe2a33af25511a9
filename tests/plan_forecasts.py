"""A hand-made forecast of a plan: two stages of two micro-batches, times in whole milliseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import made_up_device
from made_up_programs import KERNELS
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.plan import PlanForecast, RankTime, Span, StepTime, StragglerEffect
from perfcast.core.forecast.recommendation import BoundRecommendation
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.units import GIB, MILLI
from small_transformers import gpt

PLAN = Plan(data_parallel=2, tensor_parallel=2, pipeline_parallel=2, num_micro_batches=2)
STAGES = (
    (0, {"compute": 6.0, "data": 1.0, "bubble": 3.0}),
    (4, {"compute": 7.0, "tensor": 1.0, "bubble": 2.0}),
)
EFFECT = StragglerEffect("lognormal, σ = 0.02", 0.0103, 0.0102, 0.0108, 0.0111, 400)


def plan_forecast(**changes: Any) -> PlanForecast:
    """Ten milliseconds on eight made-up devices."""
    device, training = made_up_device(memory_bytes=8 * GIB), Training(framework="megatron")
    memory = PlanMemory(
        model="gpt", device=device.name, device_title=device.title, mode="train", plan=PLAN,
        training=training, dtype="bf16", sequence_length=128, parameter_count=1_000_000,
        program=KERNELS, capacity_bytes=device.memory_bytes,
        footprint=estimate_footprint(gpt(), PLAN, training, 128, device=device),
    )  # fmt: skip
    whole = PlanForecast(
        model="gpt", cluster="made-up", device=device.name, num_devices=8, mode="train", method="simulated",
        plan=PLAN, training=training, dtype="bf16", sequence_length=128, cost_model="roofline",
        time=step_time(), step_seconds_low=8 * MILLI, step_seconds_high=13 * MILLI, num_tokens=512,
        flops=4 * 10**12, recompute_flops=10**12, peak_flops_per_second=1e14, parameter_count=1_000_000,
        program=KERNELS, memory=memory, stragglers=EFFECT,
        recommendations=(
            BoundRecommendation("the bubble is gone", 8 * MILLI, 2 * MILLI),
            BoundRecommendation("links are free", 9 * MILLI, MILLI),
        ),
        seconds_by_provenance={"measured": 6 * MILLI, "extrapolated": MILLI},
        assumptions=("ranks fill the cluster from inside",),
    )  # fmt: skip
    return replace(whole, **changes)


def step_time() -> StepTime:
    """Each stage's time by cause adds up to the step's ten milliseconds."""
    return StepTime(
        step_seconds=10 * MILLI,
        ranks=tuple(
            RankTime(rank, stage, 4, {cause: value * MILLI for cause, value in causes.items()})
            for stage, (rank, causes) in enumerate(STAGES)
        ),
        spans=spans(),
        critical_path=(("layer forward", 4 * MILLI), ("layer backward", 6 * MILLI)),
        num_events=12,
    )


def spans() -> tuple[Span, ...]:
    """Forwards 0 and 1, backwards 0 and 1 on two stages, and one collective."""
    rows = [
        (0, "compute", "layer forward", 0, 1, 0), (0, "compute", "layer forward", 1, 2, 1),
        (4, "compute", "layer forward", 1, 2, 0), (4, "tensor", "all_reduce", 2, 3, 0),
        (4, "compute", "layer backward", 3, 5, 0), (4, "compute", "layer forward", 5, 6, 1),
        (4, "compute", "layer backward", 6, 8, 1), (0, "compute", "layer backward", 5, 7, 0),
        (0, "compute", "layer backward", 8, 9, 1), (0, "data", "reduce_scatter", 9, 10, -1),
    ]  # fmt: skip
    return tuple(
        Span(
            rank, stream, label, start * MILLI, end * MILLI,
            cause="compute" if stream == "compute" else stream, micro_batch=micro_batch,
            on_critical_path=stream == "compute",
        )
        for rank, stream, label, start, end, micro_batch in rows
    )  # fmt: skip
