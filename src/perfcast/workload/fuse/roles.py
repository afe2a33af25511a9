"""What part an operation can play in a fused kernel, from its kind, its name and its types alone.

Inductor turns element-wise operators, copies, fills, look-ups by index and generators of random numbers
into loops over the elements of their output, and reductions, softmax and norms into loops over rows. It
calls a library for products, convolutions and attention, and has kernels of their own for sorts,
scatters and scans: such operations have no role and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType

Kind = OperationKind


@dataclass(frozen=True, slots=True)
class Iteration:
    """Space that a kernel loops over.

    Attributes:
        elements: Points of the space; 0 for an operation that runs no kernel.
        rows: How many rows are reduced, each of ``elements / rows`` values; 0 if none is.
        by_columns: The rows lie across memory (a bias gradient): the kernel splits them in another
            order than the element-wise loops of its neighbours.
    """

    elements: int
    rows: int = 0
    by_columns: bool = False

    @property
    def row_length(self) -> int:
        """Values of one row."""
        return self.elements // self.rows if self.rows else 1


@dataclass(frozen=True, slots=True)
class Role:
    """How an operation takes part in a kernel.

    Attributes:
        iteration: The loop that it needs.
        read_bytes: Bytes read of each input; a look-up reads as much of its table as it returns.
    """

    iteration: Iteration
    read_bytes: tuple[int, ...]


_FREE = Iteration(0)


def join(a: Iteration, b: Iteration) -> Iteration | None:
    """The loop that both can run in, or None.

    Element-wise loops of as many elements share one; a loop over rows takes in element-wise work on all
    its elements or on one value per row; loops over rows must agree. (``SIMDScheduling.can_fuse`` of
    torch._inductor.codegen.simd has these conditions.)
    """
    if a == b or not b.elements:
        return a
    if not a.elements:
        return b
    if a.rows and b.rows:
        return None
    rows, points = (a, b) if a.rows else (b, a)
    if rows.rows and not rows.by_columns and points.elements in (rows.elements, rows.rows):
        return rows
    return None


def role_of(operation: Operation) -> Role | None:
    """The role of an operation, None if it is a kernel of its own."""
    if any(t.dtype is DType.COMPLEX64 for t in (*operation.inputs, *operation.outputs)):
        return None
    rule = _RULES.get(operation.kind)
    return rule(operation) if rule and operation.outputs else None


# ---- rules ------------------------------------------------------------------------------------

_NOT_GENERATED = frozenset(
    "_to_dense _local_tensor_copy repeat_interleave copy_to col2im im2col _upsample_bicubic2d_aa "
    "upsample_nearest2d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward".split()
)
_LOOPS_OF_RANDOM = frozenset(
    "native_dropout bernoulli uniform normal normal_functional rand randn rand_like randn_like "
    "randint".split()
)
_LOOKUPS = frozenset("embedding index_select gather index _unsafe_index take take_along_dim".split())
_NOT_ROWS = frozenset(
    "cumsum cumprod logcumsumexp cummax _local_scalar_dense equal is_nonzero count_nonzero".split()
)


def _point(operation: Operation, read_bytes: tuple[int, ...] | None = None) -> Role:
    elements = max(t.num_elements for t in operation.outputs)
    return Role(Iteration(elements), read_bytes or _usual_reads(operation))


def _rows(operation: Operation, rows: int, by_columns: bool = False) -> Role | None:
    elements = operation.inputs[0].num_elements
    if rows == 0 or elements == rows:
        return _point(operation)
    if elements == 0 or elements % rows:
        return None
    return Role(Iteration(elements, rows, by_columns), _usual_reads(operation))


def _usual_reads(operation: Operation) -> tuple[int, ...]:
    return tuple(t.num_bytes for t in operation.inputs)


def _free(operation: Operation) -> Role:
    return Role(_FREE, (0,) * len(operation.inputs))


def _copy(operation: Operation) -> Role | None:
    if operation.name in _NOT_GENERATED:
        return None
    if operation.name == "copy_":  # its destination is written, not read
        return _point(operation, (0, *_usual_reads(operation)[1:]))
    return _point(operation)


def _fill(operation: Operation) -> Role:
    return _point(operation, (0,) * len(operation.inputs))


def _random(operation: Operation) -> Role | None:
    return _point(operation) if operation.name.removesuffix("_") in _LOOPS_OF_RANDOM else None


def _lookup(operation: Operation) -> Role | None:
    by_mask = any(t.dtype is DType.BOOL for t in operation.inputs[1:])
    if operation.name not in _LOOKUPS or by_mask:
        return None
    reads = _usual_reads(operation)
    found = operation.outputs[0].num_bytes
    return _point(operation, (min(reads[0], found), *reads[1:]))


def _softmax(operation: Operation) -> Role | None:
    source = operation.inputs[0]
    return _rows(operation, source.num_elements // max(_last(source), 1))


def _normalization(operation: Operation) -> Role | None:
    """One statistic per row: an output of the forward, the third input of every backward."""
    is_backward = "backward" in operation.name
    types = operation.inputs[2:3] if is_backward else operation.outputs[1:2]
    return _rows(operation, types[0].num_elements if types else 0)


def _reduction(operation: Operation) -> Role | None:
    if operation.name in _NOT_ROWS or not operation.inputs:
        return None
    source, target = operation.inputs[0], operation.outputs[0]
    rows = target.num_elements
    by_columns = rows > 1 and _last(source) > 1 and _last(target) == _last(source)
    return _rows(operation, rows, by_columns)


def _loss(operation: Operation) -> Role | None:
    if operation.name.startswith("nll_loss") and "backward" in operation.name:
        targets = tuple(t.num_bytes if t.dtype is DType.INT64 else 0 for t in operation.inputs)
        return _point(operation, targets)
    if operation.name.startswith("nll_loss"):
        scores, targets_type = operation.inputs[:2]
        count = targets_type.num_elements
        reads = (scores.dtype.bytes_of(count), targets_type.num_bytes, *_usual_reads(operation)[2:])
        return Role(Iteration(count, 1) if count > 1 else Iteration(count), reads)
    is_reduced = operation.outputs[0].num_elements == 1 and "backward" not in operation.name
    return _rows(operation, 1) if is_reduced else _point(operation)


def _optimizer(operation: Operation) -> Role | None:
    """A ``_foreach`` operator is one loop over all elements of its list."""
    if not operation.name.startswith("_foreach") or "norm" in operation.name:
        return None
    elements = sum(t.num_elements for t in operation.outputs)
    return Role(Iteration(elements), _usual_reads(operation))


def _last(tensor: TensorType) -> int:
    return tensor.shape[-1] if tensor.shape else 1


_RULES: dict[Kind, Callable[[Operation], Role | None]] = {
    Kind.ELEMENTWISE: _point,
    Kind.COPY: _copy,
    Kind.FILL: _fill,
    Kind.RANDOM: _random,
    Kind.EMBEDDING: _lookup,
    Kind.INDEXING: _lookup,
    Kind.SOFTMAX: _softmax,
    Kind.NORMALIZATION: _normalization,
    Kind.REDUCTION: _reduction,
    Kind.LOSS: _loss,
    Kind.OPTIMIZER: _optimizer,
    Kind.ALLOCATION: _free,
}
