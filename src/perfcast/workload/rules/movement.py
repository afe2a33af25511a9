"""Operators that move, fill, look up or allocate memory and compute nothing."""

from __future__ import annotations

from perfcast.core.operation import OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, RuleTable, bytes_of

MOVEMENT = RuleTable()


@MOVEMENT.rule(
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "lift_fresh",
    "alias",
    "detach",
    "view",
    "_reshape_alias",
    "empty_permuted",
    "set",
    "resize",
    "expand",
    "slice",
    "lift",
    "select",
    "unsqueeze",
    "squeeze",
    "t",
    "transpose",
    "permute",
    "as_strided",
    "split",
    "unbind",
    "_unsafe_view",
    "_reshape_copy",
)
def allocation(call: OperatorCall) -> OperatorWork:
    """No kernel: memory is taken, or a view is made of memory not seen before."""
    return OperatorWork(OperationKind.ALLOCATION, read_bytes=0, written_bytes=0)


@MOVEMENT.rule(
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "zero",
    "fill",
    "arange",
    "linspace",
    "eye",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "logspace",
)
def fill(call: OperatorCall) -> OperatorWork:
    """Writes only."""
    return OperatorWork(OperationKind.FILL, read_bytes=0)


@MOVEMENT.rule(
    "clone",
    "_to_copy",
    "cat",
    "stack",
    "flip",
    "roll",
    "repeat",
    "constant_pad_nd",
    "contiguous",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "replication_pad1d_backward",
    "replication_pad2d_backward",
    "replication_pad3d_backward",
    "repeat_interleave",
    "split_with_sizes_copy",
    "pixel_shuffle",
    "pixel_unshuffle",
    "im2col",
    "_to_dense",
    "copy_to",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear1d",
    "upsample_trilinear3d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
    "col2im",
    "upsample_nearest1d_backward",
    "upsample_nearest2d_backward",
    "upsample_nearest3d_backward",
    "upsample_linear1d_backward",
    "upsample_trilinear3d_backward",
    "upsample_bilinear2d_backward",
    "upsample_bicubic2d_backward",
    "_local_tensor_copy",
    "native_channel_shuffle",
    "channel_shuffle",
    "chunk_cat",
)
def copy(call: OperatorCall) -> OperatorWork:
    """Reads each input once, writes the output once."""
    return OperatorWork(OperationKind.COPY)


@MOVEMENT.rule("copy")
def copy_into(call: OperatorCall) -> OperatorWork:
    """copy_(destination, source): the destination is written, not read."""
    return OperatorWork(
        OperationKind.COPY, read_bytes=call.inputs[1].num_bytes if len(call.inputs) > 1 else 0
    )


@MOVEMENT.rule("all_gather_copy_in")
def all_gather_copy_in(call: OperatorCall) -> OperatorWork:
    """Shards are copied into this rank's part of the buffer that is gathered."""
    shards = bytes_of(call.args[0])
    return OperatorWork(OperationKind.COPY, read_bytes=shards, written_bytes=shards)


@MOVEMENT.rule("slice_backward", "select_backward", "unfold_backward", "diagonal_backward")
def slice_backward(call: OperatorCall) -> OperatorWork:
    """Fills the whole gradient with zeros and copies the slice into it."""
    return OperatorWork(OperationKind.COPY, written_bytes=bytes_of(call.outputs) + call.inputs[0].num_bytes)


@MOVEMENT.rule(
    "embedding",
    "index_select",
    "gather",
    "index",
    "take_along_dim",
    "take",
    "_unsafe_index",
    "masked_select",
    "nonzero",
)
def lookup(call: OperatorCall) -> OperatorWork:
    """Reads as many elements as it writes, and the indices."""
    indices = bytes_of(tuple(t for t in call.inputs[1:] if t.dtype.label in ("int64", "int32", "bool")))
    kind = OperationKind.EMBEDDING if call.operator == "embedding" else OperationKind.INDEXING
    return OperatorWork(kind, read_bytes=bytes_of(call.outputs) + indices)


@MOVEMENT.rule("embedding_dense_backward")
def embedding_backward(call: OperatorCall) -> OperatorWork:
    """Fills the table's gradient with zeros, then reads and writes one row per lookup."""
    gradient = call.inputs[0]
    return OperatorWork(
        OperationKind.EMBEDDING,
        flops=gradient.num_elements,
        read_bytes=bytes_of(call.inputs) + gradient.num_bytes,
        written_bytes=bytes_of(call.outputs) + gradient.num_bytes,
    )


@MOVEMENT.rule("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(call: OperatorCall) -> OperatorWork:
    """Reads one row per index and adds it to its bag; the indices and offsets too."""
    table, indices = call.inputs[:2]
    row = table.shape[1]
    return OperatorWork(
        OperationKind.EMBEDDING,
        flops=indices.num_elements * row,
        read_bytes=table.dtype.bytes_of(indices.num_elements * row) + bytes_of(call.inputs[1:]),
        attributes=(("bags", call.outputs[0].shape[0]), ("lookups", indices.num_elements), ("row", row)),
    )


@MOVEMENT.rule("_embedding_bag_dense_backward", "_embedding_bag_backward")
def embedding_bag_backward(call: OperatorCall) -> OperatorWork:
    """Fills the table's gradient with zeros, then reads and writes one row per lookup."""
    gradient, indices = call.inputs[:2]
    touched = gradient.dtype.bytes_of(indices.num_elements * gradient.shape[1])
    return OperatorWork(
        OperationKind.EMBEDDING,
        flops=indices.num_elements * gradient.shape[1],
        read_bytes=touched * 2 + bytes_of(call.inputs[1:]),
        written_bytes=bytes_of(call.outputs) + touched,
        attributes=(("lookups", indices.num_elements), ("row", gradient.shape[1])),
    )


@MOVEMENT.rule(
    "scatter",
    "scatter_add",
    "index_put",
    "index_add",
    "index_copy",
    "scatter_reduce",
    "put",
    "_index_put_impl",
    "_unsafe_index_put",
    "masked_scatter",
    "index_fill",
)
def scatter(call: OperatorCall) -> OperatorWork:
    """Touches as many elements as the source has; out of place, the rest is copied first."""
    target = call.inputs[0]
    source = _source_of(call)
    touched = min(source.num_bytes, target.num_bytes) if source is not None else target.num_bytes
    indices = bytes_of(tuple(t for t in call.inputs[1:] if t.dtype.label in ("int64", "int32", "bool")))
    copied = 0 if call.is_in_place else target.num_bytes
    return OperatorWork(
        OperationKind.INDEXING,
        flops=touched // max(target.dtype.bits // 8, 1),
        read_bytes=copied + 2 * touched + indices,
        written_bytes=copied + touched,
    )


def _source_of(call: OperatorCall) -> TensorType | None:
    """The tensor whose elements are written: the last input of the target's type."""
    candidates = [t for t in call.inputs[1:] if t.dtype is call.inputs[0].dtype]
    return candidates[-1] if candidates else None
