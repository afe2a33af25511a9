"""Which recorded sizes follow the batch.

A recording holds shapes without names. A size follows the batch if it is the batch itself, or the product
of a batch and the dims right behind it in some tensor whose first dim is the batch: 8 sequences of 512 tokens
are flattened into 4096 rows, or split into 8 · 16 heads. The batch of all ranks together counts likewise.
Shapes that gradients accumulate into are parameters' and stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.errors import PlanError
from perfcast.traces.events import NONE, Category, OperatorInputs, Trace
from perfcast.traces.forecast.operations import Reshape

#: Dims behind the batch that are flattened with it.
_MAX_FLATTENED = 3
_ACCUMULATION = "torch::autograd::AccumulateGrad"
_SPARSE = "aten::_sparse_coo_tensor"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class BatchChange:
    """What another batch makes of a trace's shapes.

    Attributes:
        ratio: Wanted over recorded batch.
        sparse: Shapes of tables whose gradients are sparse, with how many times more rows these have.
    """

    ratio: float
    reshape: Reshape
    sparse: Mapping[Shape, float]

    def bytes_ratio(self, inputs: OperatorInputs) -> float:
        """How many times more elements an operator is given."""
        shapes = _shapes(inputs.shapes)
        if len(shapes) > 1 and len(set(shapes)) == 1 and shapes[0] in self.sparse:
            return self.sparse[shapes[0]]
        was = sum(math.prod(shape) for shape in shapes)
        will = sum(math.prod(self.reshape.shape(shape)) for shape in shapes)
        return will / was if was else 1.0

    def is_sparse(self, inputs: OperatorInputs) -> bool:
        """Whether an operator adds a sparse gradient to a table, by its shapes."""
        shapes = _shapes(inputs.shapes)
        return len(shapes) > 1 and len(set(shapes)) == 1 and shapes[0] in self.sparse


def change_of_batch(trace: Trace, recorded: int, wanted: int) -> BatchChange:
    """What follows the batch in a trace.

    Raises:
        PlanError: As ``scaled_sizes``.
    """
    reshape = Reshape(scaled_sizes(trace, recorded, wanted), frozenset(_parameter_shapes(trace)))
    return BatchChange(wanted / recorded, reshape, _sparse_tables(trace, reshape))


def scaled_sizes(trace: Trace, recorded: int, wanted: int) -> dict[int, int]:
    """Sizes that follow the batch, each with what it becomes.

    Raises:
        PlanError: No tensor's first dim is the recorded batch, or the batch is 1.
    """
    if recorded < 2 or wanted < 1:
        raise PlanError(
            f"a batch of {recorded} that becomes {wanted}: a recorded batch of 1 cannot be told from other "
            "dims of 1"
        )
    shapes = {shape for inputs in trace.events.inputs_table for shape in _shapes(inputs.shapes) if shape}
    batches = [shape for shape in shapes if shape[0] == recorded]
    if not batches:
        raise PlanError(
            f"no recorded tensor has a first dim of {recorded}: is that the batch? (--recorded-batch-size; "
            "shapes must have been recorded)"
        )
    sizes = _flattened(recorded, batches)
    kept = {size for shape in _parameter_shapes(trace) for size in shape}
    flat = {shape[0] for shape in shapes if len(shape) == 1} - kept
    sizes |= {math.prod(shape) for shape in batches} & flat
    everyone = recorded * trace.world_size
    if trace.world_size > 1:
        sizes |= _flattened(everyone, [shape for shape in shapes if shape[0] == everyone])
        sizes |= {math.prod(shape) for shape in shapes if shape[0] == everyone} & flat
    return {size: size * wanted // recorded for size in sizes}


def _flattened(batch: int, shapes: Sequence[Shape]) -> set[int]:
    """The batch, and what it is together with dims behind it."""
    found = {batch}
    for shape in shapes:
        behind = shape[1 : 1 + min(_MAX_FLATTENED, len(shape) - 2)]
        found |= {batch * math.prod(behind[:count]) for count in range(1, len(behind) + 1)}
    return found


def _parameter_shapes(trace: Trace) -> set[Shape]:
    """Shapes that gradients accumulate into, as they are and transposed."""
    events, found = trace.events, set[Shape]()
    if _ACCUMULATION in events.names:
        code = events.names.index(_ACCUMULATION)
        for row in events.rows_in(Category.OPERATOR).tolist():
            if events.name_codes[row] == code and events.inputs[row] != NONE:
                inputs = events.inputs_of(row)
                found |= set(_shapes(inputs.shapes)) if inputs else set()
    return found | {shape[::-1] for shape in found if len(shape) == 2}


def _sparse_tables(trace: Trace, reshape: Reshape) -> dict[Shape, float]:
    """Full shapes of sparse tensors made in the recording, with the growth of their rows."""
    events, found = trace.events, dict[Shape, float]()
    codes = {code for code, name in enumerate(events.names) if name.startswith(_SPARSE)}
    for row in events.rows_in(Category.OPERATOR).tolist():
        inputs = events.inputs_of(row) if int(events.name_codes[row]) in codes else None
        if inputs is None or len(inputs.values) < 3 or len(inputs.shapes) < 2:
            continue
        digits = inputs.values[2].strip("[]").replace(" ", "").split(",")
        values = inputs.shapes[1]
        if all(digit.isdecimal() for digit in digits) and isinstance(values, tuple) and values:
            rows = int(values[0]) if isinstance(values[0], int) else 0
            found[tuple(map(int, digits))] = reshape.sizes.get(rows, rows) / rows if rows else 1.0
    return found


def _shapes(value: object) -> list[Shape]:
    if not isinstance(value, tuple):
        return []
    if value and all(isinstance(size, int) for size in value):
        return [value]
    return [shape for part in value for shape in _shapes(part)]
