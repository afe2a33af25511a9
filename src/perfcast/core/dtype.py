"""Element types and the precision in which an operation computes."""

from __future__ import annotations

from enum import Enum


class DType(Enum):
    """An element type; the value is (label, bits). ``TF32`` exists only as a compute precision.

    Attributes:
        label: Short name as used in data files and on the command line.
        bits: Of one element.
    """

    FP64 = ("fp64", 64)
    FP32 = ("fp32", 32)
    TF32 = ("tf32", 32)
    BF16 = ("bf16", 16)
    FP16 = ("fp16", 16)
    FP8 = ("fp8", 8)
    FP6 = ("fp6", 6)
    FP4 = ("fp4", 4)
    INT64 = ("int64", 64)
    INT32 = ("int32", 32)
    INT16 = ("int16", 16)
    INT8 = ("int8", 8)
    INT4 = ("int4", 4)
    UINT8 = ("uint8", 8)
    BOOL = ("bool", 8)
    COMPLEX64 = ("complex64", 64)

    # Enum hashes by name, in Python; identity is as good and much faster, and types are hashed often.
    __hash__ = object.__hash__

    def __init__(self, label: str, bits: int) -> None:
        self.label = label
        self.bits = bits

    def bytes_of(self, num_elements: int) -> int:
        """Bytes that ``num_elements`` packed elements take."""
        return (num_elements * self.bits + 7) // 8


#: What a request says that leaves the precision to model, mode and device (``prediction.defaults``).
AUTO = "auto"
DTYPES_BY_LABEL: dict[str, DType] = {dtype.label: dtype for dtype in DType}
