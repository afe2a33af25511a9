"""Full disks, folders that cannot be written, no network, two processes on one store."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.apart import fail_in_turn_apart, run_two_apart
from faults.listing import subjects

#: What goes on where it was stopped, in one process.
STORES = [name for name in subjects() if name.split(" ")[0] in ("calibrate", "measure", "train", "search")]


@pytest.mark.parametrize("name", [*STORES, "reports (--html, --json, --timeline)"])
def test_a_full_disk_is_one_line_and_the_next_run_goes_on(tmp_path: Path, name: str):
    for words in fail_in_turn_apart(name, tmp_path, errno.ENOSPC, times=2, seed=0):
        assert "no space left on device" in words.lower()


@pytest.mark.parametrize("name", STORES)
def test_two_processes_on_one_store_lose_and_double_nothing(tmp_path: Path, name: str):
    for words in run_two_apart(name, tmp_path):
        assert "is being written by process" in words


UNWRITABLE = {
    "HOME": "/proc/nowhere",
    "XDG_CACHE_HOME": "/proc/nowhere/cache",
    "XDG_DATA_HOME": "/proc/nowhere/data",
    "PERFCAST_CACHE": "/proc/nowhere/captures",
}


def perfcast(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERFCAST", "XDG"))}
    return subprocess.run(
        [sys.executable, "-m", "perfcast", *words],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def without_progress(said: str) -> list[str]:
    """Lines of standard error but for those that say how long the work has taken so far."""
    return [line for line in said.splitlines() if " … " not in line]


def test_a_home_that_cannot_be_written_costs_no_answer():
    asked = (
        "predict",
        "gpt2",
        "--device",
        "h100-sxm",
        "--mode",
        "prefill",
        "--framework",
        "pytorch",
        "--json",
        "-",
    )
    ended = perfcast(*asked, **UNWRITABLE)
    assert (ended.returncode, without_progress(ended.stderr)) == (0, [])
    assert ended.stdout.startswith("{")


@pytest.mark.parametrize(
    "words",
    [
        ("calibrate",),
        ("mesh", "profile", "--ranks", "2"),
        ("predict", "gpt2", "--device", "cpu"),
    ],
)
def test_what_needs_a_folder_says_in_one_line_that_it_has_none(words: tuple[str, ...]):
    ended = perfcast(*words, **UNWRITABLE)
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = without_progress(ended.stderr)
    assert line.startswith("error: ")
    assert "/proc/nowhere" in line


NO_NETWORK = """
import os, sys
EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind")
def refuse(event, arguments):
    if event in EVENTS:
        os.write(2, f"{event} {arguments}".encode())
        os._exit(99)
sys.addaudithook(refuse)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "gpt2", "--device", "h100-sxm", "--mode", "prefill", "--framework", "pytorch"),
        ("search", "llama3-8b", "--cluster", "dgx-h100:8", "--global-batch-size", "8"),
        ("catalog", "models"),
    ],
)
def test_nothing_asks_the_network(tmp_path: Path, words: tuple[str, ...]):
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = perfcast(*words, PYTHONPATH=path, PERFCAST_CACHE="off")
    assert (ended.returncode, without_progress(ended.stderr)) == (0, [])


def test_the_hook_against_the_network_works(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    asked = "import socket; socket.create_connection(('127.0.0.1', 9))"
    ended = subprocess.run(
        [sys.executable, "-c", asked], env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=False
    )
    assert ended.returncode == 99
