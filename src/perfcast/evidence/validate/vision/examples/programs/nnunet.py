"""nnU-Net (Isensee et al.: arXiv 1809.10486) as PyTorch/Segmentation/nnUNet builds it: MONAI's DynUNet.

Task 01 (brain tumours): four modalities, four classes, patches of 192 × 160 or 128³, five halvings, no deep
supervision (nnunet/nn_unet.py, data_preprocessing/configs.py, utils/args.py; monai/networks/nets/dynunet.py).
The benchmark's 3-D runs in mixed precision keep channels last with an instance norm of their own, which reads
and writes that layout; it is a norm of the batch here, which takes as many passes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape, image_program
from perfcast.workload.step import Program

_PATCHES = {2: (192, 160), 3: (128, 128, 128)}
_MOST_FILTERS = {2: 512, 3: 320}
_MODALITIES, _CLASSES, _LEVELS = 4, 4, 6


def build_nnunet(dims: int, shape: ProgramShape) -> Program:
    """Segmentation of patches; training with Dice and cross-entropy."""
    module = UNet(dims, shape.channels_last)
    images = torch.randn(shape.batch_size, _MODALITIES, *_PATCHES[dims])
    return image_program(module, images, _dice_and_cross_entropy, shape)


def _dice_and_cross_entropy(logits: Tensor) -> Tensor:
    """monai.losses.DiceCELoss of the whole batch, background left out."""
    target = torch.zeros(logits.shape[0], *logits.shape[2:], dtype=torch.int64)
    dims = tuple(range(2, logits.ndim))
    one_hot = functional.one_hot(target, _CLASSES).movedim(-1, 1).to(logits.dtype)[:, 1:]
    chances = torch.softmax(logits, 1)[:, 1:]
    both = torch.sum(one_hot * chances, dim=(0, *dims))
    every = torch.sum(one_hot, dim=(0, *dims)) + torch.sum(chances, dim=(0, *dims))
    dice = (1.0 - (2.0 * both + 1e-5) / (every + 1e-5)).mean()
    return dice + functional.cross_entropy(logits, target)


def _block(dims: int, inputs: int, outputs: int, stride: int, keeps_layout: bool) -> nn.Sequential:
    convolution = nn.Conv2d if dims == 2 else nn.Conv3d
    layers: list[nn.Module] = []
    for channels, step in ((inputs, stride), (outputs, 1)):
        layers += [
            convolution(channels, outputs, 3, step, 1, bias=False),
            _norm(dims, outputs, keeps_layout),
            nn.LeakyReLU(0.01),
        ]
    return nn.Sequential(*layers)


def _norm(dims: int, channels: int, keeps_layout: bool) -> nn.Module:
    if keeps_layout:
        return (nn.BatchNorm2d if dims == 2 else nn.BatchNorm3d)(channels, track_running_stats=False)
    return (nn.InstanceNorm2d if dims == 2 else nn.InstanceNorm3d)(channels, affine=True)


class UNet(nn.Module):
    """Images [batch, 4, *sizes] to logits [batch, classes, *sizes]."""

    def __init__(self, dims: int, keeps_layout: bool) -> None:
        super().__init__()
        widths = [min(32 * 2**level, _MOST_FILTERS[dims]) for level in range(_LEVELS)]
        inputs = [_MODALITIES, *widths[:-1]]
        self.down = nn.ModuleList(
            _block(dims, before, width, 1 if level == 0 else 2, keeps_layout)
            for level, (before, width) in enumerate(zip(inputs, widths, strict=True))
        )
        transposed = nn.ConvTranspose2d if dims == 2 else nn.ConvTranspose3d
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.grow = nn.ModuleList(transposed(deep, width, 2, 2) for deep, width in pairs)
        self.up = nn.ModuleList(_block(dims, 2 * width, width, 1, keeps_layout) for _, width in pairs)
        self.head = (nn.Conv2d if dims == 2 else nn.Conv3d)(widths[0], _CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
        for grow, block, skip in zip(self.grow, self.up, reversed(kept[:-1]), strict=True):
            x = block(torch.cat((grow(x), skip), dim=1))
        return self.head(x)  # type: ignore[no-any-return]
