"""Files of arrays: npz with headers that lie, parquet with columns of other types, weights."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.documents import MARK, as_json, document_target, packed
from fuzz.target import Draw, Target
from perfcast.cost.embedding.learned import load_embedding_weights
from perfcast.cost.learned.store import WEIGHTS, load_family
from perfcast.published.nets.archive import read_archive
from perfcast.searches.sharding.inputs.index_samples import load_samples

_DTYPES = (
    "<i8",
    "<f4",
    "<i4",
    "|u1",
    "<f8",
    "|b1",
    "<U4",
    "|S3",
    "<c8",
    "<M8[s]",
    "|O",
    "<i8,<f4",
    "<V8",
    ">i2",
    "<f2",
)
_SHAPES = ((3,), (), (0,), (2, 2), (1,) * 33, (10**12,), (2**62, 4), (-1,), (2**63,), (1, 2, 3))
_NAMES = (
    "t.indices",
    "t.offsets",
    "u.indices",
    "notes",
    "x",
    "",
    "../x",
    "t.",
    ".indices",
    "é",
    "net.0.weight",
)


def _array(draw: Draw) -> bytes:
    """One array as numpy writes it, or with a header that says something else."""
    if draw.chance(50):
        values = np.array(draw.some((0, 1, 2, 5, -1, 2**31), 5)).astype(draw.choice(("i8", "i4", "u1", "f4")))
        held = io.BytesIO()
        np.save(held, values)
        return held.getvalue()
    order = draw.choice(("False", "True", "None"))
    kind, shape = draw.choice(_DTYPES), draw.choice(_SHAPES)
    header = f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if draw.chance(10):
        header = draw.choice(("", "{}", "[" * 3000, "__import__('os')", "{'descr': 1}", "\x00", "(" * 100))
    text = header.encode() + b" " * 3 + b"\n"
    version = draw.choice((b"\x01\x00", b"\x02\x00", b"\x09\x00"))
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + version + size + text + bytes(draw.below(64))


@cache
def _zeros() -> bytes:
    """A hundred million zeros, which a file packs into a hundred thousand bytes."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.indices.npy", bytes(100_000_000))
    return held.getvalue()


def _npz(draw: Draw) -> bytes:
    if draw.chance(2):
        return _zeros()
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name in dict.fromkeys(draw.some(_NAMES, 4)):
            ending = draw.choice((".npy", ".npy", ".npy", "", ".txt"))
            archive.writestr(name + ending or "_", as_json({"a": 1}) if draw.chance(10) else _array(draw))
    data = held.getvalue()
    return data[: draw.below(len(data))] if draw.chance(5) else data


def _good_npz() -> bytes:
    held = io.BytesIO()
    np.savez(held, **{"t.indices": np.array([1, 2, 3]), "t.offsets": np.array([0, 2])})
    return held.getvalue()


def _good_archive() -> bytes:
    held = io.BytesIO()
    notes = np.frombuffer(json.dumps({"a": 1}).encode(), dtype=np.uint8)
    np.savez(held, notes=notes, **{"net.0.weight": np.ones((2, 2), np.float32)})
    return held.getvalue()


def _parquet(draw: Draw) -> bytes:
    import polars

    values: tuple[list[Any], ...] = (
        ["t", "t", "u"],
        [0, 1, 1],
        [0, 5, 9],
        [None, 1, 2],
        [0.5, 1.0, 2.0],
        [-1, 0, 1],
        [2**62, 1, 0],
        [[1], [2], []],
        [True, False, None],
        [{"a": 1}, {"a": 2}, {"a": 3}],
        ["1", "2", "x"],
        [b"1", b"2", b"3"],
        [],
        [3e18, 1e300, float("nan")],
    )
    names = draw.choice((("table", "bag", "index"), ("table", "bag"), ("table", "bag", "index", "x")))
    columns = {name: draw.choice(values) for name in names}
    if draw.chance(40):
        columns |= {"table": ["t", "t", "u"]}
    size = min(map(len, columns.values()))
    try:
        frame = polars.DataFrame({name: column[:size] for name, column in columns.items()}, strict=False)
        held = io.BytesIO()
        frame.write_parquet(held, compression=draw.choice(("zstd", "uncompressed", "snappy", "gzip")))
    except (polars.exceptions.PolarsError, TypeError, OverflowError):
        return b"PAR1"
    data = bytearray(held.getvalue())
    for _ in range(draw.below(4)):
        data[draw.below(len(data))] = draw.byte()
    return bytes(data)


def _good_parquet() -> bytes:
    import polars

    held = io.BytesIO()
    polars.DataFrame({"table": ["t", "t", "u"], "bag": [0, 1, 1], "index": [0, 5, 9]}).write_parquet(held)
    return held.getvalue()


def _target(
    name: str,
    read: Callable[[Path], object],
    file_name: str,
    make: Callable[[Draw], bytes],
    good: Callable[[], bytes],
) -> Target:
    def expand(data: bytes) -> bytes:
        return make(Draw(data[1:])) if data.startswith(MARK) else data

    def seeds() -> list[bytes]:
        drawn = random.Random(name)
        return [good(), *(MARK + drawn.randbytes(60) for _ in range(15))]

    return Target(name=f"array/{name}", run=read, seeds=seeds, file_name=file_name, expand=expand, usual=30)


def _family(path: Path) -> object:
    from perfcast.cost.learned.store import _load

    _load.cache_clear()
    return load_family("scan", path.parent)


@cache
def _small_family() -> list[Any]:
    """A shipped family, its lists cut."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cut(one) for key, one in value.items()}
        return [cut(one) for one in value[:8]] if isinstance(value, list) else value

    whole = json.loads(gzip.decompress((WEIGHTS / "scan.json.gz").read_bytes()))
    return [cut(whole)]


def _embedding_weights() -> list[Any]:
    from perfcast.cost.embedding import learned

    net = {
        "rates": [1.0],
        "mean": [0.0],
        "scale": [1.0],
        "hidden_weights": [[1.0]],
        "hidden_bias": [0.0],
        "output_weights": [1.0],
        "output_bias": 0.0,
        "step_seconds": 1e-6,
    }
    phases = {"forward": [net], "backward": [net]}
    optimizers = {"sgd": {"spread": {"forward": 0.1, "backward": 0.1}, "members": phases}}
    return [{"schema": learned.SCHEMA, "record": {}, "optimizers": optimizers}]


TARGETS = (
    _target("samples", load_samples, "samples.npz", _npz, _good_npz),
    _target("archive", read_archive, "weights.npz", _npz, _good_archive),
    _target("parquet", load_samples, "samples.parquet", _parquet, _good_parquet),
    document_target(
        "array/family", _family, _small_family, write=packed(as_json), file_name="scan.json.gz", share=0.05
    ),
    document_target(
        "array/embedding-weights", load_embedding_weights, _embedding_weights, file_name="weights.json"
    ),
)
