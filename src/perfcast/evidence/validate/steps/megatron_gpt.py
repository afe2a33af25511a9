"""The GPT that Megatron-LM trains in fp32, as an ordinary module: the kernels that it runs on one device.

What the study's runs on four GPUs were: Accelerate 1.0 with its Megatron-LM plugin and Megatron-LM
core_r0.5.0 (sitar-lab/NeuSight: scripts/asplos/collect_label_distributed.py, run_label_distributed.py,
install_megatron.sh). Against transformers' GPT-2, which the study's other runs are of:

* activations are [tokens, sequences, hidden], so that heads are views of one projection and nothing but the
  attention's result is copied (megatron/model/transformer.py);
* scores are scaled in their product, masked in place, and go through PyTorch's softmax: the fused kernel
  takes half precision alone (megatron/model/fused_softmax.py);
* bias and GELU are one kernel (megatron/model/fused_bias_gelu.py);
* the vocabulary is padded to a multiple of 128 · tp (megatron/tokenizer/tokenizer.py).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import pad_vocabulary
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.step import Program

_DROPOUT = 0.1


class Attention(nn.Module):
    """Queries, keys and values of a head side by side in one projection."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.num_heads, self.head_size = model.num_attention_heads, model.head_size
        self.query_key_value = nn.Linear(model.hidden_size, 3 * model.hidden_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(3 * model.hidden_size))
        self.dense = nn.Linear(model.hidden_size, model.hidden_size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[s, b, h] → [s, b, h]."""
        length, batch, _ = x.shape
        mixed = (self.query_key_value(x) + self.bias).view(length, batch, self.num_heads, 3 * self.head_size)
        query, key, value = (
            part.reshape(length, batch * self.num_heads, self.head_size).transpose(0, 1)
            for part in mixed.split(self.head_size, dim=3)
        )
        scores = torch.baddbmm(
            x.new_empty(batch * self.num_heads, length, length), query, key.transpose(1, 2), beta=0.0,
            alpha=self.head_size**-0.5,
        ).view(batch, self.num_heads, length, length)  # fmt: skip
        scores = torch.softmax(scores.masked_fill_(mask, -10000.0), dim=-1)
        scores = functional.dropout(scores, _DROPOUT, self.training).view(
            batch * self.num_heads, length, length
        )
        context = torch.bmm(scores, value).view(batch, self.num_heads, length, self.head_size)
        context = context.permute(2, 0, 1, 3).contiguous()
        return cast(Tensor, self.dense(context.view(length, batch, -1)))


class Layer(nn.Module):
    """Attention and MLP, each behind a norm and added to what it was given."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.input_norm = nn.LayerNorm(model.hidden_size)
        self.attention = Attention(model)
        self.post_attention_norm = nn.LayerNorm(model.hidden_size)
        self.up = nn.Linear(model.hidden_size, model.ffn_hidden_size)
        self.down = nn.Linear(model.ffn_hidden_size, model.hidden_size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[s, b, h] → [s, b, h]."""
        attended = self.attention(self.input_norm(x), mask)
        x = x + functional.dropout(attended, _DROPOUT, self.training)
        mixed = self.down(functional.gelu(self.up(self.post_attention_norm(x)), approximate="tanh"))
        return x + functional.dropout(mixed, _DROPOUT, self.training)


class MegatronGPT(nn.Module):
    """Embedding, layers, head with the embedding's weight, and the loss."""

    def __init__(self, model: Transformer, vocab_size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, model.hidden_size)
        self.positions = nn.Embedding(model.max_positions, model.hidden_size)
        self.layers = nn.ModuleList(Layer(model) for _ in range(model.num_layers))
        self.final_norm = nn.LayerNorm(model.hidden_size)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """[b, s] tokens and labels → the mean loss."""
        length = tokens.shape[1]
        positions = torch.arange(length, device=tokens.device)
        mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.words(tokens) + self.positions(positions)
        x = functional.dropout(x.transpose(0, 1).contiguous(), _DROPOUT, self.training)
        for layer in self.layers:
            x = layer(x, mask)
        logits = functional.linear(self.final_norm(x), self.words.weight)
        target = labels.transpose(0, 1).contiguous()
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1))


def build_megatron_program(
    model: Transformer, batch_size: int, sequence_length: int, tensor_parallel: int
) -> Program:
    """The program of one replica; ``tensor_parallel`` pads its vocabulary."""
    multiple = load_training_profile("megatron_local").vocabulary_multiple
    vocab_size = pad_vocabulary(model.vocab_size, tensor_parallel, multiple)
    tokens = torch.ones(batch_size, sequence_length, dtype=torch.int64)
    return Program(
        MegatronGPT(model, vocab_size),
        (tokens, tokens.clone()),
        batch_size=batch_size,
        sequence_length=sequence_length,
    )
