"""Types of arrays, each by the word for what stands in it; shapes stand in docstrings."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Also places of rows, as ``numpy.unique`` and ``numpy.flatnonzero`` give them.
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
#: Words of any length, and what else no number says.
Objects = NDArray[np.object_]
