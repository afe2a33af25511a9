"""ResNet-50, ResNeXt-101-32x4d and SE-ResNeXt-101-32x4d as PyTorch/Classification/ConvNets builds them.

The stride of a bottleneck sits in its 3×3 convolution (v1.5); squeeze-and-excite is added to the residual by
one ``addcmul`` (image_classification/models/resnet.py). ``trunk`` is the backbone of SSD300 too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from perfcast.evidence.validate.vision.examples.programs.efficientnet import SqueezeExcitation
from perfcast.evidence.validate.vision.examples.programs.shape import (
    CrossEntropy,
    ProgramShape,
    image_program,
)
from perfcast.workload.step import Program

#: Layers, widths of the first stage's bottleneck, groups, squeeze-and-excite.
_KINDS = {
    "resnet50": ((3, 4, 6, 3), 64, 1, False),
    "resnext101-32x4d": ((3, 4, 23, 3), 128, 32, False),
    "se-resnext101-32x4d": ((3, 4, 23, 3), 128, 32, True),
}


def build_resnet(kind: str, shape: ProgramShape) -> Program:
    """Classification of ImageNet at 224 × 224; training with label smoothing."""
    layers, width, groups, squeezes = _KINDS[kind]
    module = ResNet(layers, width, groups, squeezes)
    return image_program(module, torch.randn(shape.batch_size, 3, 224, 224), CrossEntropy(0.1), shape)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 and the residual."""

    def __init__(
        self, inputs: int, width: int, outputs: int, stride: int, groups: int = 1, squeezes: bool = False
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.squeeze = SqueezeExcitation(outputs, 16, self.relu) if squeezes else None
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """[batch, inputs, h, w] to [batch, outputs, h / stride, w / stride]."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        rest = x if self.downsample is None else self.downsample(x)
        if self.squeeze is not None:
            return self.relu(torch.addcmul(rest, y, self.squeeze.gate(y)))  # type: ignore[no-any-return]
        y += rest
        return self.relu(y)  # type: ignore[no-any-return]


def trunk(
    layers: Sequence[int], width: int, groups: int = 1, squeezes: bool = False, last_stride: int = 2
) -> list[nn.Module]:
    """Stem and stages; a stage's outputs are 256, 512, … channels.

    Args:
        last_stride: Of the last stage.
    """
    modules: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for stage, count in enumerate(layers):
        outputs = 256 * 2**stage
        stride = 1 if stage == 0 else last_stride if stage == len(layers) - 1 else 2
        blocks = []
        for index in range(count):
            step = stride if index == 0 else 1
            blocks.append(Bottleneck(channels, width * 2**stage, outputs, step, groups, squeezes))
            channels = outputs
        modules.append(nn.Sequential(*blocks))
    return modules


class ResNet(nn.Module):
    """Images to logits [batch, 1000]."""

    def __init__(self, layers: Sequence[int], width: int, groups: int, squeezes: bool) -> None:
        super().__init__()
        self.trunk = nn.Sequential(*trunk(layers, width, groups, squeezes))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.fc(self.pool(self.trunk(x)).flatten(1))  # type: ignore[no-any-return]
