"""A module that a user holds, as what is asked about."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class OwnModule:
    """A module, and the arguments of one call of it; neither is run for real, nor changed.

    Attributes:
        module: A ``torch.nn.Module`` on any device, 'meta' included.
        inputs: A tensor, a tuple of positional or a mapping of keyword arguments; of tensors only shapes,
            element types and layout count.
        loss: Output → scalar, of a training; None: the output's own ``loss``, a scalar as it is, else the
            sum of its first tensor.
    """

    module: Any
    inputs: Any
    loss: Any = None

    @property
    def title(self) -> str:
        """The module's class, by which answers call it."""
        return type(self.module).__name__


def is_module(value: object) -> bool:
    """Whether it is a ``torch.nn.Module``; torch is not imported to find out, as whoever holds one has it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)
