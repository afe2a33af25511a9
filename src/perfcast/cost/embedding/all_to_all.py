"""All-to-all among ranks that send unequal amounts, on a cluster.

The busiest rank holds everyone up: the all-to-all takes as long as an even one in which every rank sends what
the busiest sends or receives, whichever is more (``cost.collective.table.uneven_bytes``).
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.cost.collective.table import uneven_bytes


def all_to_all_operation(sent_bytes: Floats, ranks: tuple[int, ...], dtype: DType = DType.FP32) -> Operation:
    """The all-to-all that stands for one in which rank r sends ``sent_bytes[r, q]`` to rank q.

    Raises:
        InputError: Not a square matrix of numbers from zero.
        ValueError: Another number of ranks than rows.
    """
    if len(ranks) != len(sent_bytes):
        raise ValueError(f"{len(ranks)} ranks, but a matrix of {np.shape(sent_bytes)}")
    return collective_operation("all_to_all", round(uneven_bytes(sent_bytes)), ranks, dtype)
