"""NumPy's archives (npz): arrays whose headers are held against what there is."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfcast.errors import InputError
from perfcast.files.limits import TABLE_BYTES
from perfcast.files.opening import Source
from perfcast.files.reading import read_bytes

_MOST_ARRAYS = 100_000
#: Booleans, numbers, and texts of one length.
_KINDS = "biufcUS"


def read_arrays(
    path: str | Path, *, what: str, error: type[InputError] = InputError, usual_bytes: int = TABLE_BYTES
) -> dict[str, NDArray[Any]]:
    """The arrays of an archive by name; nothing that would have to be unpickled.

    Raises:
        InputError: Of the kind asked for: it cannot be read, is over its limit as unpacked, is no such
            archive, or an array's header says something else than the archive holds.
    """
    source = Source.of(path, what, error, usual_bytes)
    data = read_bytes(path, what=what, error=error, usual_bytes=usual_bytes)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > _MOST_ARRAYS:
                source.refuse(f"more than {_MOST_ARRAYS:,} arrays")
            source.check_size(sum(entry.file_size for entry in entries))
            found = {_name(entry): _array(archive.read(entry)) for entry in entries}
    except InputError:
        raise
    except Exception as fault:  # whatever the parsers of damaged archives and headers run into
        reason = str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
        raise source.refusal(f"it is no archive of arrays ({reason})") from None
    if len(found) < len(entries):
        source.refuse("two of its arrays have one name")
    return found


def _name(entry: zipfile.ZipInfo) -> str:
    return entry.filename.removesuffix(".npy")


def _array(data: bytes) -> NDArray[Any]:
    """One array from the bytes of an ``npy`` file.

    Raises:
        ValueError: Its header is broken, or says something else than follows.
    """
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"a header of version {version}")
    read_header = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, is_fortran, dtype = read_header(file)
    if dtype.kind not in _KINDS or not dtype.itemsize:
        raise ValueError(f"elements of the type {dtype}")
    count, left = math.prod(shape), len(data) - file.tell()
    if any(size < 0 for size in shape) or count * dtype.itemsize != left:
        raise ValueError(f"a header of {'×'.join(map(str, shape)) or 1} {dtype} above {left} bytes")
    values = np.frombuffer(data, dtype, count, file.tell())
    return values.reshape(shape, order="F" if is_fortran else "C").copy()
