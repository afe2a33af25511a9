"""Tile sizes: read off a measured kernel's name and grid, and looked up for kernels never run.

The look-up is the study's: the tile of the nearest training row by Euclidean distance on raw features, so
that peak and row counts, which have the largest numbers, decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.errors import InputError
from perfcast.published.comparison import print_part
from perfcast.published.kernels.figures import StudyFigures

#: AMD's Tensile ('MT128x64x16'), cuBLAS and CUTLASS ('sgemm_128x64'), cuBLAS on Hopper ('tilesize128x128').
_PATTERNS = tuple(re.compile(p) for p in (r"_mt(\d+)x(\d+)", r"sgemm_(\d+)x(\d+)", r"tilesize(\d+)x(\d+)"))


def parse_product_tile(kernel_name: str) -> tuple[int, int]:
    """Tile of a matrix product along the columns n and along the rows m of its output.

    The first number in a name counts rows of BLAS's column-major output, which are columns of ours.

    Raises:
        InputError: The name tells no tile.
    """
    for pattern in _PATTERNS:
        if match := pattern.search(kernel_name.lower()):
            return int(match[1]), int(match[2])
    raise InputError(f"kernel '{kernel_name}' does not tell its tile")


def parse_product_tiles(kernel_names: Objects) -> Floats:
    """Tiles [n, 2] of many kernels; each different name is parsed once.

    Raises:
        InputError: A name tells no tile.
    """
    names, which = np.unique(kernel_names.astype(str), return_inverse=True)
    tiles = np.array([parse_product_tile(str(name)) for name in names], dtype=np.float64)
    return tiles.reshape(len(names), 2)[which]


def elementwise_tiles(num_elements: Floats, num_blocks: Floats) -> Floats:
    """Elements per thread block, to the next power of two."""
    tiles: Floats = np.exp2(np.ceil(np.log2(np.ceil(num_elements / num_blocks))))
    return tiles


def product_features(shape: Floats, figures: StudyFigures) -> Floats:
    """batch, m, k, n and the device; [n, 9]."""
    return _with_device(shape, figures.matrix_gigaflops, figures)


def vector_features(shape: Floats, work: Floats, figures: StudyFigures) -> Floats:
    """Rows, row length, the device, bytes and flops per output; [n, 9]."""
    return np.concatenate([_with_device(shape, figures.vector_gigaflops, figures), work], axis=1)


def _with_device(shape: Floats, peak_gigaflops: Floats, figures: StudyFigures) -> Floats:
    device = (
        figures.num_sms,
        peak_gigaflops,
        figures.memory_gigabytes,
        figures.gigabytes_per_second,
        figures.l2_megabytes,
    )
    return np.concatenate([shape, np.stack(device, axis=1)], axis=1)


@dataclass(frozen=True, eq=False)
class TileTable:
    """Tiles of training rows.

    Attributes:
        operations: Kernel of each row, shape [t]; only rows of the same kernel are compared.
        features: Shape [t, 9].
        tiles: Shape [t, 2] for products, [t, 1] for element-wise kernels.
    """

    operations: NDArray[np.str_]
    features: Floats
    tiles: Floats

    def look_up(self, operations: Objects, features: Floats) -> Floats:
        """Tiles of the nearest rows; NaN for kernels that the table does not hold."""
        found = np.full((len(features), self.tiles.shape[1]), np.nan)
        for operation, (rows, tree) in self._trees.items():
            wanted = np.flatnonzero(operations == operation)
            if len(wanted):
                _, nearest = tree.query(features[wanted])
                found[wanted] = self.tiles[rows[nearest]]
        return found

    @cached_property
    def _trees(self) -> dict[str, tuple[Integers, Any]]:
        """Rows of each kernel and a tree of their features."""
        from scipy.spatial import cKDTree

        rows_of = {str(name): np.flatnonzero(self.operations == name) for name in np.unique(self.operations)}
        return {name: (rows, cKDTree(self.features[rows])) for name, rows in rows_of.items()}


if __name__ == "__main__":
    print_part("neusight.tiles", "neusight")
