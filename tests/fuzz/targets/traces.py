"""Recordings: timelines, execution traces, Chakra traces, packed and plain, and all that is made of them."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz.documents import as_json, document_target, packed
from fuzz.oracle import scratch
from fuzz.target import Target
from golden.inputs import trained_step
from made_up_traces import document, event, execution_document, kernel, launch, node, tensor
from perfcast.replays.build.build import build_program
from perfcast.replays.build.sources import read_sources
from perfcast.replays.play.limits import ReplayLimits
from perfcast.traces.anonymise.trace import anonymise_trace
from perfcast.traces.chakra.from_trace import chakra_from_traces
from perfcast.traces.chakra.order import longest_path
from perfcast.traces.chakra.reader import read_chakra
from perfcast.traces.chakra.trace import ChakraAttribute, ChakraNode, ChakraTensors, ChakraTrace, NodeType
from perfcast.traces.chakra.writer import chakra_bytes
from perfcast.traces.execution_trace.reader import read_execution_trace
from perfcast.traces.kineto.reader import read_kineto, read_ranks
from perfcast.traces.link.report import report_links
from perfcast.traces.summary import summarize
from perfcast.verbs.question import question_of
from recorded_traces import two_kernels

FLOAT, LONG = "Tensor(float)", "Tensor(long int)"
MOST = 64_000_000


def _linked() -> dict[str, Any]:
    events = [
        event("ProfilerStep#4", 0, 5000, category="user_annotation"),
        event("aten::mm", 0, 100, Record_function_id=3, Input_Dims=[[2, 2]], Input_type=["float"]),
        launch(10, 5, 8),
        kernel("gemm", 200, 50, 8),
    ]
    return document(events, deviceProperties=[{"id": 0, "name": "NVIDIA H100"}])


def timelines() -> list[Any]:
    """Good ones."""
    return [two_kernels().as_dict(), trained_step(0).as_dict(), _linked()]


def execution_traces() -> list[Any]:
    """Good ones."""
    shape = [8, 4]
    relu = node(
        3,
        "aten::relu",
        inputs=[(tensor(10, 1010, shape), FLOAT, shape)],
        outputs=[(tensor(11, 1011, shape), FLOAT, shape)],
        schema="aten::relu(Tensor self) -> Tensor",
    )
    product = node(
        4,
        "aten::mm",
        inputs=[(tensor(11, 1011, shape), FLOAT, shape), (tensor(12, 1012, [4, 2]), FLOAT, [4, 2])],
        outputs=[(tensor(13, 1013, [8, 2]), FLOAT, [8, 2])],
        schema="aten::mm(Tensor self, Tensor mat2) -> Tensor",
    )
    lookup = node(
        5,
        "aten::embedding",
        inputs=[
            (tensor(22, 1022, [100, 4]), FLOAT, [100, 4]),
            (tensor(21, 1021, [8], size=8), LONG, [8]),
            (-1, "Int", []),
        ],
        outputs=[(tensor(23, 1023, shape), FLOAT, shape)],
        schema="aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1) -> Tensor",
    )
    return [execution_document([relu, product]), execution_document([lookup])]


def _linked_nodes() -> list[Any]:
    made = node(3, "aten::mm", outputs=[(tensor(5, 6, [256]), FLOAT, [256])])
    return [execution_document([made])]


def _chakra() -> list[bytes]:
    attributes = (
        ChakraAttribute("is_cpu_op", "bool", False),
        ChakraAttribute("comm_type", "int64", 6),
        ChakraAttribute("pg_name", "string", "1"),
    )
    nodes = (
        ChakraNode(1, "a", NodeType.COMPUTE, (), duration_micros=3),
        ChakraNode(
            2, "c", NodeType.COLLECTIVE, (1,), (), 7, 9, ChakraTensors("v", "s", "t"), None, attributes
        ),
    )
    return [b"".join(chakra_bytes(ChakraTrace("t.0.et", nodes, "0.0.4", rank=0)))]


def _read_chakra(path: Path) -> object:
    return longest_path(read_chakra(path, max_bytes=MOST))


def as_tar(document: Any) -> bytes:
    """A packed archive of a document and of the same of another rank."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as archive:
        for number in range(2):
            told = document.get("distributedInfo") if isinstance(document, dict) else None
            other = (
                {**document, "distributedInfo": {**told, "rank": number}} if isinstance(told, dict) else None
            )
            if number and other is None:
                break
            data = as_json(other or document)
            entry = tarfile.TarInfo(f"rank{number}.json")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return held.getvalue()


def _asked(verb: str, name: str, path: Path, **others: Any) -> object:
    from perfcast.verbs.answer import answer

    found = answer(question_of(verb, {name: [str(path)], "max_bytes": "64MiB", **others}))
    return found.to_json()


@cache
def _timeline() -> Path:
    """The other file of a linked pair."""
    path = scratch() / "timeline.json"
    path.write_bytes(as_json(_linked()))
    return path


def _linked_with(path: Path) -> object:
    ranks = read_ranks([_timeline()], max_bytes=MOST)
    return report_links([read_execution_trace(path, max_bytes=MOST)], ranks)


def _anonymised(path: Path) -> object:
    return anonymise_trace(path, os.devnull, salt="s", max_bytes=MOST)


def _program(path: Path) -> object:
    limits = ReplayLimits(max_calls=1000)
    return [
        build_program(source.execution_trace, limits=limits) for source in read_sources(path, max_bytes=MOST)
    ]


def _of(
    name: str,
    read: Callable[[Path], object],
    documents: Callable[[], Sequence[Any]],
    *,
    write: Callable[[Any], bytes] = as_json,
    file_name: str = "trace.json",
    **others: Any,
) -> Target:
    return document_target(f"trace/{name}", read, documents, write=write, file_name=file_name, **others)


WORDS = (
    "ProfilerStep#1",
    "cpu_op",
    "kernel",
    "X",
    "B",
    "E",
    "aten::mm",
    "Input Dims",
    "correlation",
    "External id",
    "Record function id",
    "Process Group Ranks",
    "[0, 1]",
    "Collective name",
    "allreduce",
    "GenericList[Int]",
    "Tensor(float)",
    "Tuple[]",
    "Device",
    "1.0.1",
    "1.1.1-chakra.0.0.4",
)

TARGETS = (
    _of("kineto", partial(read_kineto, max_bytes=MOST), timelines, words=WORDS),
    _of(
        "kineto-packed",
        partial(read_kineto, max_bytes=MOST),
        timelines,
        write=packed(as_json),
        file_name="trace.json.gz",
    ),
    _of(
        "kineto-archive",
        lambda path: read_ranks([path], max_bytes=MOST),
        timelines,
        write=as_tar,
        file_name="traces.tar.gz",
    ),
    _of("cut-off", partial(read_kineto, max_bytes=MOST, is_truncated_allowed=True), timelines, words=WORDS),
    _of("execution", partial(read_execution_trace, max_bytes=MOST), execution_traces, words=WORDS),
    _of(
        "info", lambda path: summarize([path], MOST), lambda: [*timelines(), *execution_traces()], words=WORDS
    ),
    _of(
        "explain", partial(_asked, "trace explain", "traces"), timelines, words=WORDS, share=0.2, seconds=15.0
    ),
    _of(
        "forecast",
        partial(_asked, "trace forecast", "traces", device="a100-80gb"),
        timelines,
        words=WORDS,
        share=0.1,
        usual=5,
        seconds=20.0,
    ),
    _of(
        "to-chakra",
        lambda path: chakra_from_traces([read_kineto(path, max_bytes=MOST)]),
        timelines,
        words=WORDS,
        share=0.3,
    ),
    _of("link", _linked_with, _linked_nodes, words=WORDS),
    _of("anonymise", _anonymised, lambda: [*timelines(), *execution_traces()], words=WORDS),
    _of("replay", _program, execution_traces, words=WORDS, share=0.3, seconds=15.0),
    Target(name="trace/chakra", run=_read_chakra, seeds=_chakra, file_name="t.0.et"),
    Target(
        name="trace/chakra-packed",
        run=_read_chakra,
        seeds=lambda: [gzip.compress(one) for one in _chakra()],
        file_name="t.0.et.gz",
    ),
)
