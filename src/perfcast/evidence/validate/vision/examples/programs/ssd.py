"""SSD300 v1.1 with ResNet-50 up to its fourth stage, as PyTorch/Detection/SSD builds it (ssd/model.py).

The fourth stage keeps 38 × 38; five blocks and six pairs of heads follow; training mines three negatives for
each positive among 8,732 boxes. The sorts of that loss stand as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.resnet import trunk
from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape, image_program
from perfcast.workload.step import Program

_WIDTHS = (1024, 512, 512, 256, 256, 256)
_INNER = (256, 256, 128, 128, 128)
_BOXES = (4, 6, 6, 6, 4, 4)
_LABELS, _NUM_BOXES = 81, 8732


def build_ssd(shape: ProgramShape) -> Program:
    """Detection at 300 × 300."""
    return image_program(SSD300(), torch.randn(shape.batch_size, 3, 300, 300), _loss, shape)


def _block(inputs: int, inner: int, outputs: int, halves: bool) -> nn.Sequential:
    stride, padding = (2, 1) if halves else (1, 0)
    return nn.Sequential(
        nn.Conv2d(inputs, inner, 1, bias=False),
        nn.BatchNorm2d(inner),
        nn.ReLU(inplace=True),
        nn.Conv2d(inner, outputs, 3, stride, padding, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class SSD300(nn.Module):
    """Images [batch, 3, 300, 300] to boxes [batch, 4, 8732] and labels [batch, 81, 8732]."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(*trunk((3, 4, 6), 64, last_stride=1))
        pairs = zip(_WIDTHS, _INNER, _WIDTHS[1:], strict=False)
        self.blocks = nn.ModuleList(_block(a, inner, b, i < 3) for i, (a, inner, b) in enumerate(pairs))
        heads = list(zip(_WIDTHS, _BOXES, strict=True))
        self.places = nn.ModuleList(nn.Conv2d(width, 4 * count, 3, padding=1) for width, count in heads)
        self.labels = nn.ModuleList(nn.Conv2d(width, _LABELS * count, 3, padding=1) for width, count in heads)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes and labels."""
        maps = [self.trunk(x)]
        for block in self.blocks:
            maps.append(block(maps[-1]))
        places = [head(m).reshape(m.shape[0], 4, -1) for head, m in zip(self.places, maps, strict=True)]
        labels = [head(m).reshape(m.shape[0], _LABELS, -1) for head, m in zip(self.labels, maps, strict=True)]
        return torch.cat(places, 2).contiguous(), torch.cat(labels, 2).contiguous()


def _loss(output: tuple[Tensor, Tensor]) -> Tensor:
    places, labels = output[0].float(), output[1].float()
    batch = places.shape[0]
    wanted = torch.zeros(batch, _NUM_BOXES, dtype=torch.int64)
    boxes, truth = torch.zeros(1, 4, _NUM_BOXES), torch.zeros(batch, 4, _NUM_BOXES)
    mask = wanted > 0
    positives = mask.sum(dim=1)
    centres = (truth[:, :2, :] - boxes[:, :2, :]) / boxes[:, 2:, :]
    sizes = (truth[:, 2:, :] / boxes[:, 2:, :]).log()
    distances = functional.smooth_l1_loss(places, torch.cat((centres, sizes), dim=1), reduction="none")
    placed = (mask.float() * distances.sum(dim=1)).sum(dim=1)
    surprise = functional.cross_entropy(labels, wanted, reduction="none")
    negatives = surprise.clone().masked_fill(mask, 0.0)
    _, order = negatives.sort(dim=1, descending=True)
    _, rank = order.sort(dim=1)
    mined = rank < torch.clamp(3 * positives, max=_NUM_BOXES).unsqueeze(-1)
    labelled = (surprise * (mask + mined).float()).sum(dim=1)
    count = positives.float().clamp(min=1e-6)
    return ((placed + labelled) * (positives > 0).float() / count).mean(dim=0)
