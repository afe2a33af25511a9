from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.errors import TraceError
from perfcast.traces.files.json_stream import JsonStream

KEYS = frozenset({"events"})
texts = st.text(alphabet='ab"\\{}[],: \n\té😀', max_size=12)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
items = st.lists(st.dictionaries(texts, values, max_size=3), max_size=6)
headers = st.dictionaries(texts.filter(lambda key: key != "events"), values, max_size=3)


def stream(text: str | bytes, block: int, **options: Any) -> tuple[list[Any], JsonStream]:
    data = text.encode() if isinstance(text, str) else text
    found = JsonStream((data[i : i + block] for i in range(0, len(data), block)), "file", KEYS, **options)
    return [item for batch in found for item in batch.items], found


@settings(max_examples=120, deadline=None)
@given(headers, items, headers, st.integers(1, 50), st.sampled_from([None, 1]), st.booleans())
def test_a_document_cut_anywhere_gives_what_a_parser_gives(
    before: dict[str, Any],
    events: list[Any],
    after: dict[str, Any],
    block: int,
    indent: int | None,
    ascii_only: bool,
):
    document = {**before, "events": events, **{k: v for k, v in after.items() if k not in before}}
    found, parsed = stream(json.dumps(document, indent=indent, ensure_ascii=ascii_only), block)
    assert found == events
    assert parsed.header == {**document, "events": []}


@settings(max_examples=50, deadline=None)
@given(items, st.integers(1, 50))
def test_an_array_alone_is_a_document_too(events: list[Any], block: int):
    found, parsed = stream(json.dumps(events), block)
    assert found == events
    assert parsed.header == {}


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | texts.map(str.encode), st.integers(1, 50))
def test_any_bytes_are_read_or_refused(data: bytes, block: int):
    for prefix in (b"", b'{"events": [', b'{"events": [{"a": "'):
        with contextlib.suppress(TraceError):
            stream(prefix + data, block)


def test_a_key_in_a_string_or_deeper_down_is_not_the_array():
    text = '{"note": "\\"events\\": [", "inner": {"events": [1]}, "events": [{"a": 1}]}'
    found, parsed = stream(text, 7)
    assert found == [{"a": 1}]
    assert parsed.header["inner"] == {"events": [1]}


@pytest.mark.parametrize("cut", range(14, 40))
def test_a_truncated_document_says_so_wherever_it_ends(cut: int):
    text = '{"a": 1, "events": [{"x": "y"}, {"z": [1, 2]}], "b": 2}'[:cut]
    with pytest.raises(TraceError, match="truncated"):
        stream(text, 8)


def test_what_is_whole_of_a_truncated_document_is_read_where_allowed():
    found, parsed = stream('{"a": 1, "events": [{"x": "y"}, {"z": 1}, {"q":', 8, is_truncated_allowed=True)
    assert found == [{"x": "y"}, {"z": 1}]
    assert parsed.header == {"a": 1, "events": []}
    assert "truncated after 47 bytes" in parsed.warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("hello", "is not JSON: it starts with"),
        ('{"events": [{"a": 1} {"b": 2}]}', "not JSON among its events"),
        ('{"events": [{"a": }]}', "not JSON among its events"),
        ('{"events": [}', "truncated"),
        ('{"events": [}]', "is not JSON"),
        ('{"events": []}}', "a closing bracket too many"),
        ("[" * 500, "nested more than 100 deep"),
        ('{"a": nonsense}', "is not JSON"),
    ],
)
def test_what_is_no_json_is_named(text: str, message: str):
    with pytest.raises(TraceError, match=message):
        stream(text, 1000)


def test_an_event_that_never_ends_is_given_up_in_bounded_memory():
    blocks = (b'{"events": [{"name": "' if i == 0 else b"a" * 2**21 for i in range(64))
    with pytest.raises(TraceError, match=r"an event of more than 64\.0 MiB"):
        list(JsonStream(blocks, "file", KEYS))


def test_a_header_that_never_ends_is_given_up_in_bounded_memory():
    blocks = (b'{"name": "' if i == 0 else b"a" * 2**21 for i in range(64))
    with pytest.raises(TraceError, match="outside its array"):
        list(JsonStream(blocks, "file", KEYS))
