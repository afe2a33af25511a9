"""Linear layers with low-rank adapters, and with weights in four bits, as PEFT and bitsandbytes run them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

#: Weights that share a scale, and scales that share one (bitsandbytes: functional.py, quantize_4bit).
_BLOCK, _SCALES = 64, 256


class AdaptedLinear(nn.Module):
    """base(x) + B(A(dropout(x))) · scale (huggingface/peft: tuners/lora/layer.py, Linear.forward).

    Args:
        base: A linear layer; its weights are frozen by the caller.
        inputs, outputs: Features of the layer.
        dtype: Of the adapter's weights (huggingface/peft keeps them in fp32: autocast_adapter_dtype).
        clones: Whether the base's output is copied first (huggingface/peft: tuners/lora/bnb.py, Linear4bit).
    """

    def __init__(
        self,
        base: nn.Module,
        inputs: int,
        outputs: int,
        *,
        rank: int,
        dropout: float,
        dtype: torch.dtype,
        clones: bool = False,
    ) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.lora_A = nn.Linear(inputs, rank, bias=False, dtype=dtype)
        self.lora_B = nn.Linear(rank, outputs, bias=False, dtype=dtype)
        self.scaling = 2.0
        self._clones = clones

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output and the adapter's."""
        result: Tensor = self.base_layer(x)
        if self._clones:
            result = result.clone()
        low: Tensor = self.lora_B(self.lora_A(self.lora_dropout(x))) * self.scaling
        return result + low


class FourBitLinear(nn.Module):
    """A frozen linear layer whose weight is kept in NF4 with double quantisation.

    Args:
        base: The layer that it stands for, with inputs and outputs.
        dtype: Of its products.
    """

    def __init__(self, base: nn.Module, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        count = inputs * outputs
        self.in_features, self.out_features = inputs, outputs
        self._dtype = dtype
        blocks = -(-count // _BLOCK)
        self.packed = _kept(-(-count // 2), torch.uint8)
        self.scales = _kept(blocks, torch.uint8)
        self.scale_scales = _kept(-(-blocks // _SCALES), torch.float32)
        self.bias = getattr(base, "bias", None)
        #: Weights beyond the elements that keep them, for those who count parameters.
        self.num_hidden_weights = count - sum(
            p.numel() for p in (self.packed, self.scales, self.scale_scales)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The product with the widened weight, which lives no longer than that."""
        made: Tensor = _Product.apply(x.to(self._dtype), self)  # type: ignore[no-untyped-call]
        return made if self.bias is None else made + self.bias.to(made.dtype)

    def widened(self) -> Tensor:
        """The weight as products read it."""
        shape = [self.out_features, self.in_features]
        weight: Tensor = torch.ops.perfcast.dequantise_nf4(
            self.packed, self.scales, self.scale_scales, shape, self._dtype
        )
        return weight


def _kept(size: int, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.zeros(size, dtype=dtype), requires_grad=False)


class _Product(torch.autograd.Function):
    """Widens in the forward, and again for the input's gradient (bitsandbytes: autograd/_functions.py)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: FourBitLinear) -> Tensor:
        ctx.layer = layer
        return functional.linear(x, layer.widened())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return torch.matmul(gradient, ctx.layer.widened()), None


@torch.library.custom_op("perfcast::dequantise_nf4", mutates_args=())
def dequantise_nf4(
    packed: Tensor, scales: Tensor, scale_scales: Tensor, shape: list[int], dtype: torch.dtype
) -> Tensor:
    """Weights in four bits as wide ones: sixteen values evenly spread stand for NF4's, times their scales."""
    codes = torch.stack((packed >> 4, packed & 15), dim=1).flatten().float() / 7.5 - 1
    wide = scales.float() * scale_scales.repeat_interleave(_SCALES)[: len(scales)]
    count = shape[0] * shape[1]
    return (codes[:count] * wide.repeat_interleave(_BLOCK)[:count]).to(dtype).view(shape)


@dequantise_nf4.register_fake
def _(packed: Tensor, scales: Tensor, scale_scales: Tensor, shape: list[int], dtype: torch.dtype) -> Tensor:
    return packed.new_empty(shape, dtype=dtype)
