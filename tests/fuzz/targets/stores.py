"""What perfcast keeps: records, captured steps, results; the unpacking and tables that all readers share."""

from __future__ import annotations

import gzip
import lzma
import random
import warnings
import zlib
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fuzz.documents import MARK, as_json, as_json_lines, document_target
from fuzz.oracle import scratch
from fuzz.target import Draw, Target
from perfcast.files.lock import StoreWarning
from perfcast.files.reading import open_unpacked
from perfcast.files.reading_tables import read_frame
from perfcast.files.records import open_records, read_records
from perfcast.measure.collectives.store import KIND
from perfcast.verbs.answer import answer
from perfcast.verbs.explain_result.kept import read_result
from perfcast.verbs.question import question_of
from perfcast.workload.kept.encoding import MAGIC, DamagedError, decode

_RECORD = {
    "setup": "gloo dp=2",
    "axis": "dp",
    "collective": "all_reduce",
    "wanted_bytes": 1024,
    "axis_size": 2,
    "size_bytes": 1024,
    "seconds": 1e-4,
    "spread": 0.1,
    "num_disturbed": 0,
}


def _records(path: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        return read_records(path, KIND)


@cache
def _written() -> bytes:
    """A file as it is written."""
    path = scratch() / "written.jsonl"
    with open_records(path, KIND) as file:
        for size in (1024, 2048, 4096):
            file.append({**_RECORD, "wanted_bytes": size})
    return path.read_bytes()


def _unpacked(path: Path) -> object:
    with open_unpacked(path, what="a file") as file:
        return sum(len(block) for block in iter(lambda: file.read(1 << 20), b""))


@cache
def _zeros(packed_by: str) -> bytes:
    """Two hundred million zeros."""
    zeros = bytes(200_000_000)
    return lzma.compress(zeros, preset=0) if packed_by == "xz" else gzip.compress(zeros, 1, mtime=0)


def _packed(data: bytes) -> bytes:
    """What a file of packed bytes may be: whole, in several members, cut off, or far larger than it looks."""
    if not data.startswith(MARK):
        return data
    draw = Draw(data[1:])
    if draw.chance(2):
        return _zeros(draw.choice(("xz", "gz")))
    parts = [draw.choice((gzip.compress, lzma.compress))(draw.taken(200)) for _ in range(1 + draw.below(3))]
    whole = bytearray(b"".join(parts))
    for _ in range(draw.below(3)):
        whole[draw.below(len(whole))] = draw.byte()
    return bytes(whole[: draw.below(len(whole) + 1)]) if draw.chance(30) else bytes(whole)


def _capture(data: bytes) -> object:
    """A kept step; what is none is refused by the one error that its store knows."""
    try:
        return decode(data, "key")
    except DamagedError:
        return None


def _as_capture(document: Any) -> bytes:
    body = zlib.compress(as_json(document), 1)
    return MAGIC + blake2b(body, digest_size=32).digest() + body


def _captures() -> list[Any]:
    names = "types texts operations nodes tensors storages graph sizes parameters phases kinds".split()
    return [{"key": "key"} | {name: [] for name in names}, {"key": "key"}]


@cache
def _result() -> list[Any]:
    """A small result as it is written."""
    import json

    asked = {"cluster": "dgx-h100:8", "collective": "all_reduce", "bytes": "1MB"}
    return [json.loads(answer(question_of("mesh cost", asked)).to_json())]


def _drawn(number: int) -> list[bytes]:
    drawn = random.Random(number)
    return [MARK + drawn.randbytes(60) for _ in range(number)]


_CSV = b"name,m,n,k,seconds\na,1,2,3,0.5\nb,4,5,6,1e-3\n"

TARGETS = (
    Target(name="store/records", run=_records, seeds=lambda: [_written()], file_name="records.jsonl"),
    document_target(
        "store/older-records",
        _records,
        lambda: [[_RECORD, _RECORD]],
        write=as_json_lines,
        file_name="old.jsonl",
    ),
    document_target("store/capture", _capture, _captures, write=_as_capture),
    document_target(
        "store/result",
        read_result,
        _result,
        file_name="result.json",
        words=(
            "mesh cost",
            "predict",
            "search",
            "perfcast",
            "origin",
            "question",
            "/etc/passwd",
            "x.py:build",
        ),
    ),
    Target(
        name="store/packed",
        run=_unpacked,
        seeds=lambda: [gzip.compress(b"a"), lzma.compress(b"a"), *_drawn(12)],
        expand=_packed,
        file_name="packed",
    ),
    Target(
        name="store/table",
        run=lambda path: read_frame(path, what="a table"),
        seeds=lambda: [_CSV],
        words=(",", "\n", '"', "nan", "1e999", "9" * 400, "\x00", "\xff"),
        file_name="table.csv",
    ),
    Target(
        name="store/table-packed",
        run=lambda path: read_frame(path, what="a table"),
        seeds=lambda: [gzip.compress(_CSV), *_drawn(12)],
        expand=_packed,
        file_name="table.csv.gz",
    ),
)
