"""What is known of a tensor without its values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from perfcast.core.dtype import DType

#: How an image tensor [batch, channels, *space] lies in memory: as its dims are written, or channels last.
MemoryFormat = Literal["contiguous", "channels_last"]
MEMORY_FORMATS: tuple[MemoryFormat, ...] = ("contiguous", "channels_last")


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape, element type and strides (in elements). A stride of 0 marks an expanded dimension."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] = ()

    @property
    def num_elements(self) -> int:
        """Elements, counting expanded dimensions in full."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of distinct elements: an expanded dimension holds one copy."""
        if 0 in self.strides and 0 not in self.shape:
            distinct = math.prod(
                size for size, stride in zip(self.shape, self.strides, strict=True) if stride != 0
            )
            return self.dtype.bytes_of(distinct)
        return self.dtype.bytes_of(math.prod(self.shape))

    @property
    def is_transposed(self) -> bool:
        """Whether the last two dims are swapped in memory (the second to last is the dense one)."""
        return len(self.shape) >= 2 and len(self.strides) >= 2 and self.strides[-2] == 1 != self.strides[-1]

    @property
    def is_channels_last(self) -> bool:
        """Whether a tensor of 4 or 5 dims [batch, channels, *space] has its channels next to each other.

        Strides rise from channels over space, the last first, to batch. What strides do not tell (a single
        channel, one position of contiguous images) is not channels last (PyTorch: c10/core/MemoryFormat.h,
        is_channels_last_strides_2d_s4 and 3d_s5).
        """
        if len(self.shape) not in (4, 5) or len(self.strides) != len(self.shape) or not self.strides[1]:
            return False
        least = 0
        for dim in (1, *range(len(self.shape) - 1, 1, -1), 0):
            size, stride = self.shape[dim], self.strides[dim]
            if size == 0 or stride < least or (dim == 0 and least == self.strides[1]):
                return False
            least = stride * max(size, 1)
        return True

    @property
    def memory_format(self) -> MemoryFormat:
        """Channels last, or anything else."""
        return "channels_last" if self.is_channels_last else "contiguous"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a graph: its type and the index of the storage that it looks into."""

    type: TensorType
    storage: int


class Category:
    """Why a storage exists. Plain strings, since reports and JSON carry them."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer_state"
    ACTIVATION = "activation"
    TEMPORARY = "temporary"
    INPUT = "input"
    KV_CACHE = "kv_cache"

    ALL = (PARAMETER, BUFFER, GRADIENT, OPTIMIZER_STATE, ACTIVATION, TEMPORARY, INPUT, KV_CACHE)


@dataclass(frozen=True, slots=True)
class Storage:
    """A block of memory.

    ``created_by`` is the index of the node that allocates it, -1 if it was there before the step.
    ``freed_after`` is the index of the last node issued before the program dropped its last
    reference; None if it outlives the step. ``created_at`` is the program's line that asked for it,
    such as ``'modeling_llama.py:253 in LlamaAttention.forward'``; '' if there is none (parameters, what
    the optimizer makes) or none is known.
    """

    num_bytes: int
    category: str
    created_by: int
    freed_after: int | None
    created_at: str = ""

    def living(self, created_by: int, freed_after: int | None) -> Storage:
        """The same block made and dropped by other nodes; ``replace`` takes three times as long."""
        return Storage(self.num_bytes, self.category, created_by, freed_after, self.created_at)
