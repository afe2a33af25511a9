"""Small programs of many kinds, built on symbolic or real tensors alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from perfcast.workload.models.huggingface import build_program
from perfcast.workload.recommender.model import build_dlrm_program
from perfcast.workload.shape import StepShape
from perfcast.workload.step import Program


def build_mlp() -> Program:
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)]
    return Program(nn.Sequential(*layers), args=(torch.zeros(512, 64),))


def build_cnn() -> Program:
    layers = [
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, groups=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1),
        nn.Linear(16, 10),
    ]  # fmt: skip
    return Program(nn.Sequential(*layers), args=(torch.zeros(4, 3, 32, 32),))


class DenselyConnected(nn.Module):
    """Every layer sees what all layers before it made."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        total = x
        for layer in self.layers:
            total = total + layer(total)
        return total


def hugging_face(
    architecture: str,
    config: Mapping[str, Any],
    batch_size: int = 4,
    sequence_length: int | None = 64,
    **shape: Any,
) -> Callable[[], Program]:
    step = StepShape(batch_size=batch_size, sequence_length=sequence_length, **shape)
    return lambda: build_program(config, architecture, step)


GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 8, "n_head": 4, "n_positions": 64, "vocab_size": 200}
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 200,
}  # fmt: skip
BERT = {
    "model_type": "bert", "hidden_size": 64, "num_hidden_layers": 7, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 200,
}  # fmt: skip
VIT = {
    "model_type": "vit", "hidden_size": 64, "num_hidden_layers": 8, "num_attention_heads": 4,
    "intermediate_size": 128, "image_size": 32, "patch_size": 4, "num_labels": 10,
}  # fmt: skip
RESNET = {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 2],
    "layer_type": "bottleneck", "num_labels": 10, "image_size": 64,
}  # fmt: skip
T5 = {
    "model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 7, "num_decoder_layers": 7,
    "num_heads": 4, "vocab_size": 200, "decoder_start_token_id": 0,
}  # fmt: skip
DLRM = {
    "dense_features": 13, "embedding_dim": 16, "bottom_mlp": [64, 16], "top_mlp": [64, 32, 1],
    "table_rows": [1000, 500, 200, 100], "pooling": 2, "interaction": "dot",
}  # fmt: skip

TRAINING_PROGRAMS: dict[str, Callable[[], Program]] = {
    "mlp": build_mlp,
    "cnn": build_cnn,
    "gpt2": hugging_face("GPT2LMHeadModel", GPT2),
    "gpt2-eager": hugging_face("GPT2LMHeadModel", GPT2, attention="eager"),
    "gpt2-checkpointed": hugging_face("GPT2LMHeadModel", GPT2, recompute="full"),
    "bert": hugging_face("BertForMaskedLM", BERT),
    "llama": hugging_face("LlamaForCausalLM", LLAMA),
    "vit": hugging_face("ViTForImageClassification", VIT, sequence_length=None),
    "resnet": hugging_face("ResNetForImageClassification", RESNET, sequence_length=None),
    "t5": hugging_face("T5ForConditionalGeneration", T5),
    "dlrm": lambda: build_dlrm_program(DLRM, 512, training=True),
}
