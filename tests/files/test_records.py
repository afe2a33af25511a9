from __future__ import annotations

import json
import os
import random
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import InputError
from perfcast.files import records as module
from perfcast.files.lock import StoreWarning
from perfcast.files.records import Kind, Plain, open_records, read_records, set_aside


def _parse(data: Plain) -> tuple[str, float]:
    return str(data["key"]), float(data["seconds"])


KIND = Kind("calibration", 1, _parse, {"device": "cpu"}, elsewhere="name another with --output")


def _record(i: int) -> dict[str, Any]:
    return {"key": f"copy n={i}", "seconds": i / 8, "features": {"family": "copy", "flops": i}}


def _write(path: Path, *numbers: int) -> None:
    with open_records(path, KIND) as store:
        store.append(*map(_record, numbers))


def _numbers(path: Path) -> list[int]:
    return [int(key.partition("=")[2]) for key, _ in read_records(path, KIND).records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.jsonl"


def test_a_line_is_json_with_a_checksum_of_itself_behind_a_header_that_says_what_the_file_is_of(path):
    _write(path, 1)
    header, line = map(json.loads, path.read_text().splitlines())
    assert {k: header[k] for k in ("perfcast", "kind", "version", "asked")} == {
        "perfcast": "records",
        "kind": "calibration",
        "version": 1,
        "asked": {"device": "cpu"},
    }
    assert line.keys() == {"key", "seconds", "features", "crc"}


def test_records_come_back_in_their_order_over_several_openings(path):
    _write(path, 1, 2)
    _write(path)
    _write(path, 3)
    assert _numbers(path) == [1, 2, 3]
    assert [p.name for p in path.parent.iterdir() if not p.name.startswith(".")] == ["m.jsonl"]


def test_a_file_that_is_not_there_holds_nothing(path):
    assert read_records(path, KIND).records == ()
    with open_records(path, KIND) as store:
        assert store.records == ()


@given(cut=st.integers(0, 2000), seed=st.integers(0, 9))
def test_a_file_cut_anywhere_keeps_every_whole_line_and_the_next_record_is_not_swallowed(
    tmp_path_factory, cut, seed
):
    path = tmp_path_factory.mktemp("cut") / "m.jsonl"
    numbers = random.Random(seed).sample(range(1000), 5)
    _write(path, *numbers)
    data = path.read_bytes()
    header = data.index(b"\n") + 1
    cut = header + cut % (len(data) - header)  # the header is written whole or not at all
    path.write_bytes(data[:cut])
    whole = data[:cut].count(b"\n") - 1 + (data[cut : cut + 1] == b"\n")
    is_torn = not data[:cut].endswith(b"\n") and data[cut : cut + 1] != b"\n"
    with pytest.warns(StoreWarning, match="was cut off") if is_torn else nullcontext():
        _write(path, 5000)
    assert _numbers(path) == [*numbers[:whole], 5000]


@pytest.mark.parametrize("times", [1, 2])
def test_torn_lines_of_older_versions_do_not_swallow_what_came_after_them(path, times):
    torn = '{"key": "copy n=7", "seconds": 0.5, "features": {"fam'
    lines = [json.dumps(_record(1))]
    for i in range(times):
        lines.append(torn + json.dumps(_record(10 + i)))  # what appending to a torn line left
        lines.append(json.dumps(_record(20 + i)))
    path.write_text("\n".join(lines) + "\n" + torn)
    with pytest.warns(StoreWarning, match="damaged"):
        _write(path, 30)
    wanted = [1, *(n for i in range(times) for n in (10 + i, 20 + i)), 30]
    assert _numbers(path) == wanted
    kept = (path.parent / "m.jsonl.damaged").read_text().splitlines()
    assert set(kept) == {torn}


def test_a_file_of_older_versions_is_read_as_it_is_and_gets_checksums_when_it_is_written_to(path):
    path.write_text("".join(json.dumps(_record(i)) + "\n" for i in (1, 2)))
    before = path.read_bytes()
    assert _numbers(path) == [1, 2]
    assert path.read_bytes() == before
    _write(path, 3)
    assert _numbers(path) == [1, 2, 3]
    assert all('"crc": "' in line for line in path.read_text().splitlines())


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_its_line_alone_is_named_and_kept_beside(tmp_path_factory, place, bit):
    path = tmp_path_factory.mktemp("bit") / "m.jsonl"
    _write(path, *range(5))
    data = bytearray(path.read_bytes())
    place %= len(data)
    data[place] ^= 1 << bit
    path.write_bytes(bytes(data))
    ends = data[place] == 10 or data[place] ^ (1 << bit) == 10
    lost = {4, 3, 2, 1, 0} - set(_numbers_quietly(path))
    assert len(lost) <= 1 + ends  # a newline made or lost touches the line behind it
    if lost:
        with pytest.warns(StoreWarning, match=r"line \d"):
            _write(path)
        assert (path.parent / "m.jsonl.damaged").exists()
    assert _numbers_quietly(path) == [i for i in range(5) if i not in lost]


def _numbers_quietly(path: Path) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        return _numbers(path)


def test_a_damaged_line_in_the_middle_is_named_by_its_number(path):
    _write(path, 1, 2, 3)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2].replace("0.25", "0.35"), lines[3]]))
    with pytest.warns(StoreWarning, match=r"m\.jsonl: line 3 is damaged and left out"):
        assert _numbers(path) == [1, 3]
    with pytest.warns(StoreWarning, match=r"line 3 is damaged; kept in m\.jsonl\.damaged"):
        _write(path, 2)
    assert _numbers(path) == [1, 3, 2]


def test_a_damaged_header_costs_no_record(path):
    _write(path, 1, 2)
    path.write_text(path.read_text().replace('"calibration"', '"calibratiom"'))
    with pytest.warns(StoreWarning):
        _write(path, 3)
    assert _numbers(path) == [1, 2, 3]


def test_a_line_of_another_file_is_not_taken_for_one_of_this(path):
    other = path.with_name("other.jsonl")
    with open_records(other, Kind("calibration", 1, _parse, {"device": "cuda"})) as store:
        store.append(_record(9))
    _write(path, 1)
    path.write_bytes(path.read_bytes() + other.read_bytes().splitlines(keepends=True)[1])
    with pytest.warns(StoreWarning):
        assert _numbers(path) == [1]


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (Kind("mesh profile", 1, _parse, {"device": "cpu"}), "kind"),
        (Kind("calibration", 2, _parse, {"device": "cpu"}), "version"),
        (Kind("calibration", 1, _parse, {"device": "cuda"}), "question"),
    ],
)
@pytest.mark.parametrize("restart_first", [False, True])
def test_a_file_of_another_kind_version_or_question_is_refused_and_left_as_it_is(
    path, other, word, restart_first
):
    _write(path, 1)
    before = path.read_bytes()
    with pytest.raises(InputError, match=f"another {word}"), open_records(path, other):
        pass
    with pytest.raises(InputError, match=f"another {word}"):
        read_records(path, other)
    assert path.read_bytes() == before


def test_restarting_keeps_what_was_there_beside_every_time(path):
    for i in (1, 2, 3):
        with open_records(path, KIND, restart=True) as store:
            assert store.records == ()
            store.append(_record(i))
    assert _numbers(path) == [3]
    assert _numbers(path.with_name("m.jsonl.old")) == [1]
    assert _numbers(path.with_name("m.jsonl.old-2")) == [2]


def test_setting_aside_what_is_not_there_is_nothing(path):
    assert set_aside(path) is None


@pytest.mark.parametrize("written", [0, 1, 40])
def test_a_full_disk_is_one_line_and_leaves_whole_records_only(path, monkeypatch, written):
    _write(path, 1)
    before = path.read_bytes()
    write = os.write
    room = [written]

    def full(descriptor: int, data: Any) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        count, room[0] = write(descriptor, bytes(data)[: room[0]]), 0
        return count

    with open_records(path, KIND) as store:
        monkeypatch.setattr(module.os, "write", full)
        with pytest.raises(
            InputError, match=r"no space left on device. The 1 records that it holds are kept"
        ):
            store.append(_record(2))
        monkeypatch.setattr(module.os, "write", write)
        assert path.read_bytes() == before
        store.append(_record(2))
    assert _numbers(path) == [1, 2]


def test_what_is_no_record_is_refused_before_it_is_written(path):
    _write(path, 1)
    with open_records(path, KIND) as store:
        for bad in ({"key": "x"}, {"key": "x", "seconds": float("nan")}, {**_record(1), "crc": "0"}):
            with pytest.raises((KeyError, ValueError)):
                store.append(_record(5), bad)
    assert _numbers(path) == [1]


def test_a_reader_beside_a_writer_sees_whole_lines_and_says_nothing(path):
    _write(path, 1, 2)
    path.write_bytes(path.read_bytes()[:-9])  # as it is while the second is being written
    assert _numbers(path) == [1]


@given(data=st.binary(max_size=300))
def test_whatever_a_file_holds_it_is_opened_and_nothing_of_it_is_lost(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "m.jsonl"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        _write(path, 1)
    beside = path.with_name("m.jsonl.damaged")
    kept = beside.read_bytes().split(b"\n") if beside.exists() else []
    assert all(line in kept for line in data.split(b"\n") if line.strip())
    assert _numbers(path) == [1]
