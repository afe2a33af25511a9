"""The state of a training between two epochs, as one NumPy archive, written whole or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfcast.errors import InputError
from perfcast.files.plain import parse_json
from perfcast.files.reading_arrays import read_arrays
from perfcast.files.writing import write_bytes_atomically
from perfcast.published.comparison import print_part

Arrays = Mapping[str, NDArray[Any]]

_NOTES = "notes"


@dataclass(frozen=True)
class Archive:
    """Named arrays and what is to be known of them."""

    arrays: Arrays
    notes: Mapping[str, Any]


def write_archive(path: Path, archive: Archive) -> None:
    """Write through a temporary file in the same folder and a rename.

    Raises:
        InputError: The place cannot be written.
    """
    notes = np.frombuffer(json.dumps(dict(archive.notes), sort_keys=True).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **{_NOTES: notes, **archive.arrays})  # type: ignore[arg-type]
    write_bytes_atomically(path, buffer.getvalue(), updates=True)


def read_archive(path: Path) -> Archive:
    """Read back what ``write_archive`` wrote.

    Raises:
        InputError: The file is missing or is not such an archive.
    """
    arrays = read_arrays(path, what="the trained weights")
    text = arrays.pop(_NOTES, None)
    notes = None if text is None else parse_json(text.tobytes().decode(errors="replace"), f"{path}: {_NOTES}")
    if not isinstance(notes, dict):
        raise InputError(f"{path}: not an archive of weights: train again")
    return Archive(arrays, notes)


if __name__ == "__main__":
    print_part("nets.archive", "habitat", "nets")
