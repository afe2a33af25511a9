"""What is asked of a program, and losses that several share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.workload.models.memory_format import to_memory_format
from perfcast.workload.models.weights import cast_weights, caster
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
    program = Program(module, (images,), loss_function=loss, batch_size=shape.batch_size)
    return to_memory_format(program, "channels_last" if shape.channels_last else "contiguous", "the model")


def to_half(program: Program, dtype: torch.dtype) -> Program:
    """Weights and inputs cast, as ``Module.half`` and the scripts do."""
    cast_weights(program.module, dtype)
    cast = caster(dtype)
    return replace(program, args=tuple(cast(v) if isinstance(v, Tensor) else v for v in program.args))
