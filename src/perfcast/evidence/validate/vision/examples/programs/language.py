"""BERT-large, BART-large and the big Transformer, as PyTorch/LanguageModeling and Translation train them.

BERT and BART are transformers' own modules with plain attention; what NVIDIA's BERT does differently is kept:
its pre-training predicts masked tokens alone (modeling.py, ``sequence_output_is_dense``). Lengths are those
of the tables, but for the second phase of pre-training, whose sequences lie in bins of 64 tokens
(scripts/run_pretraining.sh): half of the tokens of 512-token Wikipedia are padding (Krell et al.: arXiv
2107.02027), so that a sequence takes 256 + 32 of them in the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.workload.models.transformers_context import import_lightly
from perfcast.workload.step import Program

_MASKED_SHARE = 0.15
_BINNED = {512: 288}
_SQUAD_LENGTH, _XSUM_LENGTHS = 384, (1024, 60)
_BART_VOCABULARY = 50_265
_SENTENCE = 32  # tokens of a translated sentence, source and target


def build_bert(task: str, shape: ProgramShape) -> Program:
    """'pretrain' (option 'sequence_length') or 'squad'."""
    import_lightly()
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=30_528,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        attn_implementation="eager",
    )
    length = _SQUAD_LENGTH
    if task == "pretrain":
        stated = int(shape.option("sequence_length"))
        length = _BINNED.get(stated, stated)
    words = torch.zeros(shape.batch_size, length, dtype=torch.int64)
    masked = max(1, round(shape.batch_size * length * _MASKED_SHARE)) if task == "pretrain" else 0
    module = Bert(BertModel(config), config.hidden_size, config.vocab_size, masked)
    return Program(
        module, (words,), loss_function=_sum_losses, batch_size=shape.batch_size, sequence_length=length
    )


def _sum_losses(losses: tuple[Tensor, ...]) -> Tensor:
    return sum(losses[1:], losses[0])


def _entropy(logits: Tensor) -> Tensor:
    return functional.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.int64))


class Bert(nn.Module):
    """The encoder with the heads of a task; words [batch, length] to losses."""

    def __init__(self, encoder: nn.Module, width: int, words: int, masked: int) -> None:
        super().__init__()
        self.encoder, self.masked = encoder, masked
        if masked:
            self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
            self.decoder, self.next = nn.Linear(width, words), nn.Linear(width, 2)
        else:
            self.spans = nn.Linear(width, 2)

    def forward(self, words: Tensor) -> tuple[Tensor, ...]:
        """Losses of masked words and next sentences, or of a span's start and end."""
        output = self.encoder(words, attention_mask=torch.ones_like(words))
        hidden = output.last_hidden_state
        if not self.masked:
            start, end = self.spans(hidden).split(1, dim=-1)
            return _entropy(start.squeeze(-1)), _entropy(end.squeeze(-1))
        rows = torch.zeros(self.masked, dtype=torch.int64)
        chosen = torch.index_select(hidden.reshape(-1, hidden.shape[-1]), 0, rows)
        logits = self.decoder(self.norm(functional.gelu(self.dense(chosen))))
        return _entropy(logits.float()), _entropy(self.next(output.pooler_output).float())


def build_bart(task: str, shape: ProgramShape) -> Program:
    """'pretrain' (option 'sequence_length', of source and target) or 'xsum'."""
    import_lightly()
    from transformers import BartConfig, BartForConditionalGeneration

    source, target = _XSUM_LENGTHS
    if task == "pretrain":
        source = target = int(shape.option("sequence_length"))
    module = BartForConditionalGeneration(
        BartConfig(attn_implementation="eager", vocab_size=_BART_VOCABULARY)
    )
    batch = shape.batch_size
    inputs: dict[str, Any] = {
        "input_ids": torch.zeros(batch, source, dtype=torch.int64),
        "attention_mask": torch.ones(batch, source, dtype=torch.int64),
        "decoder_input_ids": torch.zeros(batch, target, dtype=torch.int64),
        "use_cache": False,
    }
    return Program(module, (), inputs, _bart_loss, batch, source)


def _bart_loss(output: Any) -> Tensor:
    return _entropy(output.logits.view(-1, output.logits.shape[-1]).float())


@dataclass(frozen=True)
class _Big:
    words: int = 33_712
    width: int = 1024
    heads: int = 16
    inner: int = 4096
    layers: int = 6


def build_transformer(shape: ProgramShape) -> Program:
    """The big Transformer (Vaswani et al.: arXiv 1706.03762) on batches of so many tokens."""
    sentences = max(1, shape.batch_size // _SENTENCE)
    words = torch.zeros(sentences, _SENTENCE, dtype=torch.int64)
    loss: Callable[[Tensor], Tensor] = _smoothed
    return Program(
        Translator(_Big()), (words, words.clone()), loss_function=loss, batch_size=shape.batch_size
    )


def _smoothed(logits: Tensor) -> Tensor:
    rows = functional.log_softmax(logits.view(-1, logits.shape[-1]), dim=-1, dtype=torch.float32)
    targets = torch.zeros(rows.shape[0], 1, dtype=torch.int64)
    return -0.9 * rows.gather(1, targets).sum() - 0.1 * rows.sum()


class Heads(nn.Module):
    """Attention with its matrix of scores."""

    def __init__(self, size: _Big) -> None:
        super().__init__()
        self.heads, width = size.heads, size.width
        self.q, self.kv, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, memory: Tensor, is_causal: bool) -> Tensor:
        """x, memory [batch, length, width]."""
        batch, length, width = x.shape
        split = (batch, -1, self.heads, width // self.heads)
        k, v = self.kv(memory).chunk(2, dim=-1)
        q, k, v = (part.reshape(split).transpose(1, 2) for part in (self.q(x), k, v))
        scores = torch.matmul(q * split[-1] ** -0.5, k.transpose(-2, -1))
        if is_causal:
            scores = scores + torch.triu(torch.full((length, length), float("-inf"), dtype=scores.dtype), 1)
        weights = self.dropout(functional.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype))
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, width))  # type: ignore[no-any-return]


class TranslatorLayer(nn.Module):
    """Attention, attention to the source in the decoder, and the feed-forward net; norms behind."""

    def __init__(self, size: _Big, is_decoder: bool) -> None:
        super().__init__()
        self.own, self.other = Heads(size), Heads(size) if is_decoder else None
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in range(3 if is_decoder else 2))
        self.first, self.second = nn.Linear(size.width, size.inner), nn.Linear(size.inner, size.width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, source: Tensor | None = None) -> Tensor:
        """[batch, length, width]."""
        x = self.norms[0](x + self.dropout(self.own(x, x, self.other is not None)))
        if self.other is not None and source is not None:
            x = self.norms[1](x + self.dropout(self.other(x, source, False)))
        y = self.second(functional.relu(self.first(x)))
        return self.norms[-1](x + self.dropout(y))  # type: ignore[no-any-return]


class Translator(nn.Module):
    """Source and target words [batch, length] to logits; one matrix embeds and predicts."""

    def __init__(self, size: _Big) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.words, size.width)
        self.encoder = nn.ModuleList(TranslatorLayer(size, False) for _ in range(size.layers))
        self.decoder = nn.ModuleList(TranslatorLayer(size, True) for _ in range(size.layers))
        self.places: Tensor
        self.register_buffer("places", torch.zeros(_SENTENCE, size.width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits [batch, length, words]."""
        x = self.dropout(self.embedding(source) * 32 + self.places)
        for layer in self.encoder:
            x = layer(x)
        y = self.dropout(self.embedding(target) * 32 + self.places)
        for layer in self.decoder:
            y = layer(y, x)
        return functional.linear(y, self.embedding.weight)
