"""Jasper 10x5 (Li et al.: arXiv 1904.03288) and QuartzNet 15x5 (Kriman et al.: arXiv 1910.10261).

As PyTorch/SpeechRecognition/Jasper and QuartzNet build them, in the sizes of their configs/: 64 filterbanks
every 10 ms and masks before each convolution. Jasper's blocks add 1×1 projections of all blocks before them,
QuartzNet's one of their input, and its convolutions are depthwise and then 1×1. Audio is padded to the
longest of its
batch: in training that is taken as the longest that is kept, 16.7 s.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.workload.step import Program

#: filters, kernel, repeats, stride, dilation, dropout, residual.
_JASPER = (
    (256, 11, 1, 2, 1, 0.2, False),
    *((256, 11, 5, 1, 1, 0.2, True),) * 2,
    *((384, 13, 5, 1, 1, 0.2, True),) * 2,
    *((512, 17, 5, 1, 1, 0.2, True),) * 2,
    *((640, 21, 5, 1, 1, 0.3, True),) * 2,
    *((768, 25, 5, 1, 1, 0.3, True),) * 2,
    (896, 29, 1, 1, 2, 0.4, False),
    (1024, 1, 1, 1, 1, 0.4, False),
)
_QUARTZNET = (
    (256, 33, 1, 2, 1, 0.0, False),
    *((256, 33, 5, 1, 1, 0.0, True),) * 3,
    *((256, 39, 5, 1, 1, 0.0, True),) * 3,
    *((512, 51, 5, 1, 1, 0.0, True),) * 3,
    *((512, 63, 5, 1, 1, 0.0, True),) * 3,
    *((512, 75, 5, 1, 1, 0.0, True),) * 3,
    (512, 87, 1, 1, 2, 0.0, False),
    (1024, 1, 1, 1, 1, 0.0, False),
)
_FILTERBANKS, _SYMBOLS, _FRAMES_PER_SECOND, _ALIGNMENT = 64, 29, 100, 16
_SYMBOLS_PER_SECOND = 15  # of read English


def build_jasper(is_separable: bool, shape: ProgramShape) -> Program:
    """Acoustic model; training with the CTC loss. Option 'seconds': of audio."""
    frames = int(shape.option("seconds") * _FRAMES_PER_SECOND)
    frames = -(-frames // _ALIGNMENT) * _ALIGNMENT
    features = torch.randn(shape.batch_size, _FILTERBANKS, frames)
    lengths = torch.full((shape.batch_size,), frames)
    loss = CtcLoss(int(_SYMBOLS_PER_SECOND * shape.option("seconds")))
    return Program(Jasper(is_separable), (features, lengths), loss_function=loss, batch_size=shape.batch_size)


class CtcLoss:
    """What the loss reads and writes: the chances of 2 · symbols + 1 states at every frame.

    PyTorch's own operator knows no symbolic tensors; its recursion over frames is left out.
    """

    def __init__(self, symbols: int) -> None:
        self._states = 2 * symbols + 1

    def __call__(self, log_probabilities: Tensor) -> Tensor:
        """Log-probabilities [batch, frames, symbols]."""
        batch, frames, _ = log_probabilities.shape
        states = torch.zeros(batch, frames, self._states, dtype=torch.int64)
        return -log_probabilities.float().gather(2, states).sum(2).mean()


class MaskedConvolution(nn.Module):
    """Frames beyond an utterance's end are zero before the convolution, or before both of a separable one."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, dilation: int, is_separable: bool
    ) -> None:
        super().__init__()
        padding, depthwise = kernel // 2 * dilation, is_separable and kernel > 1
        groups, width = (inputs, inputs) if depthwise else (1, outputs)
        first = nn.Conv1d(inputs, width, kernel, stride, padding, dilation, groups, bias=False)
        self.convolutions = nn.ModuleList([first])
        if depthwise:
            self.convolutions.append(nn.Conv1d(inputs, outputs, 1, bias=False))
        self.stride = stride
        self.norm = nn.BatchNorm1d(outputs, eps=1e-3)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, inputs, frames] and lengths [batch] to the same after the stride."""
        for index, convolution in enumerate(self.convolutions):
            frames = torch.arange(x.shape[2], dtype=lengths.dtype).expand(lengths.shape[0], x.shape[2])
            x = x.masked_fill((frames >= lengths.unsqueeze(1)).unsqueeze(1), 0)
            if index == 0 and self.stride > 1:
                lengths = torch.floor((lengths - 1) / self.stride).long() + 1
            x = convolution(x)
        return self.norm(x), lengths


class Block(nn.Module):
    """Repeats of convolution, norm, ReLU and dropout, and a sum of projections of earlier blocks."""

    def __init__(
        self,
        inputs: int,
        size: tuple[int, int, int, int, int, float, bool],
        earlier: tuple[int, ...],
        is_separable: bool,
    ) -> None:
        super().__init__()
        filters, kernel, repeats, stride, dilation, dropout, _ = size
        widths = [inputs, *[filters] * (repeats - 1)]
        self.convolutions = nn.ModuleList(
            MaskedConvolution(width, filters, kernel, stride, dilation, is_separable) for width in widths
        )
        self.projections = nn.ModuleList(MaskedConvolution(w, filters, 1, 1, 1, False) for w in earlier)
        self.activation, self.dropout = nn.ReLU(), nn.Dropout(dropout)

    def forward(self, outputs: list[Tensor], lengths: Tensor) -> tuple[Tensor, Tensor]:
        """What the blocks before gave, and its lengths, to this block's own."""
        x, after = outputs[-1], lengths
        for index, convolution in enumerate(self.convolutions):
            if index:
                x = self.dropout(self.activation(x))
            x, after = convolution(x, after)
        for projection, earlier in zip(self.projections, outputs, strict=False):
            x = x + projection(earlier, lengths)[0]
        return self.dropout(self.activation(x)), after


class Jasper(nn.Module):
    """Features [batch, 64, frames] to log-probabilities [batch, frames / 2, symbols]."""

    def __init__(self, is_separable: bool) -> None:
        super().__init__()
        blocks, width = [], _FILTERBANKS
        panes: tuple[int, ...] = ()
        self.is_dense = not is_separable
        for size in _QUARTZNET if is_separable else _JASPER:
            has_residual = size[-1]
            if has_residual:
                panes = (*panes, width) if self.is_dense else (width,)
            blocks.append(Block(width, size, panes if has_residual else (), is_separable))
            width = size[0]
        self.blocks = nn.ModuleList(blocks)
        self.decoder = nn.Conv1d(width, _SYMBOLS, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Log-probabilities."""
        outputs = [x]
        for block in self.blocks:
            y, lengths = block(outputs, lengths)
            outputs = [*outputs, y] if self.is_dense and block.projections else [y]
        return functional.log_softmax(self.decoder(outputs[-1]).transpose(1, 2), dim=2)
