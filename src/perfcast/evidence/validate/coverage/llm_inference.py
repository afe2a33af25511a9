"""Coverage of published prompts, tokens and requests of language models."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.train.inference.fit import Errors, JudgedStep, fit_errors, judge_steps
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.published.inference.cases import TABLES, InferenceCase
from perfcast.evidence.validate.sampling import sample
from perfcast.evidence.validate.summary import Scores, score_figures
from perfcast.prediction.step.inference_errors import LONG_PROMPT_TOKENS

_NUM_TOKENS = (128, 512, LONG_PROMPT_TOKENS)
_HALVES = ("one half of models and plans", "the other half")


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, TABLES)
    if not files:
        return ()
    every = judge_steps(files, say)
    steps = sample(every, max_rows, lambda step: f"{step.case.table} {step.case.row}", lambda step: step.kind)
    found: list[Scores] = []
    for half, words in enumerate(_HALVES):
        errors = fit_errors([step for step in every if _half_of(step.case) != half])
        found += _scores([step for step in steps if _half_of(step.case) == half], errors, words)
    return found


def _half_of(case: InferenceCase) -> int:
    """0 or 1 by model, device and degrees, whatever batch and lengths."""
    plan = case.plan
    degrees = (plan.tensor_parallel, plan.pipeline_parallel) if plan else ()
    name = (case.source, case.catalog_device, case.configuration.get("model"), *degrees)
    return hashlib.sha256("\n".join(map(str, name)).encode()).digest()[0] % 2


def _scores(steps: Sequence[JudgedStep], errors: Errors, words: str) -> list[Scores]:
    if not steps:
        return []
    ends = [step.interval(errors[step.kind]) for step in steps]
    figures = [
        (step.seconds, low, high, step.measured_seconds)
        for step, (low, high) in zip(steps, ends, strict=True)
    ]
    labels = {
        "device": [step.case.catalog_device or step.case.device for step in steps],
        "kind": [f"{step.case.kind}, {step.kind.replace('_', ' ')}" for step in steps],
        "framework": [step.case.framework for step in steps],
        "scale": [_scale(step.case) for step in steps],
        "split": [f"{step.case.source}, {words}" for step in steps],
    }
    return [score_figures("closed_form", figures, labels, [False] * len(steps))]


def _scale(case: InferenceCase) -> str:
    """Tokens of a prompt of the whole batch."""
    if case.kind != "prefill" or case.plan is None:
        return ""
    tokens = case.prompt_length * case.plan.micro_batch_size
    for most in _NUM_TOKENS:
        if tokens <= most:
            return f"prompts of up to {most:,} tokens together"
    return f"prompts of more than {_NUM_TOKENS[-1]:,} tokens together"


LLM_INFERENCE = Subject(
    "inference of language models",
    "what a step adds to its prices, from the other half of models and plans; no price was fitted to a step",
    _score,
)
