"""EfficientNet (Tan, Le: arXiv 1905.11946) as PyTorch/Classification/ConvNets builds it.

'widese' squeezes the expanded width, not the block's input; both pool by a mean and multiply by two linear
layers (image_classification/models/efficientnet.py, common.py).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from perfcast.evidence.validate.vision.examples.programs.shape import (
    CrossEntropy,
    ProgramShape,
    image_program,
)
from perfcast.workload.step import Program

#: kernel, stride, repeats, expansion, channels of each stage of B0.
_STAGES = (
    (3, 1, 1, 1, 16),
    (3, 2, 2, 6, 24),
    (5, 2, 2, 6, 40),
    (3, 2, 3, 6, 80),
    (5, 1, 3, 6, 112),
    (5, 2, 4, 6, 192),
    (3, 1, 1, 6, 320),
)
#: Width, depth and image size of what is scaled from B0.
_SCALES = {"b0": (1.0, 1.0, 224), "b4": (1.4, 1.8, 380)}


def build_efficientnet(size: str, is_wide: bool, shape: ProgramShape) -> Program:
    """Classification of ImageNet; training with label smoothing."""
    width, depth, image_size = _SCALES[size]
    survives = 0.8 if size == "b4" else 1.0
    module = EfficientNet(width, depth, is_wide, survives)
    images = torch.randn(shape.batch_size, 3, image_size, image_size)
    return image_program(module, images, CrossEntropy(0.1), shape)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)]


class SqueezeExcitation(nn.Module):
    """[batch, channels, h, w] times a gate of each channel, from its mean."""

    def __init__(self, channels: int, squeezed: int, activation: nn.Module) -> None:
        super().__init__()
        self.squeeze, self.expand = nn.Linear(channels, squeezed), nn.Linear(squeezed, channels)
        self.activation = activation

    def gate(self, x: Tensor) -> Tensor:
        """[batch, channels, 1, 1]."""
        hidden = self.activation(self.squeeze(torch.mean(x, [2, 3])))
        return torch.sigmoid(self.expand(hidden)).unsqueeze(2).unsqueeze(3)

    def forward(self, x: Tensor) -> Tensor:
        """The gated input."""
        return self.gate(x) * x


class MBConv(nn.Module):
    """Inverted bottleneck: expand, depthwise, squeeze-and-excite, project, add."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        expansion: int,
        is_wide: bool,
        survives: float,
    ) -> None:
        super().__init__()
        hidden = inputs * expansion
        squeezed = max(1, int((hidden if is_wide else inputs) * 0.25))
        layers = [*_conv(inputs, hidden, 1), nn.SiLU(inplace=True)] if expansion > 1 else []
        layers += [*_conv(hidden, hidden, kernel, stride, hidden), nn.SiLU(inplace=True)]
        self.body = nn.Sequential(
            *layers, SqueezeExcitation(hidden, squeezed, nn.SiLU(inplace=True)), *_conv(hidden, outputs, 1)
        )
        self.adds = stride == 1 and inputs == outputs
        self.survives = survives
        self.mask: Tensor
        self.register_buffer("mask", torch.ones(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, inputs, h, w] to [batch, outputs, h / stride, w / stride]."""
        y = self.body(x)
        if not self.adds:
            return y  # type: ignore[no-any-return]
        if self.survives == 1.0 or not self.training:
            return torch.add(x, y)
        with torch.no_grad():
            mask = nn.functional.dropout(self.mask, 1 - self.survives, training=True)
        return torch.addcmul(x, mask, y)


class EfficientNet(nn.Module):
    """Images to logits [batch, 1000]."""

    def __init__(self, width: float, depth: float, is_wide: bool, survives: float) -> None:
        super().__init__()
        channels = _scaled(32, width)
        layers: list[nn.Module] = [*_conv(3, channels, 3, 2), nn.SiLU(inplace=True)]
        for kernel, stride, repeats, expansion, outputs in _STAGES:
            for index in range(math.ceil(repeats * depth)):
                first = index == 0
                wanted = _scaled(outputs, width)
                layers.append(
                    MBConv(channels, wanted, kernel, stride if first else 1, expansion, is_wide, survives)
                )
                channels = wanted
        features = _scaled(1280, width)
        self.features = nn.Sequential(*layers, *_conv(channels, features, 1), nn.SiLU(inplace=True))
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(features, 1000)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.features(x))  # type: ignore[no-any-return]


def _scaled(channels: int, width: float) -> int:
    """To a multiple of eight, not more than a tenth below."""
    wanted = channels * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded
