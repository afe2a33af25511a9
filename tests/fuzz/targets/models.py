"""Configs of models: their sizes, what the closed form makes of them, and the memory of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fuzz.documents import document_target
from golden.inputs import MODELS
from perfcast.prediction.model import read_model
from perfcast.verbs.answer import answer
from perfcast.verbs.question import question_of

WORDS = (
    "LlamaForCausalLM",
    "llama",
    "gpt2",
    "mixtral",
    "qwen2",
    "gemma2",
    "deepseek_v3",
    "t5",
    "bert",
    "resnet",
    "auto",
    "silu",
    "bfloat16",
    "num_key_value_heads",
    "architectures",
    "text_config",
    "rope_scaling",
    "auto_map",
    "quantization_config",
    "head_dim",
    "sliding_window",
    "layer_types",
)


def _configs() -> list[Any]:
    """One of each kind, small."""
    deepseek = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "hidden_size": 256,
        "intermediate_size": 512,
        "moe_intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "q_lora_rank": 64,
        "kv_lora_rank": 32,
        "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 32,
        "v_head_dim": 32,
        "vocab_size": 2048,
        "max_position_embeddings": 1024,
        "n_group": 1,
        "topk_group": 1,
    }
    gemma = {
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "vocab_size": 2048,
        "max_position_embeddings": 1024,
        "sliding_window": 128,
    }
    seeing = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": dict(gemma),
    }
    return [*MODELS.values(), deepseek, gemma, seeing]


def _sizes(path: Path) -> object:
    return read_model(str(path)).sizes


def _memory(path: Path) -> object:
    asked = {"model": str(path), "device": "h100-sxm", "devices": 2, "plan": "tp=2", "batch_size": 2}
    return answer(question_of("memory", asked)).to_json()


TARGETS = (
    document_target("model/config", _sizes, _configs, file_name="config.json", words=WORDS),
    document_target(
        "model/memory",
        _memory,
        _configs,
        file_name="config.json",
        words=WORDS,
        share=0.1,
        usual=8,
        seconds=15.0,
    ),
)
