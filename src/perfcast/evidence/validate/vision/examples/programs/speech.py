"""FastPitch 1.1 (Lancucki: arXiv 2006.06873), as PyTorch/SpeechSynthesis/FastPitch builds it.

Training pads each batch of LJSpeech to its longest: some 870 frames (10.1 s) and 150 phonemes; the alignment
that is searched on the host is left out, its attention is not. Inference is of 128 characters and 8.05 s of
speech.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.evidence.validate.vision.examples.programs.vocoders import HiFiGAN, WaveGlow
from perfcast.workload.step import Program

_MELS, _SYMBOLS, _WIDTH, _HEAD_SIZE, _INNER, _LAYERS = 80, 148, 384, 64, 1536, 6
#: Of a padded training batch of LJSpeech, and of the utterance that inference is timed with.
_TRAINING = (150, 870)
_INFERENCE = (128, 693)


def build_fastpitch(vocoder: str, shape: ProgramShape) -> Program:
    """FastPitch alone ('none'), or followed by 'hifigan' or 'waveglow'."""
    symbols, frames = _TRAINING if shape.is_training else _INFERENCE
    text = torch.zeros(shape.batch_size, symbols, dtype=torch.int64)
    mels = torch.randn(shape.batch_size, _MELS, frames)
    module: nn.Module = FastPitch(frames, shape.is_training)
    if vocoder != "none":
        module = Synthesis(module, HiFiGAN() if vocoder == "hifigan" else WaveGlow(256))
    return Program(module, (text, mels), loss_function=_loss, batch_size=shape.batch_size)


def _loss(output: tuple[Tensor, ...]) -> Tensor:
    mels, target, durations, pitch, energy, alignment = output
    losses = functional.mse_loss(mels, target, reduction="none").mean()
    for predicted in (durations, pitch, energy):
        losses = losses + functional.mse_loss(predicted, torch.zeros_like(predicted), reduction="none").mean()
    return losses + alignment.float().mean()


class Synthesis(nn.Module):
    """Text to mel spectrograms to audio."""

    def __init__(self, acoustic: nn.Module, vocoder: nn.Module) -> None:
        super().__init__()
        self.acoustic, self.vocoder = acoustic, vocoder

    def forward(self, text: Tensor, mels: Tensor) -> Tensor:
        """Audio."""
        return self.vocoder(self.acoustic(text, mels))  # type: ignore[no-any-return]


class FeedForwardBlock(nn.Module):
    """One head of attention, then two convolutions of width three; norms behind."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(_WIDTH, 3 * _HEAD_SIZE)
        self.out = nn.Linear(_HEAD_SIZE, _WIDTH, bias=False)
        self.convolutions = nn.Sequential(
            nn.Conv1d(_WIDTH, _INNER, 3, 1, 1), nn.ReLU(), nn.Conv1d(_INNER, _WIDTH, 3, 1, 1), nn.Dropout(0.1)
        )
        self.dropout, self.attention_dropout = nn.Dropout(0.1), nn.Dropout(0.1)
        self.norm1, self.norm2 = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [batch, length, width], mask [batch, length, 1]."""
        batch, length, _ = x.shape
        q, k, v = (part.reshape(batch, length, _HEAD_SIZE) for part in self.qkv(x).chunk(3, dim=2))
        scores = torch.bmm(q, k.transpose(1, 2))
        scores.mul_(1 / _HEAD_SIZE**0.5)
        scores.masked_fill_(~mask.transpose(1, 2).repeat(1, length, 1), -float("inf"))
        weights = self.attention_dropout(functional.softmax(scores, dim=2))
        y = self.dropout(self.out(torch.bmm(weights, v)))
        y = self.norm1(x + y).to(y.dtype) * mask
        z = self.convolutions(y.transpose(1, 2)).transpose(1, 2)
        return self.norm2(y + z).to(z.dtype) * mask  # type: ignore[no-any-return]


class FeedForwardTransformer(nn.Module):
    """Six blocks on embeddings with sinusoids of their places."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(FeedForwardBlock() for _ in range(_LAYERS))
        self.inverse: Tensor
        self.register_buffer("inverse", 1 / 10_000 ** (torch.arange(0.0, _WIDTH, 2.0) / _WIDTH))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [batch, length, width]."""
        places = torch.arange(x.shape[1]).to(x.dtype)
        angles = torch.matmul(places[:, None], self.inverse[None, :].to(x.dtype))
        x = x + torch.cat([angles.sin(), angles.cos()], dim=1)[None] * mask
        for block in self.blocks:
            x = block(x, mask)
        return x


class Predictor(nn.Module):
    """A number for each symbol: two convolutions with norms, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList((nn.Conv1d(_WIDTH, 256, 3, 1, 1), nn.Conv1d(256, 256, 3, 1, 1)))
        self.norms = nn.ModuleList(nn.LayerNorm(256) for _ in range(2))
        self.dropout, self.fc = nn.Dropout(0.1), nn.Linear(256, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[batch, length, width] to [batch, length, 1]."""
        x = (x * mask).transpose(1, 2)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = functional.relu(convolution(x))
            x = self.dropout(norm(x.transpose(1, 2)).transpose(1, 2).to(x.dtype))
        return self.fc(x.transpose(1, 2)) * mask  # type: ignore[no-any-return]


class Alignment(nn.Module):
    """Attention of frames to symbols by distance, with its convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Sequential(
            nn.Conv1d(_WIDTH, 2 * _WIDTH, 3, 1, 1), nn.ReLU(), nn.Conv1d(2 * _WIDTH, _MELS, 1)
        )
        self.queries = nn.Sequential(
            nn.Conv1d(_MELS, 2 * _MELS, 3, 1, 1),
            nn.ReLU(),
            nn.Conv1d(2 * _MELS, _MELS, 1),
            nn.ReLU(),
            nn.Conv1d(_MELS, _MELS, 1),
        )

    def forward(self, mels: Tensor, text: Tensor) -> Tensor:
        """[batch, mels, frames], [batch, width, symbols] to logarithms [batch, 1, frames, symbols]."""
        queries, keys = self.queries(mels), self.keys(text)
        distances = (queries[:, :, :, None] - keys[:, :, None]) ** 2
        scores = -0.0005 * distances.sum(1, keepdim=True)
        return functional.log_softmax(scores, dim=3)


class FastPitch(nn.Module):
    """Symbols [batch, symbols] to mel spectrograms [batch, mels, frames]."""

    def __init__(self, frames: int, is_training: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_SYMBOLS, _WIDTH, padding_idx=0)
        self.encoder, self.decoder = FeedForwardTransformer(), FeedForwardTransformer()
        self.durations, self.pitch, self.energy = Predictor(), Predictor(), Predictor()
        self.pitch_embedding = nn.Conv1d(1, _WIDTH, 3, 1, 1)
        self.energy_embedding = nn.Conv1d(1, _WIDTH, 3, 1, 1)
        self.alignment = Alignment() if is_training else None
        self.proj = nn.Linear(_WIDTH, _MELS)
        self.frames = frames

    def forward(self, text: Tensor, target: Tensor) -> Tensor | tuple[Tensor, ...]:
        """What the loss compares in training; mel spectrograms else."""
        mask = (text != 0).unsqueeze(2)
        embedded = self.embedding(text)
        encoded = self.encoder(embedded, mask)
        durations = self.durations(encoded, mask)
        pitch, energy = self.pitch(encoded, mask), self.energy(encoded, mask)
        encoded = encoded + self.pitch_embedding(pitch.transpose(1, 2)).transpose(1, 2)
        encoded = encoded + self.energy_embedding(energy.transpose(1, 2)).transpose(1, 2)
        ends = torch.cumsum(torch.exp(durations), dim=1)
        at = torch.arange(self.frames)[None, :, None].to(ends.dtype)
        repeats = (ends.transpose(1, 2) > at).to(encoded.dtype)
        frames_mask = torch.ones(text.shape[0], self.frames, 1, dtype=torch.bool)
        mels = self.proj(self.decoder(torch.matmul(repeats, encoded), frames_mask))
        if self.alignment is None:
            return mels.transpose(1, 2)  # type: ignore[no-any-return]
        aligned = self.alignment(target, embedded.transpose(1, 2))
        return mels, target.transpose(1, 2), durations, pitch, energy, aligned
