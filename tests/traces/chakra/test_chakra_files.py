"""Chakra's files: what is written is read again, byte for byte the published format, and nothing else is."""

from __future__ import annotations

import contextlib
import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.errors import TraceError
from perfcast.traces.chakra import reader as chakra_reader
from perfcast.traces.chakra.order import in_order, longest_path, missing_dependencies
from perfcast.traces.chakra.reader import read_chakra
from perfcast.traces.chakra.trace import (
    SCALAR_KINDS,
    ChakraAttribute,
    ChakraNode,
    ChakraTensors,
    ChakraTrace,
    NodeType,
)
from perfcast.traces.chakra.writer import chakra_bytes, write_chakra


def trace_of(*nodes: ChakraNode) -> ChakraTrace:
    return ChakraTrace("t.0.et", nodes, "0.0.4", rank=0)


def node(number: int, *deps: int, micros: int = 1) -> ChakraNode:
    return ChakraNode(number, f"n{number}", NodeType.COMPUTE, deps, duration_micros=micros)


def test_the_bytes_are_those_of_the_published_schema() -> None:
    attributes = (
        ChakraAttribute("is_cpu_op", "bool", False),
        ChakraAttribute("comm_type", "int64", 6),
        ChakraAttribute("pg_name", "string", "1"),
    )
    one = ChakraNode(
        300, "c", NodeType.COLLECTIVE, (5,), (), 7, 9, ChakraTensors("v", "s", "t"), None, attributes
    )
    data = b"".join(chakra_bytes(trace_of(one)))
    # Field numbers: 1 id, 2 name, 3 type, 5 data_deps, 6 start, 7 duration, 8 inputs, 10 attr;
    # of an attribute: 1 name, 9 int64_val, 27 bool_val, 29 string_val.
    expected_node = (
        b"\x08\xac\x02" b"\x12\x01c" b"\x18\x07" b"\x2a\x01\x05" b"\x30\x07" b"\x38\x09"
        b"\x42\x09\x0a\x01v\x12\x01s\x1a\x01t"
        b"\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x00"
        b"\x52\x0d\x0a\x09comm_type\x48\x06"
        b"\x52\x0d\x0a\x07pg_name\xea\x01\x011"
    )  # fmt: skip
    assert data == b"\x07\x0a\x050.0.4" + bytes([len(expected_node)]) + expected_node


@pytest.mark.parametrize("name", ["t.3.et", "t.3.et.gz"])
def test_a_file_says_its_rank_and_may_be_packed(tmp_path: Path, name: str) -> None:
    trace = trace_of(node(0), node(1, 0))
    write_chakra(trace, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert read_chakra(tmp_path / name) == replace(trace, source=name, rank=3)


_NUMBERS = {
    "double": st.floats(allow_nan=False), "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(), "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    "bytes": st.binary(max_size=8),
}  # fmt: skip


def _scalars(kind: str) -> st.SearchStrategy[object]:
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    bits = 64 if "64" in kind else 32
    if kind.startswith(("uint", "fixed")):
        return st.integers(0, 2**bits - 1)
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def _attributes(draw: st.DrawFn) -> ChakraAttribute:
    kind = draw(st.sampled_from(SCALAR_KINDS))
    value: object = draw(_scalars(kind))
    form = draw(st.sampled_from(["", "one", "list"]))
    text = draw(_NUMBERS["string"])
    if form == "":
        return ChakraAttribute(text, "", "", text)
    if form == "list":
        return ChakraAttribute(text, f"{kind}_list", tuple(draw(st.lists(_scalars(kind), max_size=3))))
    return ChakraAttribute(text, kind, value)


_TENSORS = st.none() | st.builds(ChakraTensors, _NUMBERS["string"], _NUMBERS["string"], _NUMBERS["string"])
_UINT64 = st.integers(0, 2**64 - 1)


@st.composite
def _traces(draw: st.DrawFn) -> ChakraTrace:
    ids = draw(st.lists(_UINT64, unique=True, max_size=5))
    nodes = [
        ChakraNode(
            number, draw(_NUMBERS["string"]), draw(st.integers(0, 12)),
            tuple(draw(st.lists(st.sampled_from(ids[:place]), max_size=3))) if place else (),
            tuple(draw(st.lists(_UINT64, max_size=2))), draw(_UINT64), draw(_UINT64), draw(_TENSORS),
            draw(_TENSORS), tuple(draw(st.lists(_attributes(), max_size=3))), draw(st.binary(max_size=4)),
        )
        for place, number in enumerate(ids)
    ]  # fmt: skip
    attributes = tuple(draw(st.lists(_attributes(), max_size=2)))
    return ChakraTrace("t.0.et", tuple(nodes), draw(_NUMBERS["string"]), attributes, 0)


@settings(max_examples=60, deadline=None)
@given(_traces())
def test_the_round_trip_loses_nothing(trace: ChakraTrace) -> None:
    member = chakra_reader.Member("t.0.et", iter([b"".join(chakra_bytes(trace))]))
    assert chakra_reader._read(member) == trace


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_read_or_refused_but_never_crashes(data: bytes) -> None:
    with contextlib.suppress(TraceError):
        chakra_reader._read(chakra_reader.Member("noise.et", iter([data])))


def test_a_file_cut_anywhere_inside_a_message_is_refused() -> None:
    data = b"".join(chakra_bytes(trace_of(node(0), node(1, 0))))
    first = len(b"".join(chakra_bytes(trace_of())))
    with pytest.raises(TraceError, match="truncated"):
        chakra_reader._read(chakra_reader.Member("t.et", iter([data[:-1]])))
    assert chakra_reader._read(chakra_reader.Member("t.et", iter([data[:first]]))).nodes == ()


def test_blocks_may_end_anywhere() -> None:
    trace = trace_of(node(0), node(1, 0), node(2, 0, 1))
    data = b"".join(chakra_bytes(trace))
    blocks = (data[at : at + 1] for at in range(len(data)))
    assert chakra_reader._read(chakra_reader.Member("t.0.et", blocks)) == trace


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((node(1), node(1)), "two nodes have the id 1"),
        ((node(1, 2), node(2, 1)), "in a circle"),
        ((node(1, 1),), "in a circle"),
    ],
)
def test_hostile_graphs_are_refused(tmp_path: Path, nodes: tuple[ChakraNode, ...], message: str) -> None:
    write_chakra(trace_of(*nodes), tmp_path / "h.0.et")
    with pytest.raises(TraceError, match=message):
        read_chakra(tmp_path / "h.0.et")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.et").touch()
    with pytest.raises(TraceError, match="it is empty"):
        read_chakra(tmp_path / "empty.et")


def test_a_length_beyond_all_messages_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "huge.et"
    path.write_bytes(b"\x07\x0a\x050.0.4" + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
    with pytest.raises(TraceError, match=r"a message of more than 16\.0 MiB"):
        read_chakra(path)


def test_what_a_file_asks_for_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakra_reader, "MAX_ITEMS", 10)
    listed = ChakraNode(0, "n", 4, attributes=(ChakraAttribute("a", "bool_list", (True,) * 10),))
    write_chakra(trace_of(listed), tmp_path / "big.et")
    with pytest.raises(TraceError, match="more than 10 nodes"):
        read_chakra(tmp_path / "big.et")


def test_a_small_file_that_unpacks_to_much_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "bomb.et.gz").write_bytes(gzip.compress(bytes(3_000_000)))
    with pytest.raises(TraceError, match="--max-bytes"):
        read_chakra(tmp_path / "bomb.et.gz", max_bytes=1000)


def test_the_longest_path_is_the_longest_chain() -> None:
    trace = trace_of(node(0, micros=5), node(1, 0, micros=7), node(2, 0, micros=1), node(3, 1, 2, micros=2))
    assert longest_path(trace).micros == 14
    assert longest_path(trace).nodes == (0, 1, 3)


def test_callers_and_nodes_left_out_are_not_waited_for() -> None:
    trace = trace_of(replace(node(0, micros=3), ctrl_deps=(1,)), replace(node(1, 0, 99), ctrl_deps=(0,)))
    assert [one.id for one in in_order(trace)] == [0, 1]
    assert longest_path(trace).micros == 4
    assert missing_dependencies(trace) == ((1, 99),)
