"""WaveGlow (arXiv 1811.00002) and HiFi-GAN's generator V1 (arXiv 2010.05646).

As PyTorch/SpeechSynthesis/Tacotron2 (waveglow/model.py) and PyTorch/SpeechSynthesis/FastPitch
(hifigan/models.py) build them. Weight norm is folded for inference; in training it is two further kernels of
each convolution's weight, by PyTorch's own operator.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.workload.step import Program

_MELS, _HOP, _FLOWS, _GROUP, _EARLY_EVERY, _EARLY, _LAYERS = 80, 256, 12, 8, 4, 2, 8
#: Samples of a training segment (platform/*_waveglow_*.sh).
SEGMENT = 8000


def build_waveglow(shape: ProgramShape) -> Program:
    """Training of WaveGlow with 512 channels on segments of audio."""
    mels = torch.randn(shape.batch_size, _MELS, SEGMENT // _HOP + 1)
    audio = torch.randn(shape.batch_size, SEGMENT)
    module = WaveGlow(512, is_training=shape.is_training)
    return Program(module, (mels, audio), loss_function=_loss, batch_size=shape.batch_size)


def _loss(output: tuple[Tensor, list[Tensor], list[Tensor]]) -> Tensor:
    audio, scales, determinants = output
    total = sum(torch.sum(scale) for scale in scales) + sum(determinants)
    return (torch.sum(audio * audio) / 2.0 - total) / audio.numel()


def _conv(inputs: int, outputs: int, kernel: int, dilation: int = 1, normed: bool = False) -> nn.Module:
    padding = (kernel - 1) * dilation // 2
    layer = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding=padding)
    return weight_norm(layer) if normed else layer


class Coupling(nn.Module):
    """WaveNet-like net of one affine coupling."""

    def __init__(self, half: int, channels: int, normed: bool) -> None:
        super().__init__()
        self.channels = channels
        self.start = _conv(half, channels, 1, normed=normed)
        self.end = nn.Conv1d(channels, 2 * half, 1)
        layers = range(_LAYERS)
        self.audio = nn.ModuleList(_conv(channels, 2 * channels, 3, 2**i, normed) for i in layers)
        self.mels = nn.ModuleList(_conv(_MELS * _GROUP, 2 * channels, 1, normed=normed) for _ in layers)
        widths = [2 * channels] * (_LAYERS - 1) + [channels]
        self.skips = nn.ModuleList(_conv(channels, width, 1, normed=normed) for width in widths)

    def forward(self, audio: Tensor, mels: Tensor) -> Tensor:
        """[batch, half, groups], [batch, mels · 8, groups] to [batch, 2 · half, groups]."""
        audio = self.start(audio)
        output = torch.zeros(())
        for index in range(_LAYERS):
            mixed = self.audio[index](audio) + self.mels[index](mels)
            gates = torch.tanh(mixed[:, : self.channels]) * torch.sigmoid(mixed[:, self.channels :])
            both = self.skips[index](gates)
            if index < _LAYERS - 1:
                audio = both[:, : self.channels] + audio
                both = both[:, self.channels :]
            output = both if index == 0 else output + both
        return self.end(output)  # type: ignore[no-any-return]


class WaveGlow(nn.Module):
    """Mel spectrograms [batch, 80, frames] to audio [batch, 256 · frames]; or the flow of given audio."""

    def __init__(self, channels: int, is_training: bool = False) -> None:
        super().__init__()
        self.upsample = nn.ConvTranspose1d(_MELS, _MELS, 1024, stride=_HOP)
        widths = [_GROUP - _EARLY * (flow // _EARLY_EVERY) for flow in range(_FLOWS)]
        mixes = [nn.Conv1d(width, width, 1, bias=False) for width in widths]
        self.mixes = nn.ModuleList(mixes)
        self.couplings = nn.ModuleList(Coupling(width // 2, channels, is_training) for width in widths)
        self.widths = widths

    def forward(self, mels: Tensor, audio: Tensor | None = None) -> object:
        """Audio; or, of given audio, what the loss sums."""
        groups = (audio.shape[1] if audio is not None else _HOP * mels.shape[2]) // _GROUP
        mels = self.upsample(mels)[:, :, : groups * _GROUP]
        mels = mels.unfold(2, _GROUP, _GROUP).permute(0, 2, 1, 3).contiguous()
        mels = mels.view(mels.shape[0], groups, -1).permute(0, 2, 1)
        return self._infer(mels) if audio is None else self._flow(mels, audio)

    def _flow(self, mels: Tensor, audio: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        audio = audio.unfold(1, _GROUP, _GROUP).permute(0, 2, 1)
        early, scales, determinants = [], [], []
        for flow, (mix, coupling) in enumerate(zip(self.mixes, self.couplings, strict=True)):
            if flow and flow % _EARLY_EVERY == 0:
                early.append(audio[:, :_EARLY])
                audio = audio[:, _EARLY:]
            weight = mix.get_parameter("weight").squeeze(-1)
            determinants.append(torch.logdet(weight.float()))
            audio = mix(audio)
            half = audio.shape[1] // 2
            first, second = audio[:, :half], audio[:, half:]
            output = coupling(first, mels)
            scales.append(output[:, half:])
            audio = torch.cat([first, torch.exp(scales[-1]) * second + output[:, :half]], 1)
        return torch.cat([*early, audio], 1), scales, determinants

    def _infer(self, mels: Tensor) -> Tensor:
        audio = torch.randn(mels.shape[0], self.widths[-1], mels.shape[2]).to(mels.dtype)
        for flow in reversed(range(_FLOWS)):
            half = audio.shape[1] // 2
            first, second = audio[:, :half], audio[:, half:]
            output = self.couplings[flow](first, mels)
            second = (second - output[:, :half]) / torch.exp(output[:, half:])
            audio = self.mixes[flow](torch.cat([first, second], 1))
            if flow and flow % _EARLY_EVERY == 0:
                early = torch.randn(mels.shape[0], _EARLY, mels.shape[2]).to(mels.dtype)
                audio = torch.cat((early, audio), 1)
        return audio.permute(0, 2, 1).contiguous().view(audio.shape[0], -1)


class ResidualConvolutions(nn.Module):
    """Pairs of a dilated and a plain convolution, each added to its input."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.dilated = nn.ModuleList(_conv(channels, channels, kernel, dilation) for dilation in (1, 3, 5))
        self.plain = nn.ModuleList(_conv(channels, channels, kernel) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, samples]."""
        for dilated, plain in zip(self.dilated, self.plain, strict=True):
            x = plain(functional.leaky_relu(dilated(functional.leaky_relu(x, 0.1)), 0.1)) + x
        return x


class MeanOf(nn.Module):
    """The mean of what several modules make of one input."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, samples]."""
        total = self.parts[0](x)
        for part in self.parts[1:]:
            total = total + part(x)
        return total / len(self.parts)  # type: ignore[no-any-return]


class HiFiGAN(nn.Module):
    """Mel spectrograms [batch, 80, frames] to audio [batch, 1, 256 · frames]."""

    def __init__(self) -> None:
        super().__init__()
        rates, kernels, width = (8, 8, 2, 2), (16, 16, 4, 4), 512
        self.first = _conv(_MELS, width, 7)
        self.grow, self.mixes = nn.ModuleList(), nn.ModuleList()
        for rate, kernel in zip(rates, kernels, strict=True):
            self.grow.append(nn.ConvTranspose1d(width, width // 2, kernel, rate, (kernel - rate) // 2))
            width //= 2
            self.mixes.append(MeanOf([ResidualConvolutions(width, size) for size in (3, 7, 11)]))
        self.last = _conv(width, 1, 7)

    def forward(self, mels: Tensor) -> Tensor:
        """Audio."""
        x = self.first(mels)
        for grow, mix in zip(self.grow, self.mixes, strict=True):
            x = mix(grow(functional.leaky_relu(x, 0.1)))
        return torch.tanh(self.last(functional.leaky_relu(x)))
