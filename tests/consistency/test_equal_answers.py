"""Equal questions have equal answers, to the digit: a part of the catalog (``every_model.py``: all)."""

from __future__ import annotations

import pytest

from consistency.questions import DEVICE, LENGTH, ROOF, ask, contradictions, list_questions
from perfcast.catalogs.models import load_models
from perfcast.prediction.model import read_model

#: Every so many-th transformer of the catalog is asked about under plans and by frameworks' kernels.
_EVERY = 5
SIZED = [name for name in load_models() if read_model(name).has_sizes][::_EVERY]
#: Small models whose own modules are captured: text, an encoder, pictures.
CAPTURED = ("gpt2", "bert-base", "resnet-50")


@pytest.mark.parametrize("model", SIZED)
def test_a_transformer_under_a_plan_takes_the_same_in_every_verb(model: str):
    for question in list_questions(model, captured=False):
        assert contradictions(question) == [], question.name


@pytest.mark.parametrize("model", CAPTURED)
def test_one_device_takes_the_same_in_every_verb(model: str):
    for question in list_questions(model):
        assert contradictions(question) == [], question.name


@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_where_the_program_differs_the_header_says_so(mode: str):
    rest = f"gpt2 --mode {mode} --batch-size 1 --sequence-length {LENGTH} --device {DEVICE} {ROOF}"
    other = "megatron" if mode == "train" else "sglang"
    asked = [ask(name, f"predict {rest} --framework {name}") for name in ("pytorch", other)]
    own, kernels = (answer.program for answer in asked)
    assert own == "the model's own modules, run eagerly by PyTorch"
    assert own != kernels
    assert asked[0].figures != asked[1].figures
