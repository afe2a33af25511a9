"""One operation: what is computed, on which shapes, and how much work it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from perfcast.core.dtype import DType
from perfcast.core.tensor import TensorType

AttributeValue = int | float | bool | str


class OperationKind(Enum):
    """Families of operations that are priced alike."""

    MATMUL = "matmul"
    BATCHED_MATMUL = "batched_matmul"
    GROUPED_MATMUL = "grouped_matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    LINEAR_ATTENTION = "linear_attention"
    RECURRENT = "recurrent"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    SOFTMAX = "softmax"
    NORMALIZATION = "normalization"
    EMBEDDING = "embedding"
    INDEXING = "indexing"
    POOLING = "pooling"
    SORT = "sort"
    RANDOM = "random"
    COPY = "copy"
    FILL = "fill"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    ALLOCATION = "allocation"
    COLLECTIVE = "collective"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__


#: Kinds whose flops are counted in a model's flops and MFU: products, convolutions, attention.
MATRIX_KINDS = frozenset(
    {
        OperationKind.MATMUL,
        OperationKind.BATCHED_MATMUL,
        OperationKind.GROUPED_MATMUL,
        OperationKind.CONVOLUTION,
        OperationKind.ATTENTION,
        OperationKind.LINEAR_ATTENTION,
        OperationKind.RECURRENT,
    }
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A kernel's worth of work; equal operations cost the same.

    Attributes:
        kind: Family, decides which units and which fitted line apply.
        name: The operator as PyTorch names it (``aten.addmm``) or a composite (``attention``).
        inputs, outputs: Types of the tensors read and written.
        compute_dtype: Precision of the arithmetic; selects the peak rate.
        flops: Floating-point operations of the mathematics; a multiply-add is 2. Attention counts
            every query-key pair, masked or not, as is usual for MFU.
        executed_flops: What the kernel executes: without the pairs that a causal kernel skips, with
            the values that a flash backward computes again.
        memory_traffic_bytes: Bytes that must cross the memory interface at least once.
        recompute_flops: The part of ``executed_flops`` spent on values computed before.
        attributes: What else tells two operations apart, as sorted (name, value) pairs.
    """

    kind: OperationKind
    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    compute_dtype: DType
    flops: int
    executed_flops: int
    memory_traffic_bytes: int
    recompute_flops: int = 0
    attributes: tuple[tuple[str, AttributeValue], ...] = ()

    def __hash__(self) -> int:
        """Of what tells most operations apart; prices are looked up by the ten thousand."""
        return hash((self.name, self.flops, self.memory_traffic_bytes, self.attributes))

    @property
    def uses_matrix_units(self) -> bool:
        """Whether tensor cores can do the arithmetic."""
        return self.kind in MATRIX_KINDS

    @property
    def is_free(self) -> bool:
        """Whether no kernel runs (an allocation alone)."""
        return self.kind is OperationKind.ALLOCATION

    def attribute(self, name: str) -> AttributeValue | None:
        """Value of an attribute, or None."""
        return dict(self.attributes).get(name)
