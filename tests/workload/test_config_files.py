"""A config.json that holds something else than it may is refused by file and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError, ModelError
from perfcast.prediction.defaults import usual_dtype
from perfcast.prediction.model import read_model
from perfcast.workload.models.config import read_config
from perfcast.workload.models.config_keys import check_keys

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "hidden_act": "silu",
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "awq", "bits": 4},
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({**LLAMA, **changes}))
    return path


def test_a_sound_config_is_read(tmp_path: Path) -> None:
    assert read_model(str(write(tmp_path))).sizes.num_kv_heads == 4


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("architectures", [1], "a list of texts"),
        ("architectures", "LlamaForCausalLM", "a list of texts"),
        ("architectures", {"a": 1}, "a list of texts"),
        ("hidden_size", "64", "a whole number above 0"),
        ("hidden_size", 64.5, "a whole number above 0"),
        ("hidden_size", True, "a whole number above 0"),
        ("hidden_size", 0, "a whole number above 0"),
        ("num_key_value_heads", 0, "a whole number above 0"),
        ("num_key_value_heads", -1, "a whole number above 0"),
        ("num_hidden_layers", [2], "a whole number above 0"),
        ("intermediate_size", "128", "a whole number from 0"),
        ("head_dim", float("inf"), "a whole number from 0"),
        ("sliding_window", {}, "a whole number from 0"),
        ("max_position_embeddings", float("nan"), "a finite number"),
        ("attention_dropout", 7, "a number from 0 to 1"),
        ("tie_word_embeddings", "no", "true or false"),
        ("model_type", ["llama"], "a text"),
        ("hidden_act", 1, "a text"),
        ("torch_dtype", {}, "a text"),
        ("layer_types", "full_attention", "a list of texts"),
        ("rope_parameters", [1], "a table"),
        ("text_config", "none", "a table"),
        ("quantization_config", "awq", "a table"),
    ],
)
def test_a_key_of_the_wrong_kind_is_refused_by_file_and_key(
    key: str, value: object, expected: str, tmp_path: Path
) -> None:
    path = write(tmp_path, **{key: value})
    with pytest.raises(ModelError) as caught:
        read_config(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {key} is ")
    assert f"; expected {expected}" in message


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"bits": [4]}, "bits"),
        ({"quant_method": 4}, "quant_method"),
        ({"modules_to_not_convert": 7}, "modules_to_not_convert"),
        ({"config_groups": {"group_0": 1}}, "config_groups"),
        ({"config_groups": {"group_0": {"weights": [1]}}}, "weights"),
        ({"quantization": "fp8"}, "quantization"),
    ],
)
def test_a_key_of_a_quantisation_is_refused_by_its_place(
    table: dict[str, object], key: str, tmp_path: Path
) -> None:
    path = write(tmp_path, quantization_config=table)
    with pytest.raises(ModelError, match=rf"config\.json: quantization_config.*: {key} is "):
        read_config(path)


def test_heads_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="8 num_attention_heads do not divide among 3 num_key_value_heads"):
        read_config(write(tmp_path, num_key_value_heads=3))
    inner = {"num_attention_heads": 8, "num_key_value_heads": 3}
    with pytest.raises(ModelError, match="text_config: 8 num_attention_heads"):
        read_config(write(tmp_path, text_config=inner))


def test_a_size_by_layer_has_no_closed_form(tmp_path: Path) -> None:
    model = read_model(str(write(tmp_path, intermediate_size=[128, 256])))
    with pytest.raises(ModelError, match=r"takes one number for all layers|intermediate_size"):
        _ = model.sizes


def test_infinities_that_are_no_sizes_are_taken(tmp_path: Path) -> None:
    assert read_config(write(tmp_path, time_step_limit=[0.0, float("inf")]))


def test_names_of_other_things_are_no_keys() -> None:
    check_keys({"id2label": {"hidden_size": "a label"}, "label2id": {"dropout": 7}}, "config.json")


def test_a_config_that_is_a_folder_a_device_or_broken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("/dev/zero")
    with pytest.raises(ModelError, match=r"config\.json': it is a device"):
        read_model(str(tmp_path))
    with pytest.raises(ModelError, match="no such file"):
        read_model(str(tmp_path / "gone.json"))


KEYS = sorted(
    {*LLAMA, "text_config", "head_dim", "rope_parameters", "layer_types", "dtype", "sliding_window"}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2000) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=cases(60, share=0.1))
@given(changes=st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_whatever_a_config_holds_it_is_read_or_refused(
    changes: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "drawn.json"
    path.write_text(json.dumps({**LLAMA, **changes}))
    try:
        model = read_model(str(path))
        usual_dtype(model, "decode", load_device("h100-sxm"))
        _ = model.most_tokens, model.sizes
    except InputError:
        pass
