"""Precision and sequence where nothing is asked for: one rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.models import load_models
from perfcast.core.formats import FORMATS
from perfcast.core.mode import MOST_TOKENS
from perfcast.core.precision import split_parts
from perfcast.errors import ModelError
from perfcast.prediction.defaults import choose_defaults, complete_request, usual_dtype
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.request.one_device import Request

H100, V100 = load_device("h100-sxm"), load_device("v100-sxm-32gb")


def stated(**config: Any) -> NamedModel:
    return NamedModel("a-model", {"model_type": "llama", **config})


def test_training_is_mixed_precision_in_what_the_device_has():
    assert usual_dtype(stated(), "train", H100)[0] == "bf16"
    assert usual_dtype(stated(torch_dtype="float32"), "train", H100)[0] == "bf16"
    dtype, why = usual_dtype(stated(torch_dtype="bfloat16"), "train", V100)
    assert (dtype, "no bf16" in why) == ("fp16", True)


@pytest.mark.parametrize(
    ("config", "dtype", "says"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16", "as the model's config says"),
        ({"dtype": "float16"}, "fp16", "as the model's config says"),
        ({"text_config": {"dtype": "torch.bfloat16"}}, "bf16", "as the model's config says"),
        ({"torch_dtype": "float32"}, "bf16", "states float32, which is served in half precision"),
        ({}, "bf16", "states none"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "int4_wo", "quantised"),
    ],
)
def test_inference_takes_what_the_config_says(config: dict[str, Any], dtype: str, says: str):
    found, why = usual_dtype(stated(**config), "decode", H100)
    assert found == dtype
    assert says in why


def test_what_a_device_lacks_is_not_taken():
    assert usual_dtype(stated(torch_dtype="bfloat16"), "decode", V100)[0] == "fp16"


def test_a_training_of_a_quantised_checkpoint_says_that_it_is_not():
    model = stated(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    dtype, why = usual_dtype(model, "train", H100)
    assert (dtype, "the checkpoint is quantised, a training is not" in why) == ("bf16", True)
    assert usual_dtype(model, "decode", H100)[0] == "fp8_block"


def test_an_unknown_quantisation_names_the_way_out():
    model = stated(quantization_config={"quant_method": "own"})
    with pytest.raises(ModelError, match=r"quantised by 'own', which is not known.*give --dtype"):
        choose_defaults(model, "decode", H100)
    assert choose_defaults(model, "decode", H100, dtype="bf16").dtype == "bf16"


def test_what_is_asked_for_is_taken_without_a_word():
    found = choose_defaults(read_model("gpt2"), "train", H100, dtype="fp32", sequence_length=7)
    assert (found.dtype, found.sequence_length, found.notes) == ("fp32", 7, ())


def test_a_sequence_is_as_long_as_trained_and_no_longer_than_usual(tmp_path: Path):
    assert read_model("gpt2").usual_sequence_length == 1024
    assert read_model("mixtral-8x22b").usual_sequence_length == MOST_TOKENS
    assert read_model("resnet-50").usual_sequence_length is None
    long = {"model_type": "llama", "max_position_embeddings": 131072}
    stretched = {**long, "rope_scaling": {"original_max_position_embeddings": 4096}}
    for config, length in ((long, MOST_TOKENS), (stretched, 4096)):
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        model = read_model(str(tmp_path))
        assert model.usual_sequence_length == length
        notes = choose_defaults(model, "train", H100).notes
        assert f"{length:,} tokens of 131,072" in notes


def test_a_request_is_completed_once():
    request, notes = complete_request(Request(model="llama3.2-1b", mode="decode"), H100)
    assert (request.dtype, request.sequence_length) == ("bf16", 8192)
    assert notes == ("bf16: as the model's config says", "8,192 tokens of 131,072")
    assert complete_request(request, H100) == (request, ())


def test_programs_of_ones_own_are_cast_to_nothing_and_recommenders_train_in_fp32():
    assert usual_dtype(NamedModel("model.py:build"), "train", H100)[0] == "fp32"
    assert usual_dtype(read_model("dlrm-small"), "train", H100)[0] == "fp32"


@pytest.mark.parametrize("name", sorted(load_models()))
@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_every_model_of_the_catalog_has_a_usual_precision_and_length(name: str, mode: Any):
    found = choose_defaults(read_model(name), mode, H100)
    name, parts = split_parts(found.dtype)
    assert {name, *parts.values()} <= FORMATS.keys()
    assert found.sequence_length is None or 1 <= found.sequence_length <= MOST_TOKENS
