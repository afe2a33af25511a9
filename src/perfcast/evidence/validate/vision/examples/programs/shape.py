"""What is asked of a program, and losses that several share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.workload.step import LossFunction, Program


@dataclass(frozen=True)
class ProgramShape:
    """One micro-batch of one device.

    Attributes:
        batch_size: In the units of the table's batch column: images, sequences, or tokens.
        options: Further sizes that the table or the scripts state, by name.
    """

    batch_size: int
    is_training: bool
    channels_last: bool = False
    options: Mapping[str, float] = field(default_factory=dict)

    def option(self, name: str) -> float:
        """A size that the program cannot do without.

        Raises:
            KeyError: It is not stated.
        """
        return self.options[name]


@dataclass(frozen=True)
class CrossEntropy:
    """Against class 0 in every row; logits [..., classes]."""

    label_smoothing: float = 0.0

    def __call__(self, logits: Tensor) -> Tensor:
        """Mean over all rows."""
        rows = logits.flatten(0, -2)
        targets = torch.zeros(rows.shape[0], dtype=torch.int64)
        return functional.cross_entropy(rows, targets, label_smoothing=self.label_smoothing)


def image_program(module: nn.Module, images: Tensor, loss: LossFunction, shape: ProgramShape) -> Program:
    """A model of images [batch, channels, *sizes], both in the memory format that is asked for."""
    if shape.channels_last:
        replace_weights(module, _channels_last)
        images = _channels_last(images)
    return Program(module, (images,), loss_function=loss, batch_size=shape.batch_size)


def _channels_last(tensor: Tensor) -> Tensor:
    layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim)
    return tensor if layout is None else tensor.contiguous(memory_format=layout)


def to_half(program: Program, dtype: torch.dtype) -> Program:
    """Weights and inputs cast, as ``Module.half`` and the scripts do."""

    def cast(value: Tensor) -> Tensor:
        return value.to(dtype) if value.is_floating_point() else value

    replace_weights(program.module, cast)
    return replace(program, args=tuple(cast(v) if isinstance(v, Tensor) else v for v in program.args))


def replace_weights(module: nn.Module, convert: Callable[[Tensor], Tensor]) -> None:
    """What ``Module.to`` does, for symbolic parameters too, which take no other data; ties are kept."""
    converted: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            values = convert(parameter.detach())
            new = converted.setdefault(id(parameter), nn.Parameter(values, parameter.requires_grad))
            setattr(part, name, new)
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, convert(buffer))
