"""Temporal Fusion Transformer (Lim et al.: arXiv 1912.09363) as PyTorch/Forecasting/TFT builds it.

A week of hours before, a day after; 128 wide, four heads that share their values; one static category, three
known continuous inputs and one target (configuration.py).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.workload.step import Program

_HIDDEN, _HEADS, _KNOWN, _BEFORE, _AFTER, _QUANTILES = 128, 4, 3, 168, 24, 3
_SERIES = {"electricity": 369, "traffic": 963}


def build_tft(dataset: str, shape: ProgramShape) -> Program:
    """Quantiles of the coming day; training with the quantile loss."""
    length = _BEFORE + _AFTER
    series = torch.zeros(shape.batch_size, 1, dtype=torch.int64)
    known = torch.randn(shape.batch_size, length, _KNOWN)
    target = torch.randn(shape.batch_size, length, 1)
    module = TemporalFusionTransformer(_SERIES[dataset])
    return Program(module, (series, known, target), loss_function=_loss, batch_size=shape.batch_size)


def _loss(predicted: Tensor) -> Tensor:
    errors = torch.zeros_like(predicted[..., :1]) - predicted
    levels = torch.ones(_QUANTILES)
    return torch.max(levels * errors, (levels - 1) * errors).mean()


class Gate(nn.Module):
    """A gated linear unit."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 2 * outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        return functional.glu(self.linear(x))


class GatedResidual(nn.Module):
    """Two linear layers, a gate, the input added, a norm."""

    def __init__(self, inputs: int, outputs: int | None = None, has_context: bool = False) -> None:
        super().__init__()
        self.a, self.i = nn.Linear(inputs, _HIDDEN), nn.Linear(_HIDDEN, _HIDDEN)
        self.context = nn.Linear(_HIDDEN, _HIDDEN, bias=False) if has_context else None
        self.gate = Gate(_HIDDEN, outputs or _HIDDEN)
        self.out = nn.Linear(inputs, outputs) if outputs else None
        self.norm = nn.LayerNorm(outputs or _HIDDEN, eps=1e-3)
        self.dropout = nn.Dropout(0.1)

    def forward(self, a: Tensor, context: Tensor | None = None) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        x = self.a(a)
        if context is not None and self.context is not None:
            x = x + self.context(context).unsqueeze(1)
        x = self.gate(self.dropout(self.i(functional.elu(x))))
        return self.norm(x + (a if self.out is None else self.out(a)))  # type: ignore[no-any-return]


class Selection(nn.Module):
    """Weights of inputs, and their weighted sum."""

    def __init__(self, count: int, has_context: bool) -> None:
        super().__init__()
        self.joint = GatedResidual(_HIDDEN * count, count, has_context)
        self.each = nn.ModuleList(GatedResidual(_HIDDEN) for _ in range(count))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """[..., count, hidden] to [..., hidden]."""
        weights = functional.softmax(self.joint(torch.flatten(x, start_dim=-2), context), dim=-1)
        parts = torch.stack([net(x[..., i, :]) for i, net in enumerate(self.each)], dim=-1)
        return torch.matmul(parts, weights.unsqueeze(-1)).squeeze(-1)


class Attention(nn.Module):
    """Heads with values in common, averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.size = _HIDDEN // _HEADS
        self.qkv = nn.Linear(_HIDDEN, (2 * _HEADS + 1) * self.size, bias=False)
        self.out, self.dropout = nn.Linear(self.size, _HIDDEN, bias=False), nn.Dropout(0.1)
        length = _BEFORE + _AFTER
        self.mask: Tensor
        self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length, hidden]."""
        batch, length, _ = x.shape
        inner = _HEADS * self.size
        q, k, v = self.qkv(x).split((inner, inner, self.size), dim=-1)
        q = q.view(batch, length, _HEADS, self.size).permute(0, 2, 1, 3)
        k = k.view(batch, length, _HEADS, self.size).permute(0, 2, 3, 1)
        scores = torch.matmul(q, k)
        scores.mul_(self.size**-0.5)
        weights = functional.softmax(scores + self.mask, dim=3)
        mixed = torch.matmul(weights, v.view(batch, 1, length, self.size))
        return self.dropout(self.out(torch.mean(mixed, dim=1)))  # type: ignore[no-any-return]


class TemporalFusionTransformer(nn.Module):
    """Series [batch, 1], known [batch, 192, 3] and target [batch, 192, 1] to quantiles [batch, 24, 3]."""

    def __init__(self, series: int) -> None:
        super().__init__()
        self.series = nn.Embedding(series, _HIDDEN)
        self.known = nn.ParameterList((torch.zeros(_KNOWN, _HIDDEN), torch.zeros(_KNOWN, _HIDDEN)))
        self.target = nn.ParameterList((torch.zeros(1, _HIDDEN), torch.zeros(1, _HIDDEN)))
        self.static = Selection(1, False)
        self.contexts = nn.ModuleList(GatedResidual(_HIDDEN) for _ in range(4))
        self.history, self.future = Selection(_KNOWN + 1, True), Selection(_KNOWN, True)
        self.encoder = nn.LSTM(_HIDDEN, _HIDDEN, batch_first=True)
        self.decoder = nn.LSTM(_HIDDEN, _HIDDEN, batch_first=True)
        self.gates = nn.ModuleList(Gate(_HIDDEN, _HIDDEN) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(_HIDDEN, eps=1e-3) for _ in range(3))
        self.enrich, self.attention = GatedResidual(_HIDDEN, has_context=True), Attention()
        self.forward_net = GatedResidual(_HIDDEN)
        self.quantiles = nn.Linear(_HIDDEN, _QUANTILES)

    def forward(self, series: Tensor, known: Tensor, target: Tensor) -> Tensor:
        """Quantiles."""
        static = self.static(torch.stack([self.series(series[:, 0])], dim=-2))
        selects, enriches, hidden, cell = (net(static) for net in self.contexts)
        inputs = known.unsqueeze(-1) * self.known[0] + self.known[1]
        seen = target.unsqueeze(3) * self.target[0] + self.target[1]
        before = torch.cat([inputs[:, :_BEFORE], seen[:, :_BEFORE]], dim=-2)
        history = self.history(before, selects)
        state = (hidden.unsqueeze(0).to(history.dtype), cell.unsqueeze(0).to(history.dtype))
        encoded, state = self.encoder(history, state)
        future = self.future(inputs[:, _BEFORE:], selects)
        decoded, _ = self.decoder(future, state)
        x = self.gates[0](torch.cat([encoded, decoded], dim=1)) + torch.cat([history, future], dim=1)
        x = self.norms[0](x)
        enriched = self.enrich(x, enriches)
        y = self.gates[1](self.attention(enriched)[:, _BEFORE:]) + enriched[:, _BEFORE:]
        y = self.forward_net(self.norms[1](y))
        return self.quantiles(self.norms[2](self.gates[2](y) + x[:, _BEFORE:]))  # type: ignore[no-any-return]
