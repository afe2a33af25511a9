"""What is asked of a model: mode, sizes, precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from perfcast.core.mode import Mode
from perfcast.core.tensor import MemoryFormat
from perfcast.core.tuning.trained import FULL, Tuning

_DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}


@dataclass(frozen=True)
class StepShape:
    """What is asked of a model.

    Attributes:
        mode: 'train', 'prefill' or 'decode'.
        batch_size: Sequences, images or samples.
        sequence_length: Tokens of a sequence; in decode, of the context including the new token.
        dtype: Precision by its label; training in bf16 or fp16 keeps fp32 weights (autocast).
        attention: 'sdpa' (fused) or 'eager'.
        recompute: 'none' or 'full' (every layer is checkpointed).
        tuning: What trains; a model beside adapters is kept in the precision of its products.
        image_size: Height and width of images; None is the model's own.
        memory_format: In which weights and images lie.
        autocast: Whether inference too keeps fp32 weights and is in mixed precision.
    """

    mode: Mode = "train"
    batch_size: int = 1
    sequence_length: int | None = None
    dtype: str = "fp32"
    attention: str = "sdpa"
    recompute: str = "none"
    tuning: Tuning = FULL
    image_size: int | None = None
    memory_format: MemoryFormat = "contiguous"
    autocast: bool = False

    @property
    def weight_dtype(self) -> torch.dtype:
        """Element type of the parameters."""
        is_mixed = self.mode == "train" or self.autocast
        if is_mixed and self.dtype != "fp64" and self.tuning.adapters is None:
            return torch.float32
        return _DTYPES[self.dtype]

    @property
    def product_dtype(self) -> torch.dtype:
        """Element type of the products."""
        return _DTYPES[self.dtype]

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """Lower precision of mixed precision, or None."""
        is_mixed = self.mode == "train" or self.autocast
        return _DTYPES[self.dtype] if is_mixed and self.dtype in ("bf16", "fp16") else None
