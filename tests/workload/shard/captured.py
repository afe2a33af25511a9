"""Small models captured for tests that cut them."""

from __future__ import annotations

from functools import cache
from typing import Any

from perfcast.core.graph import Graph
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.shape import StepShape
from perfcast.workload.step import OptimizerChoice

HIDDEN, LAYERS, VOCABULARY, SEQUENCE, BATCH = 64, 4, 512, 32, 2
_SIZES = {
    "hidden_size": HIDDEN, "intermediate_size": 160, "num_attention_heads": 8, "num_hidden_layers": LAYERS,
    "vocab_size": VOCABULARY, "max_position_embeddings": 128,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": HIDDEN, "n_head": 8,
        "n_layer": LAYERS, "n_positions": 128, "vocab_size": VOCABULARY,
    },
    "llama": _SIZES | {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
    "bert": _SIZES | {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
    "opt": _SIZES | {
        "model_type": "opt", "architectures": ["OPTForCausalLM"], "ffn_dim": 160,
        "word_embed_proj_dim": HIDDEN,
    },
    "vit": _SIZES | {
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 32,
        "patch_size": 8,
    },
    "gptj": {
        "model_type": "gptj", "architectures": ["GPTJForCausalLM"], "n_embd": HIDDEN, "n_head": 8,
        "n_layer": LAYERS, "n_positions": 128, "vocab_size": VOCABULARY, "rotary_dim": 8,
    },
    "mixtral": _SIZES | {
        "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_key_value_heads": 4,
        "num_local_experts": 4,
    },
    "resnet": {
        "model_type": "resnet", "architectures": ["ResNetForImageClassification"], "depths": [1, 1],
        "hidden_sizes": [32, 64], "embedding_size": 16,
    },
}  # fmt: skip


@cache
def captured(
    name: str,
    *,
    dtype: str = "fp32",
    attention: str = "eager",
    optimizer: str = "none",
    micro_batches: int = 1,
) -> Graph:
    """A step of two sequences of 32 tokens."""
    config = CONFIGS[name]
    shape = StepShape(
        mode="train", batch_size=BATCH, sequence_length=SEQUENCE, dtype=dtype, attention=attention,
        recompute="none",
    )  # fmt: skip
    options = CaptureOptions(
        optimizer=OptimizerChoice(optimizer, "foreach"),
        autocast_dtype=shape.autocast_dtype,
        num_micro_batches=micro_batches,
    )
    return capture(lambda: build_program(config, config["architectures"][0], shape), options)[0]
