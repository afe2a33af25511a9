"""Which recorded sizes follow the batch.

A recording holds shapes without names. A size follows the batch if it is the batch itself, or the product
of a batch and the dims right behind it in some tensor whose first dim is the batch: 8 sequences of 512 tokens
are flattened into 4096 rows, or split into 8 · 16 heads.
"""

from __future__ import annotations

import math

from perfcast.errors import PlanError
from perfcast.traces.events import Trace

#: Dims behind the batch that are flattened with it.
_MAX_FLATTENED = 3


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
    sizes = {recorded}
    found = False
    for inputs in trace.events.inputs_table:
        for shape in _shapes(inputs.shapes):
            if shape and shape[0] == recorded:
                found = True
                behind = shape[1 : 1 + min(_MAX_FLATTENED, len(shape) - 2)]
                sizes |= {recorded * math.prod(behind[:count]) for count in range(1, len(behind) + 1)}
    if not found:
        raise PlanError(
            f"no recorded tensor has a first dim of {recorded}: is that the batch? (--recorded-batch-size; "
            "shapes must have been recorded)"
        )
    return {size: size * wanted // recorded for size in sizes}


def _shapes(value: object) -> list[tuple[int, ...]]:
    if not isinstance(value, tuple):
        return []
    if value and all(isinstance(size, int) for size in value):
        return [value]
    return [shape for part in value for shape in _shapes(part)]
