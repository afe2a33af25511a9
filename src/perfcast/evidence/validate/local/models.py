"""Small models of different kinds that ``validate local`` runs; calibration never sees them.

Sizes are such that a step takes from ten milliseconds to a second on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.core.mode import Mode
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.recommender.model import build_dlrm_program
from perfcast.workload.shape import StepShape
from perfcast.workload.step import Program


@dataclass(frozen=True)
class LocalModel:
    """A model by name, what it is, and how it is built for 'train' or 'prefill'."""

    name: str
    kind: str
    batch_size: int
    sequence_length: int | None
    build: Callable[[Mode], Program]


class Perceptron(nn.Module):
    """Linear layers with ReLU."""

    def __init__(self, widths: tuple[int, ...] = (512, 2048, 2048, 1024, 10)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """[batch, widths[0]] to [batch, widths[-1]]."""
        return self.layers(x)  # type: ignore[no-any-return]


class ConvolutionalNetwork(nn.Module):
    """Convolution, batch norm, ReLU and pooling, three times, then a classifier."""

    def __init__(self, channels: tuple[int, ...] = (3, 32, 64, 128), classes: int = 100) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(channels):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                       nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                       nn.MaxPool2d(2)]  # fmt: skip
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(channels[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [batch, classes] of images."""
        return self.classifier(self.features(x).flatten(1))  # type: ignore[no-any-return]


class LstmTagger(nn.Module):
    """Embedding, two LSTM layers, a label for every token."""

    def __init__(self, words: int = 8000, hidden: int = 256, labels: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2, batch_first=True)
        self.classifier = nn.Linear(hidden, labels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, length, labels] of tokens."""
        return self.classifier(self.lstm(self.embedding(tokens))[0])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _CrossEntropy:
    """Against class 0 in every row."""

    num_rows: int

    def __call__(self, logits: Tensor) -> Tensor:
        targets = torch.zeros(self.num_rows, dtype=torch.int64)
        return functional.cross_entropy(logits.flatten(0, -2), targets)


def _build_mlp(mode: Mode) -> Program:
    return Program(Perceptron(), (torch.randn(512, 512),), loss_function=_CrossEntropy(512), batch_size=512)


def _build_cnn(mode: Mode) -> Program:
    images = torch.randn(16, 3, 64, 64)
    return Program(ConvolutionalNetwork(), (images,), loss_function=_CrossEntropy(16), batch_size=16)


def _build_lstm(mode: Mode) -> Program:
    tokens = torch.randint(8000, (32, 64))
    loss = _CrossEntropy(32 * 64)
    return Program(LstmTagger(), (tokens,), loss_function=loss, batch_size=32, sequence_length=64)


_DLRM: Mapping[str, Any] = {
    "dense_features": 13,
    "embedding_dim": 64,
    "bottom_mlp": [512, 256, 64],
    "top_mlp": [512, 256, 1],
    "table_rows": [20_000] * 8,
    "pooling": 4,
}


def _build_dlrm(mode: Mode) -> Program:
    return build_dlrm_program(_DLRM, 2048, training=mode == "train")


_CONFIGS: Mapping[str, tuple[Mapping[str, Any], int, int | None]] = {
    "bert": (
        {"model_type": "bert", "hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6,
         "intermediate_size": 1536, "vocab_size": 8192, "architectures": ["BertForMaskedLM"]}, 8, 128,
    ),
    "gpt2": ({"model_type": "gpt2", "n_embd": 384, "n_layer": 4, "n_head": 6, "vocab_size": 8192}, 4, 256),
    "llama": (
        {"model_type": "llama", "hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6,
         "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 8192}, 4, 256,
    ),
    "vit": (
        {"model_type": "vit", "hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6,
         "intermediate_size": 1536, "image_size": 112, "patch_size": 16,
         "architectures": ["ViTForImageClassification"]}, 16, None,
    ),
    "t5": (
        {"model_type": "t5", "d_model": 256, "d_kv": 64, "num_heads": 4, "num_layers": 3,
        "num_decoder_layers": 3,
         "d_ff": 1024, "vocab_size": 8192, "decoder_start_token_id": 0}, 6, 128,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class _Configured:
    """Builds a Hugging Face config."""

    name: str

    def __call__(self, mode: Mode) -> Program:
        config, batch_size, length = _CONFIGS[self.name]
        shape = StepShape(mode=mode, batch_size=batch_size, sequence_length=length)
        return build_program(config, None, shape)


LOCAL_MODELS: tuple[LocalModel, ...] = (
    LocalModel("mlp", "multilayer perceptron", 512, None, _build_mlp),
    LocalModel("cnn", "convolutional network", 16, None, _build_cnn),
    LocalModel("lstm", "recurrent network", 32, 64, _build_lstm),
    LocalModel("dlrm", "recommender", 2048, None, _build_dlrm),
    *(
        LocalModel(name, kind, _CONFIGS[name][1], _CONFIGS[name][2], _Configured(name))
        for name, kind in (("bert", "encoder"), ("gpt2", "decoder"), ("llama", "decoder"),
                           ("vit", "vision transformer"), ("t5", "encoder-decoder"))
    ),
)  # fmt: skip
