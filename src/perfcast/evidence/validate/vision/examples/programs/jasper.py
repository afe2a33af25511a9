"""Jasper 10x5 dense residual (Li et al.: arXiv 1904.03288) as PyTorch/SpeechRecognition/Jasper builds it.

Sizes are those of configs/jasper10x5dr_speedp-online_speca.yaml: 64 filterbanks every 10 ms, masks before
each convolution, every block adding 1×1 projections of all blocks before it. Audio is padded to the longest
of its
batch: in training that is taken as the longest that is kept, 16.7 s.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.workload.step import Program

#: filters, kernel, repeats, stride, dilation, dropout, dense residual.
_BLOCKS = (
    (256, 11, 1, 2, 1, 0.2, False),
    *((256, 11, 5, 1, 1, 0.2, True),) * 2,
    *((384, 13, 5, 1, 1, 0.2, True),) * 2,
    *((512, 17, 5, 1, 1, 0.2, True),) * 2,
    *((640, 21, 5, 1, 1, 0.3, True),) * 2,
    *((768, 25, 5, 1, 1, 0.3, True),) * 2,
    (896, 29, 1, 1, 2, 0.4, False),
    (1024, 1, 1, 1, 1, 0.4, False),
)
_FILTERBANKS, _SYMBOLS, _FRAMES_PER_SECOND, _ALIGNMENT = 64, 29, 100, 16
_SYMBOLS_PER_SECOND = 15  # of read English


def build_jasper(shape: ProgramShape) -> Program:
    """Acoustic model; training with the CTC loss. Option 'seconds': of audio."""
    frames = int(shape.option("seconds") * _FRAMES_PER_SECOND)
    frames = -(-frames // _ALIGNMENT) * _ALIGNMENT
    features = torch.randn(shape.batch_size, _FILTERBANKS, frames)
    lengths = torch.full((shape.batch_size,), frames)
    loss = CtcLoss(int(_SYMBOLS_PER_SECOND * shape.option("seconds")))
    return Program(Jasper(), (features, lengths), loss_function=loss, batch_size=shape.batch_size)


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
    """Frames beyond an utterance's end are zero before the convolution."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(
            inputs, outputs, kernel, stride, kernel // 2 * dilation, dilation, bias=False
        )
        self.norm = nn.BatchNorm1d(outputs, eps=1e-3)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, inputs, frames] and lengths [batch] to the same after the stride."""
        frames = torch.arange(x.shape[2], dtype=lengths.dtype).expand(lengths.shape[0], x.shape[2])
        x = x.masked_fill((frames >= lengths.unsqueeze(1)).unsqueeze(1), 0)
        stride = self.convolution.stride[0]
        after = lengths if stride == 1 else torch.floor((lengths - 1) / stride).long() + 1
        return self.norm(self.convolution(x)), after


class JasperBlock(nn.Module):
    """Repeats of convolution, norm, ReLU and dropout, and a sum of projections of earlier blocks."""

    def __init__(
        self,
        inputs: int,
        filters: int,
        kernel: int,
        repeats: int,
        stride: int,
        dilation: int,
        dropout: float,
        earlier: tuple[int, ...],
    ) -> None:
        super().__init__()
        widths = [inputs, *[filters] * (repeats - 1)]
        self.convolutions = nn.ModuleList(
            MaskedConvolution(width, filters, kernel, stride, dilation) for width in widths
        )
        self.projections = nn.ModuleList(MaskedConvolution(width, filters, 1, 1, 1) for width in earlier)
        self.activation, self.dropout = nn.ReLU(), nn.Dropout(dropout)

    def forward(self, outputs: list[Tensor], lengths: Tensor) -> tuple[Tensor, Tensor]:
        """What all dense blocks before gave, and its lengths, to this block's own."""
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

    def __init__(self) -> None:
        super().__init__()
        blocks, width = [], _FILTERBANKS
        panes: tuple[int, ...] = ()
        for filters, kernel, repeats, stride, dilation, dropout, is_dense in _BLOCKS:
            panes = (*panes, width) if is_dense else panes
            earlier = panes if is_dense else ()
            blocks.append(JasperBlock(width, filters, kernel, repeats, stride, dilation, dropout, earlier))
            width = filters
        self.blocks = nn.ModuleList(blocks)
        self.decoder = nn.Conv1d(width, _SYMBOLS, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Log-probabilities."""
        outputs = [x]
        for block in self.blocks:
            y, lengths = block(outputs, lengths)
            outputs = [*outputs, y] if block.projections else [y]
        return functional.log_softmax(self.decoder(outputs[-1]).transpose(1, 2), dim=2)
