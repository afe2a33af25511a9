"""Memory under a plan as text, JSON and page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import made_up_device
from made_up_programs import KERNELS
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.recommendations.plans import find_plan_recommendations
from perfcast.report.data.plan_memory import data_of
from perfcast.report.documents.memory.plan import describe_plan, document_of, sorted_terms, stages_figure
from perfcast.report.page import render_page
from perfcast.units import GIB
from rendered import json_of, text_of
from small_transformers import gpt

MEGATRON = Training(framework="megatron")
HOSTILE = "<script>alert(1)</script>[red]"
PLAN = Plan(
    data_parallel=2, tensor_parallel=2, pipeline_parallel=4, num_micro_batches=8, sequence_parallel=True
)


def result(plan: Plan = PLAN, capacity_bytes: int = 8 * GIB, layers: int = 16, **changes: Any) -> PlanMemory:
    device, training, model = made_up_device(memory_bytes=capacity_bytes), MEGATRON, gpt(layers=layers)
    whole = PlanMemory(
        model="gpt",
        device=device.name,
        device_title=device.title,
        mode="train",
        plan=plan,
        training=training,
        program=KERNELS,
        dtype="bf16",
        sequence_length=128,
        parameter_count=1_234_567,
        capacity_bytes=capacity_bytes,
        footprint=estimate_footprint(model, plan, training, 128, device=device),
        step_seconds=0.25,
        timed_on="timed by the closed form on server:2",
        recommendations=tuple(timed_recommendations(model, plan, training, device)),
    )
    return replace(whole, **changes)


def timed_recommendations(
    model: Transformer, plan: Plan, training: Training, device: Device
) -> list[PlanRecommendation]:
    """What lowers the need, each a millisecond longer than the one before."""
    found = find_plan_recommendations(
        model, plan, training, 128, device, cluster=None, cost_model=Roofline()
    )[1]
    return [replace(recommendation, extra_seconds=at / 1000) for at, recommendation in enumerate(found)]


def printed(shown: PlanMemory, width: int = 140) -> str:
    return text_of(document_of(shown), width)


def test_the_verdict_is_a_sentence():
    assert " of 8.00 GiB: fits" in printed(result())
    assert ": does not fit" in printed(result(capacity_bytes=1024))


def test_the_text_has_verdict_terms_formulas_stages_and_recommendations():
    text = printed(result())
    assert ": fits" in text
    for part in ("layer activations", "micro-batch", "Stages", "What would lower it", "recompute=full"):
        assert part.lower() in text.lower()
    assert "What would make it fit" in printed(result(capacity_bytes=1024))
    assert "What would" not in printed(result(step_seconds=None, recommendations=()))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_terms_survive_a_narrow_terminal(width: int):
    text = printed(result(), width)
    assert max(len(line) for line in text.splitlines()) <= width


def test_many_stages_are_cut_short_but_the_last_is_shown():
    plan = Plan(pipeline_parallel=16, num_micro_batches=16)
    lines = printed(result(plan)).splitlines()
    assert any("…" in line for line in lines)
    assert any(line.strip().lstrip("│ ").startswith("15") for line in lines)


def test_a_plan_is_described_as_every_option_takes_it():
    assert describe_plan(PLAN) == "tp=2,pp=4,dp=2,mbs=1 · 8 micro-batches"
    assert describe_plan(Plan()) == "mbs=1 · 1 micro-batch"


def test_terms_come_largest_first():
    sizes = [term.num_bytes for term in sorted_terms(result().footprint.peak_stage)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "shown",
    [result(), result(step_seconds=None, recommendations=()), result(Plan(), mode="decode", training=None)],
)
def test_json_follows_the_schema(shown: PlanMemory):
    data = json_of(data_of(shown))
    assert data["peak_memory_bytes"] == shown.footprint.peak_bytes
    assert len(data["stages"]) == shown.plan.pipeline_parallel


def test_the_page_holds_all_parts_and_no_markup_of_others():
    shown = result(model=HOSTILE, device_title=HOSTILE)
    page = render_page(document_of(shown))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    for part in ("Stages at their peaks", "What would lower it", "Assumptions", "Formula"):
        assert part in page
    assert "What would" not in render_page(document_of(replace(shown, timed_on="")))


def test_hostile_names_are_printed_as_they_are():
    assert HOSTILE in printed(result(model=HOSTILE), 200)


def test_bars_of_the_figure_add_up_to_each_stages_peak():
    shown = result()
    figure = stages_figure(shown)
    names = {bar.name for bar in figure.series}
    assert len(names) == len(figure.series)
    for i, stage in enumerate(shown.footprint.stages):
        assert sum(bar.values[i] for bar in figure.series) == stage.peak.num_bytes


def test_every_term_has_a_known_category():
    for stage in result().footprint.stages:
        assert {term.category for moment in stage.peak_candidates for term in moment.terms} <= set(
            Category.ALL
        )
