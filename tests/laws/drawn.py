"""Cases drawn by the thousand into columns, for laws that are asked of arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st

from cases import cases

Floats = np.ndarray

#: Cases of one array.
ROWS = 200


def rounds(usual: int, *, share: float = 1.0) -> int:
    """Arrays of ``ROWS`` cases to draw: ``usual``, or as many as make PERFCAST_FUZZ_CASES times a share."""
    return max(usual, -(-cases(usual * ROWS, share=share) // ROWS))


def arrays(usual: int, *, share: float = 1.0) -> settings:
    """Settings of a law of arrays: a smaller seed is no smaller case, so none is looked for."""
    phases = (Phase.explicit, Phase.generate)
    return settings(max_examples=rounds(usual, share=share), phases=phases, deadline=None)


#: The seed of an array.
seeds = st.integers(0, 2**32 - 1)


def whole(draw: np.random.Generator, low: float, high: float, count: int = ROWS) -> Floats:
    """Whole numbers, even in logarithms between two powers of two."""
    return np.round(2.0 ** draw.uniform(low, high, count))


def grown(draw: np.random.Generator, sizes: Floats) -> Floats:
    """Larger sizes: by one, by a part, or several times."""
    kind = draw.integers(0, 3, len(sizes))
    part = np.ceil(sizes * draw.random(len(sizes)))
    return sizes + np.select([kind == 0, kind == 1], [1.0, part], sizes * draw.integers(1, 4, len(sizes)))
