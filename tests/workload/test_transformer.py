"""Transformers read from configs have exactly the parameters of the modules that are built."""

from __future__ import annotations

import pytest
import torch

from perfcast.catalogs.models import ModelEntry, load_models
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import count_parameters
from perfcast.errors import ModelError
from perfcast.memory_use.footprint.pytorch.step import count_eager_parameters
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.models.transformer import read_transformer
from perfcast.workload.shape import StepShape
from small_models import BERT, GPT2, LLAMA, RESNET, T5, VIT

NOT_DESCRIBED = {
    "DLRM", "ResNetForImageClassification", "SwitchTransformersForConditionalGeneration",
    "T5ForConditionalGeneration", "ViTForImageClassification",
}  # fmt: skip
#: Whose trainings are not described, and so not their eager modules.
NOT_TRAINED = {
    "GlmMoeDsaForCausalLM", "GptOssForCausalLM", "MiniMaxM2ForCausalLM", "Qwen3_5MoeForCausalLM",
}  # fmt: skip
#: Configs of kinds that the catalog has not, and switches that its models leave alone.
OTHERS = {
    "biases everywhere": {**LLAMA, "attention_bias": True, "mlp_bias": True},
    "own head size": {**LLAMA, "head_dim": 32},
    "untied head": {**GPT2, "tie_word_embeddings": False},
    "neox": {"model_type": "gpt_neox", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 128, "vocab_size": 200},
    "gptj": {"model_type": "gptj", "n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8,
             "vocab_size": 200},
    "phi": {"model_type": "phi", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 128, "vocab_size": 200},
    "phi3": {"model_type": "phi3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 200, "pad_token_id": 0},
    "starcoder2": {"model_type": "starcoder2", "hidden_size": 64, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
                   "vocab_size": 200},
    "roberta": {**BERT, "model_type": "roberta", "architectures": ["RobertaForMaskedLM"]},
    "shared gate": {"model_type": "qwen2_moe", "hidden_size": 64, "num_hidden_layers": 3,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
                    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 96, "num_experts": 4,
                    "mlp_only_layers": [0], "vocab_size": 200},
    "deepseek v2": {"model_type": "deepseek_v2", "hidden_size": 64, "num_hidden_layers": 3,
                    "num_attention_heads": 4, "intermediate_size": 128, "moe_intermediate_size": 32,
                    "q_lora_rank": None, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
                    "v_head_dim": 16, "n_routed_experts": 4, "n_shared_experts": 2, "num_experts_per_tok": 2,
                    "first_k_dense_replace": 1, "vocab_size": 200},
}  # fmt: skip


def smallest_described() -> list[ModelEntry]:
    """One of each architecture, the one with the fewest parameters, and those with switches of their own."""
    smallest: dict[str, ModelEntry] = {}
    for entry in load_models().values():
        best = smallest.get(entry.architecture)
        if best is None or entry.parameters.value < best.parameters.value:
            smallest[entry.architecture] = entry
    extra = [load_models()["opt-350m"], load_models()["llama3.2-1b"]]
    described = [e for e in (*smallest.values(), *extra) if e.architecture not in NOT_DESCRIBED]
    return [e for e in described if e.architecture not in NOT_TRAINED]


def parameters_of_module(config: dict[str, object], architecture: str | None) -> int:
    shape = StepShape(batch_size=1, sequence_length=8)
    with torch.device("meta"):
        module = build_program(config, architecture, shape).module
    return sum(parameter.numel() for parameter in module.parameters())


#: Models that fleets serve, and the parameters that their modules have.
SERVED = (
    "deepseek-r1", "gpt-oss-20b", "gpt-oss-120b", "minimax-m2.5", "kimi-k2.5", "glm-5", "qwen3-235b-a22b",
    "qwen3.5-397b-a17b",
)  # fmt: skip


@pytest.mark.parametrize("name", SERVED)
def test_a_served_model_has_exactly_the_parameters_of_its_module_and_about_those_published(name: str):
    entry = load_models()[name]
    config = {key: value for key, value in entry.config.items() if key not in ("quantization_config",)}
    count = count_parameters(read_transformer(entry.config, entry.architecture))
    assert count == parameters_of_module(config, entry.architecture)
    assert count == pytest.approx(entry.parameters.value, rel=0.03)


@pytest.mark.parametrize("entry", smallest_described(), ids=lambda entry: entry.name)
def test_a_catalog_model_has_exactly_the_parameters_of_its_module(entry: ModelEntry):
    model = read_transformer(entry.config, entry.architecture)
    assert count_eager_parameters(model) == parameters_of_module(dict(entry.config), entry.architecture)


def test_catalog_entries_state_every_size_that_transformers_would_fill_in():
    for entry in load_models().values():
        if entry.architecture in NOT_DESCRIBED:
            continue
        as_a_file = {**entry.config, "architectures": [entry.architecture]}
        assert read_transformer(entry.config, entry.architecture) == read_transformer(as_a_file, None), (
            entry.name
        )


@pytest.mark.parametrize("name", OTHERS)
def test_a_users_config_has_exactly_the_parameters_of_its_module(name: str):
    model = read_transformer(OTHERS[name], None)
    assert count_eager_parameters(model) == parameters_of_module(dict(OTHERS[name]), None)


@pytest.mark.parametrize("entry", load_models().values(), ids=lambda entry: entry.name)
def test_every_model_of_the_catalog_is_described_or_refused_by_name(entry: ModelEntry):
    if entry.architecture in NOT_DESCRIBED:
        with pytest.raises(ModelError, match=entry.architecture):
            read_transformer(entry.config, entry.architecture)
    else:
        published = entry.parameters.value
        count = count_parameters if entry.architecture in NOT_TRAINED else count_eager_parameters
        counted = count(read_transformer(entry.config, entry.architecture))
        assert counted == pytest.approx(published, rel=0.06)


@pytest.mark.parametrize("config", [T5, VIT, RESNET], ids=["t5", "vit", "resnet"])
def test_the_refusal_lists_what_is_described(config: dict[str, object]):
    with pytest.raises(ModelError, match="gpt2, gpt_neox, gpt_oss, gptj, llama, minimax_m2, mistral"):
        read_transformer(config, None)


def test_what_a_config_leaves_out_is_what_transformers_takes():
    model = read_transformer({"model_type": "gpt2"}, None)
    assert (model.num_layers, model.hidden_size, model.ffn_hidden_size) == (12, 768, 3072)
    assert (model.vocab_size, model.max_positions, model.activation) == (50257, 1024, "gelu_new")


def test_grouped_query_attention_and_its_own_head_size_are_read():
    config = {**LLAMA, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 24}
    model = read_transformer(config, None)
    assert (model.num_attention_heads, model.num_kv_heads, model.head_size) == (8, 2, 24)


def test_deepseek_v3_is_read_with_latents_and_leading_dense_layers_and_without_prediction_layers():
    entry = load_models()["deepseek-v3"]
    model = read_transformer(entry.config, entry.architecture)
    assert model.latent_attention is not None
    assert model.experts is not None
    assert (model.latent_attention.query_rank, model.latent_attention.kv_rank) == (1536, 512)
    assert (model.experts.num_experts, model.experts.num_dense_layers) == (256, 3)
    assert model.experts.shared_ffn_hidden_size == 2048
    assert model.num_prediction_layers == 0


def test_windows_are_counted_by_layer():
    entry = load_models()["gemma3-1b"]
    model = read_transformer(entry.config, entry.architecture)
    assert (model.sliding_window, model.num_window_layers, model.num_layers) == (512, 22, 26)


def test_a_classifier_is_refused():
    with pytest.raises(ModelError, match="LlamaForSequenceClassification has no head over words"):
        read_transformer({**LLAMA, "architectures": ["LlamaForSequenceClassification"]}, None)


def test_a_config_that_transformers_refuses_says_why():
    with pytest.raises(ModelError, match="model_type 'llama' refuses this config"):
        read_transformer({**LLAMA, "hidden_size": "wide"}, None)


def test_experts_in_every_second_layer_are_refused():
    config = {**OTHERS["shared gate"], "decoder_sparse_step": 2}
    with pytest.raises(ModelError, match="dense layers only where they lead"):
        read_transformer(config, None)


def test_a_transformer_is_plain_data():
    first = read_transformer(LLAMA, None)
    assert isinstance(first, Transformer)
    assert first == read_transformer(LLAMA, None)
    assert hash(first) == hash(read_transformer(LLAMA, None))


def test_of_a_model_that_also_sees_the_language_model_is_read():
    kimi, qwen = load_models()["kimi-k2.5"], load_models()["qwen3.5-397b-a17b"]
    for entry, outer, inner, architecture in (
        (kimi, "kimi_k25", "kimi_k2", "KimiK25ForConditionalGeneration"),
        (qwen, "qwen3_5_moe", "qwen3_5_moe_text", "Qwen3_5MoeForConditionalGeneration"),
    ):
        text = {**entry.config, "model_type": inner}
        file = {"model_type": outer, "architectures": [architecture], "text_config": text}
        assert read_transformer(file, None) == read_transformer(entry.config, entry.architecture)
