"""Tacotron 2 (Shen et al.: arXiv 1712.05884) followed by WaveGlow, as SpeechSynthesis/Tacotron2 infers.

Sizes are those of tacotron2/arg_parser.py. The decoder makes one frame after the other until it says that it
is done; the benchmark's text of 128 characters takes some seven seconds of speech, 602 frames.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.evidence.validate.vision.examples.programs.speech import Synthesis
from perfcast.evidence.validate.vision.examples.programs.vocoders import WaveGlow
from perfcast.workload.step import Program

_MELS, _SYMBOLS, _WIDTH, _HIDDEN, _PRENET, _ATTENTION, _FILTERS = 80, 148, 512, 1024, 256, 128, 32
FRAMES = 602


def build_tacotron2(shape: ProgramShape) -> Program:
    """Text to speech. Options 'sequence_length': characters; 'wn channels': of WaveGlow."""
    characters = int(shape.option("sequence_length"))
    text = torch.zeros(shape.batch_size, characters, dtype=torch.int64)
    module = Synthesis(Tacotron2(), WaveGlow(int(shape.option("wn channels"))))
    return Program(module, (text, text), batch_size=shape.batch_size, sequence_length=characters)


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(inputs, outputs, 5, padding=2), nn.BatchNorm1d(outputs))


class Tacotron2(nn.Module):
    """Symbols [batch, characters] to mel spectrograms [batch, 80, frames]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_SYMBOLS, _WIDTH)
        self.convolutions = nn.ModuleList(_block(_WIDTH, _WIDTH) for _ in range(3))
        self.encoder = nn.LSTM(_WIDTH, _WIDTH // 2, batch_first=True, bidirectional=True)
        self.decoder = Decoder()
        widths = [_MELS, *[_WIDTH] * 4, _MELS]
        self.postnet = nn.ModuleList(_block(a, b) for a, b in pairwise(widths))

    def forward(self, text: Tensor, _: Tensor) -> Tensor:
        """Mel spectrograms."""
        x = self.embedding(text).transpose(1, 2)
        for block in self.convolutions:
            x = functional.relu(block(x))
        memory, _state = self.encoder(x.transpose(1, 2))
        mels = self.decoder(memory)
        x = mels
        for block in self.postnet[:-1]:
            x = torch.tanh(block(x))
        return mels + self.postnet[-1](x)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """One frame after the other: prenet, attention by place, two cells, a frame and whether it is last."""

    def __init__(self) -> None:
        super().__init__()
        self.prenet = nn.ModuleList(
            (nn.Linear(_MELS, _PRENET, bias=False), nn.Linear(_PRENET, _PRENET, bias=False))
        )
        self.attention_cell = nn.LSTMCell(_PRENET + _WIDTH, _HIDDEN)
        self.decoder_cell = nn.LSTMCell(_HIDDEN + _WIDTH, _HIDDEN)
        self.query = nn.Linear(_HIDDEN, _ATTENTION, bias=False)
        self.memory = nn.Linear(_WIDTH, _ATTENTION, bias=False)
        self.places = nn.Conv1d(2, _FILTERS, 31, padding=15, bias=False)
        self.of_places = nn.Linear(_FILTERS, _ATTENTION, bias=False)
        self.energy = nn.Linear(_ATTENTION, 1, bias=False)
        self.frame, self.gate = nn.Linear(_HIDDEN + _WIDTH, _MELS), nn.Linear(_HIDDEN + _WIDTH, 1)

    def forward(self, memory: Tensor) -> Tensor:
        """[batch, characters, width] to [batch, 80, frames]."""
        batch, characters, _ = memory.shape
        keys = self.memory(memory)
        mask = torch.zeros(batch, characters, dtype=torch.bool)
        frame, context = memory.new_zeros(batch, _MELS), memory.new_zeros(batch, _WIDTH)
        first = second = (memory.new_zeros(batch, _HIDDEN), memory.new_zeros(batch, _HIDDEN))
        weights = total = memory.new_zeros(batch, characters)
        frames: list[Tensor] = []
        for _step in range(FRAMES):
            x = frame
            for layer in self.prenet:
                x = functional.dropout(functional.relu(layer(x)), 0.5, training=True)
            first = self.attention_cell(torch.cat((x, context), -1), first)
            seen = self.places(torch.cat((weights.unsqueeze(1), total.unsqueeze(1)), 1)).transpose(1, 2)
            energies = self.energy(
                torch.tanh(self.query(first[0].unsqueeze(1)) + self.of_places(seen) + keys)
            )
            weights = functional.softmax(energies.squeeze(2).masked_fill(mask, -float("inf")), dim=1)
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            total = total + weights
            second = self.decoder_cell(torch.cat((first[0], context), -1), second)
            joined = torch.cat((second[0], context), dim=1)
            frame = self.frame(joined)
            self._is_last(joined)
            frames.append(frame)
        return torch.stack(frames, 2)

    def _is_last(self, joined: Tensor) -> Tensor:
        """Which of the batch go on; the program looks at it after every frame."""
        return torch.sigmoid(self.gate(joined)).le(0.5).to(torch.int32)
