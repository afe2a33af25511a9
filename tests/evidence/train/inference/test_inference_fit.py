"""What a step of inference adds to its prices' interval, fitted to times whose answer is known."""

from __future__ import annotations

import math

import pytest

from perfcast.core.plan import Plan
from perfcast.cost.interval import StepError
from perfcast.errors import InputError
from perfcast.evidence.train.inference.fit import JudgedStep, fit_errors, kind_of
from perfcast.evidence.validate.published.inference.cases import InferenceCase
from perfcast.prediction.step.inference_errors import INFERENCE_STEPS


def case(kind="decode", issues_kernels=False, prompt_length=128, source="somebody", framework="vllm"):
    return InferenceCase(
        table="inference", row=0, source=source, device="A100", catalog_device="a100-sxm-80gb", kind=kind,
        framework=framework, issues_kernels=issues_kernels, model=None, cluster=None,
        plan=Plan(micro_batch_size=4), dtype="fp16", prompt_length=prompt_length, output_length=8,
        measured_seconds=1.0, configuration={},
    )  # fmt: skip


def step(ratio, kind="replayed", width=0.0, **facts):
    return JudgedStep(case(**facts), kind, 1.0, ratio, width, width)


EVERY = [step(1.0, kind) for kind in INFERENCE_STEPS]


def test_of_twenty_times_all_but_the_farthest_are_held():
    """1.01, 1.02, … 1.20 over exact prices: 0.19 above; below nothing was seen, and the least is taken."""
    found = fit_errors([*EVERY[1:], *(step(1 + 0.01 * i) for i in range(1, 21))])["replayed"]
    assert (found.below, found.above) == (0.08, pytest.approx(0.19))


def test_what_prices_hold_themselves_is_not_added_again():
    """0.5 above, of which prices hold 0.3: √(0.5² − 0.3²) = 0.4, and both together are 0.5 again."""
    found = fit_errors([*EVERY[1:], step(1.5, width=0.3)])["replayed"]
    assert found.above == pytest.approx(0.4)
    low, high = step(1.5, width=0.3).interval(found)
    assert (low, high) == (pytest.approx(1 - math.hypot(0.3, 0.08)), pytest.approx(1.5))


def test_programs_count_alike_however_often_each_was_measured():
    many = [step(1.0) for _ in range(95)]
    few = [step(1.3, source="another") for _ in range(5)]
    assert fit_errors([*EVERY[1:], *many, *few])["replayed"].above == pytest.approx(0.3)


def test_times_beyond_the_devices_peak_and_hosts_that_are_not_forecast_are_not_fitted_to():
    faults = [step(0.1), step(3.0, framework="megatron")]
    assert fit_errors([*EVERY, *faults])["replayed"] == StepError(0.08, 0.08)
    with pytest.raises(InputError, match="issued_token"):
        fit_errors([one for one in EVERY if one.kind != "issued_token"])


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"kind": "request"}, "replayed"),
        ({"kind": "decode", "issues_kernels": True}, "issued_token"),
        ({"kind": "prefill", "issues_kernels": True, "prompt_length": 512}, "issued_prompt"),
        ({"kind": "prefill", "issues_kernels": True, "prompt_length": 513}, "issued_long_prompt"),
    ],
)
def test_a_time_is_of_the_kind_of_its_step(facts, kind):
    """Four prompts of 512 tokens are 2,048, and not long yet."""
    assert kind_of(case(**facts)) == kind
