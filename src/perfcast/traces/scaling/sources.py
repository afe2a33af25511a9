"""Evidence that a size which comes from outside follows the batch, or that it does not.

Data stand with the batch in front; what is as many for each sample (nodes and edges of graphs, lookups)
shows as rows of whole numbers that the batch divides. A literal or a given size that nothing else decides
is an assumption.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.traces.scaling.assumptions import CERTAIN, SURE

#: Names of arguments that are parameters, whatever their sizes.
PARAMETERS = frozenset(
    {
        *("weight", "bias", "running_mean", "running_var", "normalized_shape", "params"),
        *("weight_ih", "weight_hh", "w_ih", "w_hh", "b_ih", "b_hh"),
    }
)
#: Names of arguments that are matrices: a given one is a parameter, unless the batch stands in front of it.
MATRICES = frozenset({"mat2", "batch2", "tensor2"})
#: Names of arguments that are sizes of tensors.
SIZES = frozenset(
    {
        *("size", "sizes", "shape", "self_size", "self_sizes", "input_size", "input_sizes", "output_size"),
        *(
            "N",
            "n",
            "m",
            "repeats",
            "length",
            "end",
            "num_samples",
            "num_classes",
            "dim_size",
            "groups",
            "row",
            "col",
        ),
    }
)
#: Makes random data: what a program without a loader gives its model.
DATA_MAKERS = frozenset({"aten::randn", "aten::rand", "aten::randint", "aten::randperm", "aten::normal"})
#: A given floating tensor with the batch in front may be a parameter or a state of one.
_GIVEN = SURE
IS_BATCH, _ROWS_OF_NUMBERS, _ROWS_OF_DATA, _UNEVEN_ROWS = 1.0, 0.9, 0.6, 0.5
#: Of a size that the batch divides and that met no parameter; of one that it does not divide, above and
#: below it.
DIVIDED, _NOT_DIVIDED, _SMALL = 0.3, -0.3, -2.0
_INSIDE_ROWS, _BESIDE_THE_BATCH = -1.5, -1.0
#: Of the other dims of data with the batch in front.
BEHIND_THE_BATCH = float("-inf")


def evidence_of_given(
    shape: Sequence[int], dtype: str, batch: int, *, is_data: bool, is_made: bool = False
) -> list[float]:
    """Of each dim of a tensor that no recorded call made, or that one made out of nothing.

    Args:
        is_data: Whether it holds what a program feeds its model, as far as can be told.
        is_made: Whether the recorded step made it.
    """
    if batch < 2:
        return [_SMALL] * len(shape)
    is_whole = dtype.startswith(("int", "uint"))
    found = [_of_size(size, batch) for size in shape]
    if is_data and shape and shape[0] == batch:
        is_certain = is_made or (is_whole and batch not in shape[1:])
        return [CERTAIN if is_certain else _GIVEN, *(BEHIND_THE_BATCH for _ in shape[1:])]
    if is_data and batch in shape:
        return [IS_BATCH if at == shape.index(batch) else BEHIND_THE_BATCH for at in range(len(shape))]
    if not is_data and len(shape) == 1 and is_whole:
        return found
    rows = max(range(len(shape)), key=lambda dim: (shape[dim] % batch == 0, shape[dim]), default=0)
    if batch in shape:
        first = list(shape).index(batch)
        return [own if dim == first else min(own, _BESIDE_THE_BATCH) for dim, own in enumerate(found)]
    if not shape or not shape[rows]:
        return found
    if is_whole and shape[rows] % batch == 0:
        return _only(rows, _ROWS_OF_NUMBERS, len(shape))
    if is_whole and len(shape) == 1 and shape[0] > batch:
        return [_UNEVEN_ROWS]
    if is_data and shape[0] % batch == 0:
        return _only(0, _ROWS_OF_DATA, len(shape))
    return found


def _only(rows: int, evidence: float, num_dims: int) -> list[float]:
    """Rows that may follow the batch, and what stands in each."""
    return [evidence if dim == rows else _INSIDE_ROWS for dim in range(num_dims)]


def evidence_of_literals(sizes: Sequence[int], batch: int) -> list[float]:
    """Of numbers that some operator takes as sizes beside its tensors."""
    if batch < 2:
        return [_SMALL] * len(sizes)
    found = [_of_size(size, batch) for size in sizes]
    if batch not in sizes:
        return found
    first = list(sizes).index(batch)
    return [own if dim == first else min(own, _BESIDE_THE_BATCH) for dim, own in enumerate(found)]


def _of_size(size: int, batch: int) -> float:
    if size == batch:
        return IS_BATCH
    if size < batch:
        return _SMALL
    return DIVIDED if size % batch == 0 else _NOT_DIVIDED
