"""Constants of parts, from made-up steps whose constants are known."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError
from perfcast.evidence.train.vision.fit import Problem, build_problem, fit_constants, left_out_seconds
from perfcast.evidence.train.vision.steps import StepParts, VisionStep, by_turns, is_same_model
from perfcast.evidence.train.vision.train import VisionRecord as Record
from perfcast.evidence.train.vision.train import (
    Widths,
    constants_text,
    error_widths,
    fitted_family,
    train_vision,
)
from perfcast.evidence.validate.vision.timm_steps.cases import TimmCase

TRUE = np.array([1.3, 0.8, 2.0])


def problem(count: int = 200, noise: float = 0.02) -> Problem:
    draw = np.random.default_rng(0)
    seconds = draw.uniform(0.1, 1.0, (count, 3))
    measured = seconds @ TRUE * np.exp(noise * draw.standard_normal(count))
    return Problem(("a", "b", "c"), seconds, measured, np.ones(count), np.ones(3))


def step(model: str, device: str = "rtx-3090", gmacs: float | None = None, **columns: object) -> VisionStep:
    usual = {
        "model": model, "mode": "infer", "dtype": "amp_fp16", "memory_format": "nchw", "compiled": "False",
        "batch_size": 2, "image_size": 224, "torch_version": "2.4.0",
    }  # fmt: skip
    return VisionStep(TimmCase(0, device, device, usual | columns, 1.0, None), device, 1.0, gmacs)


def test_constants_are_found_again():
    assert fit_constants(problem()) == pytest.approx(TRUE, rel=0.05)


def test_a_model_that_was_measured_wrongly_hardly_moves_them():
    wrong = problem()
    wrong.measured[::20] *= 5
    assert fit_constants(wrong) == pytest.approx(TRUE, rel=0.12)


def test_a_part_that_no_step_has_stays_at_its_prior():
    some = problem()
    seconds = np.column_stack([some.seconds, np.zeros(len(some.measured))])
    lonely = Problem((*some.names, "d"), seconds, some.measured, some.weight, np.array([1.0, 1.0, 1.0, 1.7]))
    assert fit_constants(lonely)[3] == pytest.approx(1.7)


def test_a_group_is_forecast_by_the_others():
    some = problem(noise=0.0)
    groups = [str(number % 10) for number in range(len(some.measured))]
    assert left_out_seconds(some, groups) == pytest.approx(some.measured, rel=0.05)


def test_what_other_models_price_has_a_number_for_each_device():
    parts = [StepParts({"stream.elementwise": 1.0, "other.matmul": 1.0}, 1.0)] * 2
    built = build_problem([step("resnet50"), step("resnet50", "rtx-4090")], parts)
    assert built.names == ("other.matmul@rtx-3090", "other.matmul@rtx-4090", "stream.elementwise")


def test_families_come_by_turns():
    steps = [step("resnet50"), step("resnet101"), step("vgg16")]
    assert [s.model for s in by_turns(steps)] == ["resnet50", "vgg16", "resnet101"]


def test_a_name_whose_model_was_changed_is_not_used():
    # 4 GMAC an image, 2 images, 2 flops each
    assert is_same_model(step("resnet50", gmacs=4.0), StepParts({}, 16e9))
    assert not is_same_model(step("resnet50", gmacs=4.0), StepParts({}, 8e9))
    assert is_same_model(step("resnet50", gmacs=4.0, mode="train"), StepParts({}, 48e9))
    assert is_same_model(step("resnet50"), StepParts({}, 8e9))


def record() -> Record:
    known, unseen = Widths((-0.1, 0.2), (-0.15, 0.3)), Widths((-0.2, 0.4), (-0.3, 0.5))
    return Record({"stream.copy": 1.25, "convolution.padding": 2.0}, (), (), known, unseen, 3)


def test_a_file_holds_the_constants_of_its_prefix():
    text = constants_text(record(), "stream.", "Streams")
    assert '"copy" = 1.25' in text
    assert "padding" not in text


def test_the_model_of_convolutions_is_as_sure_as_left_out_steps_show():
    fitted = fitted_family(record(), [step("resnet50"), step("resnet50", "rtx-4090")])
    assert fitted.spread.known[(), -1] == (-0.1, 0.2)
    assert fitted.spread.unseen["family"][(), -1] == (-0.2, 0.4)
    gradient = ("convolution_weight", "bf16", "pytorch")
    assert fitted.span_of(load_device("rtx-3090"), gradient) == (-0.15, 0.3)
    assert fitted.span_of(load_device("rtx-5090"), gradient) == (-0.3, 0.5)


def test_gradients_trained_on_one_device_lose_elsewhere_what_inference_loses():
    draw = np.random.default_rng(0)
    devices = ["rtx-3090"] * 200 + ["rtx-4090"] * 200
    inference = [step(f"net{n % 20}", device) for n, device in enumerate(devices)]
    training = [step(f"net{n % 20}", mode="train") for n in range(200)]
    here, there = (draw.normal(0.0, width, 400) for width in (0.05, 0.10))
    gradients = draw.normal(0.0, 0.08, 200)
    known, unseen = error_widths(
        [*inference, *training], np.append(here, gradients), np.append(there, gradients + 0.5)
    )
    assert unseen.gradient[1] == pytest.approx(
        np.sqrt(known.gradient[1] ** 2 + unseen.forward[1] ** 2 - known.forward[1] ** 2)
    )
    assert unseen.forward[1] > known.forward[1]


def test_a_folder_without_the_table_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"no vision/timm\.csv\.gz"):
        train_vision(tmp_path, tmp_path / "out")
