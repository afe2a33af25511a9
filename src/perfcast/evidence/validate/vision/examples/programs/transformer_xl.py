"""Transformer-XL (Dai et al.: arXiv 1901.02860), base and large, on WikiText-103.

As PyTorch/LanguageModeling/Transformer-XL builds it: sizes of pytorch/wt103_base.yaml and wt103_large.yaml;
attention with relative positions, adaptive embeddings and the adaptive softmax of pytorch/mem_transformer.py
and utils/proj_adaptive_softmax.py.

Which tokens fall into which part of the vocabulary depends on text. Their shares follow from the corpus
(103.2 million tokens, 267,735 words that occur three times or more): frequencies like 1 / rank up to rank
7,000 and like a steeper power behind it whose last word occurs three times.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.workload.step import Program

_CUTOFFS = (0, 19_997, 39_997, 199_997, 267_735)
_SHARES = (0.947, 0.0245, 0.0265, 0.002)


@dataclass(frozen=True)
class _Size:
    layers: int
    width: int
    heads: int
    inner: int
    dropout: float
    attention_dropout: float
    divide: int  # width of a part of the vocabulary over that of the next
    tokens: int  # of a segment in training


_SIZES = {
    "base": _Size(16, 512, 8, 2048, 0.1, 0.0, 1, 192),
    "large": _Size(18, 1024, 16, 4096, 0.2, 0.2, 4, 384),
}
_HEAD_SIZE = 64


def build_transformer_xl(size: str, shape: ProgramShape) -> Program:
    """Options 'sequence length' and 'memory length' of inference; training has its own."""
    sizes = _SIZES[size]
    tokens = sizes.tokens if shape.is_training else int(shape.option("sequence_length"))
    memory = sizes.tokens if shape.is_training else int(shape.option("memory length"))
    words = torch.zeros(tokens, shape.batch_size, dtype=torch.int64)
    memories = torch.zeros(sizes.layers, memory, shape.batch_size, sizes.width)
    return Program(
        TransformerXL(sizes, keeps_cat=memory != tokens),
        (words, words.clone(), memories),
        loss_function=_mean_loss,
        batch_size=shape.batch_size,
        sequence_length=tokens,
    )


def _mean_loss(output: tuple[Tensor, Tensor]) -> Tensor:
    return output[0].float().mean()


def _counts(tokens: int) -> list[int]:
    """Tokens of each part of the vocabulary; every part has one at least."""
    rest = [max(1, round(tokens * share)) for share in _SHARES[1:]]
    return [max(1, tokens - sum(rest)), *rest]


class Layer(nn.Module):
    """Relative attention over memory and segment, then the feed-forward net; norms behind."""

    def __init__(self, size: _Size) -> None:
        super().__init__()
        inner = size.heads * _HEAD_SIZE
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * inner, bias=False)
        self.positions = nn.Linear(size.width, inner, bias=False)
        self.out = nn.Linear(inner, size.width, bias=False)
        self.attention_dropout, self.dropout = nn.Dropout(size.attention_dropout), nn.Dropout(size.dropout)
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.feed_forward = nn.Sequential(
            nn.Linear(size.width, size.inner),
            nn.ReLU(inplace=True),
            nn.Dropout(size.dropout),
            nn.Linear(size.inner, size.width),
            nn.Dropout(size.dropout),
        )

    def forward(
        self, x: Tensor, r: Tensor, content_bias: Tensor, position_bias: Tensor, mask: Tensor, memory: Tensor
    ) -> Tensor:
        """x [queries, batch, width], r [keys, 1, width], memory [keys - queries, batch, width]."""
        queries, batch, _ = x.shape
        q, k, v = torch.chunk(self.qkv(torch.cat([memory.to(x.dtype), x], 0)), 3, dim=-1)
        keys = k.shape[0]
        q = q[-queries:].view(queries, batch, self.heads, _HEAD_SIZE)
        k = k.view(keys, batch, self.heads, _HEAD_SIZE)
        v = v.view(keys, batch, self.heads, _HEAD_SIZE)
        p = self.positions(r).view(keys, self.heads, _HEAD_SIZE)
        content = torch.einsum("ibnd,jbnd->bnij", q + content_bias, k)
        scores = content + _shift(torch.einsum("ibnd,jnd->bnij", q + position_bias, p))
        scores = scores * (1 / _HEAD_SIZE**0.5)
        scores = scores.masked_fill(mask[None, None, :, :], -float("inf"))
        weights = self.attention_dropout(functional.softmax(scores, dim=3))
        mixed = torch.einsum("bnij,jbnd->ibnd", weights, v).contiguous()
        y = self.dropout(self.out(mixed.view(queries, batch, self.heads * _HEAD_SIZE)))
        y = self.norm1(x + y)
        return self.norm2(y + self.feed_forward(y))  # type: ignore[no-any-return]


def _shift(x: Tensor) -> Tensor:
    """Scores by distance to scores by key, [batch, heads, queries, keys]."""
    pad = torch.zeros(x.shape[0], x.shape[1], x.shape[2], 1, dtype=x.dtype)
    padded = torch.cat([pad, x], dim=3).view(x.shape[0], x.shape[1], x.shape[3] + 1, x.shape[2])
    return padded.narrow(2, 1, x.shape[3]).reshape(x.shape)


class Vocabulary(nn.Module):
    """Adaptive embeddings and the adaptive softmax that shares their weights."""

    def __init__(self, size: _Size) -> None:
        super().__init__()
        self.size, self.counts = size, list(pairwise(_CUTOFFS))
        if size.divide == 1:
            self.weights = nn.ParameterList([torch.zeros(_CUTOFFS[-1], size.width)])
            self.projections = nn.ParameterList()
            self.biases = nn.ParameterList([torch.zeros(_CUTOFFS[-1])])
        else:
            widths = [size.width // size.divide**i for i in range(len(self.counts))]
            rows = [end - start for start, end in self.counts]
            self.weights = nn.ParameterList(torch.zeros(n, w) for n, w in zip(rows, widths, strict=True))
            self.projections = nn.ParameterList(torch.zeros(size.width, w) for w in widths)
            self.biases = nn.ParameterList(torch.zeros(n) for n in rows)
        self.cluster_weight = nn.Parameter(torch.zeros(len(self.counts) - 1, size.width))
        self.cluster_bias = nn.Parameter(torch.zeros(len(self.counts) - 1))

    def embed(self, words: Tensor) -> Tensor:
        """[tokens, batch] to [tokens, batch, width]."""
        scale: float = self.size.width**0.5
        if self.size.divide == 1:
            return functional.embedding(words, self.weights[0]) * scale
        flat = words.view(-1)
        whole = torch.zeros(flat.shape[0], self.size.width, dtype=self.weights[0].dtype)
        for index, count in enumerate(_counts(flat.shape[0])):
            mask = (flat >= _CUTOFFS[index]) & (flat < _CUTOFFS[index + 1])
            where = mask.cumsum(0)[:count]  # stands for nonzero(), whose size is a value
            part = functional.embedding(flat.index_select(0, where), self.weights[index])
            part = functional.linear(part, self.projections[index]).to(whole.dtype)
            whole = whole.index_copy(0, where, part)
        return whole.view(*words.shape, self.size.width) * scale

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood of each row [rows] of hidden [rows, width]."""
        weights, biases = self._parts()
        weights[0] = torch.cat([weights[0], self.cluster_weight.to(weights[0].dtype)], 0)
        biases[0] = torch.cat([biases[0], self.cluster_bias], 0)
        head = functional.log_softmax(self._logits(hidden, 0, weights, biases), dim=1)
        parts = []
        for index, count in enumerate(_counts(hidden.shape[0])):
            mask = (targets >= _CUTOFFS[index]) & (targets < _CUTOFFS[index + 1])
            where = mask.cumsum(0)[:count]
            chosen, own = targets.index_select(0, where), head.index_select(0, where)
            if index == 0:
                parts.append(-own.gather(1, chosen[:, None]).squeeze(1))
                continue
            tail = self._logits(hidden.index_select(0, where), index, weights, biases)
            found = functional.log_softmax(tail, dim=1).gather(1, chosen[:, None]).squeeze(1)
            parts.append(-(own[:, -index] + found))
        return torch.cat(parts)

    def _parts(self) -> tuple[list[Tensor], list[Tensor]]:
        if self.size.divide > 1:
            return list(self.weights), list(self.biases)
        return (
            [self.weights[0][start:end] for start, end in self.counts],
            [self.biases[0][start:end] for start, end in self.counts],
        )

    def _logits(self, hidden: Tensor, index: int, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
        if self.size.divide > 1:
            hidden = functional.linear(hidden, self.projections[index].t())
        return functional.linear(hidden, weights[index], biases[index])


class TransformerXL(nn.Module):
    """Words, targets [tokens, batch], memories [layers, memory, batch, width] to losses and memories."""

    def __init__(self, size: _Size, keeps_cat: bool) -> None:
        super().__init__()
        self.vocabulary = Vocabulary(size)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.content_bias = nn.Parameter(torch.zeros(size.heads, _HEAD_SIZE))
        self.position_bias = nn.Parameter(torch.zeros(size.heads, _HEAD_SIZE))
        self.dropout = nn.Dropout(size.dropout)
        self.inverse: Tensor
        self.register_buffer("inverse", 1 / 10_000 ** (torch.arange(0.0, size.width, 2.0) / size.width))
        self.keeps_cat = keeps_cat

    def forward(self, words: Tensor, targets: Tensor, memories: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [rows], and what the next segment sees."""
        tokens, keys = words.shape[0], words.shape[0] + memories.shape[1]
        x = self.vocabulary.embed(words)
        mask = torch.triu(x.new_ones(tokens, keys), diagonal=1 + memories.shape[1]).bool()
        angles = torch.arange(keys - 1, -1, -1.0, dtype=x.dtype)[:, None] * self.inverse[None, :]
        r = self.dropout(torch.cat([angles.sin(), angles.cos()], dim=-1)[:, None, :].to(x.dtype))
        x, hidden = self.dropout(x), []
        for layer, memory in zip(self.layers, memories, strict=True):
            hidden.append(x.detach())
            x = layer(x, r, self.content_bias, self.position_bias, mask, memory)
        x = self.dropout(x)
        with torch.no_grad():
            new = torch.stack(hidden)
            if self.keeps_cat:
                new = torch.cat([memories.to(new.dtype), new], dim=1)[:, -memories.shape[1] :]
        return self.vocabulary.loss(x.view(-1, x.shape[-1]), targets.view(-1)), new
