"""Captured steps are kept as they are, are never believed when damaged, and spare torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.captured import CapturedStep, StepSizes
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Storage, Tensor, TensorType
from perfcast.workload.kept.encoding import MAGIC, DamagedError, decode, encode
from perfcast.workload.kept.store import Captures, captures_folder, clear, kept_files

MATRIX = TensorType((4, 8), DType.BF16, (8, 1))


def step(num_nodes: int = 3, note: str = "a note") -> CapturedStep:
    product = Operation(
        OperationKind.MATMUL, "aten.mm", (MATRIX, MATRIX), (MATRIX,), DType.BF16, 7, 8, 9, 1,
        (("causal", True), ("rate", 0.1), ("rows", 3), ("way", "a")),
    )  # fmt: skip
    nodes = tuple(
        Node(0, Phase.BACKWARD if i % 2 else Phase.FORWARD, f"layers.{i}", (0, 1), (1,), bool(i % 2), 0, i, 2)
        for i in range(num_nodes)
    )
    storages = (
        Storage(64, "parameter", -1, None),
        Storage(64, "temporary", 0, num_nodes - 1, "file.py:3 in f"),
    )
    graph = Graph(nodes, (product,), (Tensor(MATRIX, 0), Tensor(MATRIX, 1)), storages, 32, (note,))
    return CapturedStep(graph, StepSizes(4, None))


def fail() -> CapturedStep:
    raise AssertionError("captured although it was kept")


def only_file(folder: Path) -> Path:
    (found,) = folder.glob("*.capture")
    return found


def test_a_step_is_read_as_it_was_written():
    assert decode(encode(step(), "key"), "key") == step()


def test_a_step_without_nodes_is_read_as_it_was_written():
    empty = CapturedStep(Graph((), (), (), ()), StepSizes(1, 7))
    assert decode(encode(empty, "key"), "key") == empty


def test_a_step_of_another_key_is_not_believed():
    with pytest.raises(DamagedError):
        decode(encode(step(), "key"), "another")


@given(st.data())
def test_no_flipped_bit_is_believed(data: st.DataObject):
    whole = bytearray(encode(step(), "key"))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamagedError):
        decode(bytes(whole), "key")


@given(st.integers(min_value=0))
def test_no_truncated_file_is_believed(length: int):
    whole = encode(step(), "key")
    with pytest.raises(DamagedError):
        decode(whole[: length % len(whole)], "key")


def written(plain: object) -> bytes:
    """A file with a true checksum of something else."""
    import zlib
    from hashlib import blake2b

    body = zlib.compress(json.dumps(plain).encode())
    return MAGIC + blake2b(body, digest_size=32).digest() + body


def plain_of(whole: bytes) -> dict[str, dict[str, list[object]]]:
    import zlib

    return json.loads(zlib.decompress(whole[len(MAGIC) + 32 :]))


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("nodes", "operation", 1),
        ("nodes", "operation", -1),
        ("nodes", "operation", 0.0),
        ("nodes", "operation", True),
        ("nodes", "inputs", [2]),
        ("nodes", "outputs", [-1]),
        ("nodes", "phase", 99),
        ("nodes", "recomputed", 2),
        ("tensors", "storage", 2),
        ("tensors", "type", -1),
        ("storages", "created_by", 3),
        ("storages", "freed_after", 3),
        ("storages", "freed_after", "1"),
        ("storages", "num_bytes", -1),
        ("storages", "category", None),
    ],
)
def test_indices_beyond_their_tables_are_not_believed(table: str, column: str, value: object):
    plain = plain_of(encode(step(), "key"))
    plain[table][column][0] = value
    with pytest.raises(DamagedError):
        decode(written(plain), "key")


@pytest.mark.parametrize("plain", [[], 3, None, {}, {"key": "key"}, "[" * 10_000])
def test_json_that_is_no_step_is_not_believed(plain: object):
    with pytest.raises(DamagedError):
        decode(written(plain), "key")


def test_what_unpacks_to_more_than_any_step_is_not_believed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("perfcast.workload.kept.encoding.MOST_BYTES", 100)
    with pytest.raises(DamagedError, match="larger"):
        decode(encode(step(), "key"), "key")


def test_a_step_is_captured_once(tmp_path: Path):
    assert Captures(tmp_path).step("key", step) == step()
    assert Captures(tmp_path).step("key", fail) == step()
    in_memory = Captures(None)
    assert in_memory.step("key", step) is in_memory.step("key", fail)


def test_another_key_is_another_step(tmp_path: Path):
    captures = Captures(tmp_path)
    assert captures.step("one", step) != captures.step("two", lambda: step(4))


@pytest.mark.parametrize("damage", [b"", b"foreign", MAGIC])
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: bytes):
    Captures(tmp_path).step("key", step)
    only_file(tmp_path).write_bytes(damage)
    assert Captures(tmp_path).step("key", lambda: step(5)) == step(5)
    assert Captures(tmp_path).step("key", fail) == step(5)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    Captures(tmp_path).step("key", step)
    for module in ("encoding", "store"):
        monkeypatch.setattr(f"perfcast.workload.kept.{module}.MOST_FILE_BYTES", 100)
    assert Captures(tmp_path).step("key", lambda: step(5)) == step(5)
    assert not list(tmp_path.glob("*.capture"))


def test_nothing_is_kept_as_a_file_where_nothing_can_be_written(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    assert Captures(tmp_path / "taken").step("key", step) == step()


def test_steps_used_longest_ago_go_first(tmp_path: Path):
    size = len(encode(step(), "0"))
    captures = Captures(tmp_path, most_bytes=int(2.5 * size))
    for key in ("0", "1"):
        captures.step(key, step)
    for age, path in enumerate(sorted(tmp_path.glob("*.capture"), key=lambda path: path.stat().st_mtime)):
        os.utime(path, (1000 + age, 1000 + age))
    Captures(tmp_path).step("0", fail)  # used now
    captures.step("2", step)
    assert len(list(tmp_path.glob("*.capture"))) == 2
    Captures(tmp_path).step("0", fail)
    Captures(tmp_path).step("2", fail)


def test_two_processes_may_write_the_same_step(tmp_path: Path):
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from test_captures import step; from perfcast.workload.kept.store import Captures\n"
        "for number in range(100): Captures(Path(sys.argv[1])).step(f'key {number % 7}', step)\n"
        "for path in Path(sys.argv[1]).glob('*.capture'): path.unlink(missing_ok=True)\n"
        "for number in range(100): Captures(Path(sys.argv[1])).step(f'key {number % 7}', step)\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path), str(Path(__file__).parent)]
    running = [subprocess.Popen(arguments) for _ in range(2)]
    assert [each.wait(60) for each in running] == [0, 0]
    for number in range(7):
        assert Captures(tmp_path).step(f"key {number}", step) == step()


def test_threads_that_ask_for_one_step_capture_it_once():
    captures, count = Captures(None), []

    def capture() -> CapturedStep:
        count.append(1)
        return step()

    threads = [threading.Thread(target=lambda: captures.step("key", capture)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1


def test_memory_holds_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("perfcast.workload.kept.store._MOST_STEPS", 2)
    captures = Captures(None)
    for key in ("0", "1", "2"):
        captures.step(key, step)
    captures.step("2", fail)
    assert captures.step("0", lambda: replace(step(), sizes=StepSizes(9))).sizes.batch_size == 9


def test_a_folder_is_counted_and_cleared(tmp_path: Path):
    for key in ("0", "1"):
        Captures(tmp_path).step(key, step)
    (tmp_path / "mine.txt").write_text("mine")
    held = kept_files(tmp_path)
    assert held.count == 2
    assert clear(tmp_path) == held
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("said", ["off", "0", "", "None"])
def test_files_are_switched_off(monkeypatch: pytest.MonkeyPatch, said: str):
    monkeypatch.setenv("PERFCAST_CACHE", said)
    assert captures_folder() is None


def test_the_folder_is_the_users_or_the_one_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PERFCAST_CACHE", str(tmp_path))
    assert captures_folder() == tmp_path / "captures"
    monkeypatch.delenv("PERFCAST_CACHE")
    folder = captures_folder()
    assert folder is not None
    assert (folder.name, "perfcast" in str(folder)) == ("captures", True)
