"""What a step adds to the interval of its prices, by what is known of its program."""

from __future__ import annotations

import pytest

from perfcast.cost.interval import STEP_ERROR, StepError
from perfcast.errors import CatalogError
from perfcast.prediction.step.inference_errors import (
    INFERENCE_STEPS,
    inference_step,
    load_inference_errors,
    parse_inference_errors,
    step_error_of,
)


def test_every_kind_of_step_has_a_width_above_none():
    assert set(load_inference_errors()) == set(INFERENCE_STEPS)
    assert all(0 < each.below < 1 and each.above > 0 for each in load_inference_errors().values())


def test_long_prompts_are_no_surer_than_short_ones_and_trainings_are_as_before():
    short, long = (step_error_of("prefill", n, issues_kernels=True) for n in (2048, 2049))
    assert long.above > short.above
    assert step_error_of("train", 1e6, issues_kernels=True) == StepError(STEP_ERROR, STEP_ERROR)


def test_a_replayed_graph_is_of_one_kind_whatever_it_reads():
    assert {inference_step(mode, 1e5, issues_kernels=False) for mode in ("prefill", "decode")} == {"replayed"}


def test_a_file_that_lacks_a_kind_is_refused(tmp_path):
    path = tmp_path / "inference.toml"
    path.write_text('[sources]\na = "b"\n[below]\n[above]\n', encoding="utf-8")
    with pytest.raises(CatalogError, match="no width of 'replayed'"):
        parse_inference_errors(path)
