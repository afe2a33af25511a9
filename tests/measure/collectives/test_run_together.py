"""Processes started together end together."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from perfcast.errors import CalibrationError
from perfcast.measure.collectives.launch import first_sentence, local_environment, run_together

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def pids_of(folder: Path, count: int) -> list[int]:
    return [int((folder / f"pid{i}").read_text()) for i in range(count)]


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_all_done_is_done(tmp_path: Path):
    run_together([program("print(1)"), program("print(2)")], tmp_path)
    assert (tmp_path / "rank1.log").read_text() == "2\n"


def test_a_failure_stops_the_others_at_once_and_says_its_last_words(tmp_path: Path):
    start = time.monotonic()
    with pytest.raises(CalibrationError, match="rank 1 failed with exit code 1: ValueError: no link"):
        run_together([SLEEP, program("raise ValueError('no link')"), SLEEP], tmp_path)
    assert time.monotonic() - start < 10


def test_who_was_killed_is_named_before_who_missed_them(tmp_path: Path):
    killed = program(f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    with pytest.raises(CalibrationError, match="rank 1 was killed by SIGKILL"):
        run_together([SLEEP, killed], tmp_path)


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path):
    deaf = (
        "import signal, sys, time, os; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(tmp_path / 'pid0')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )

    def interrupt() -> None:
        if (tmp_path / "pid0").exists() and (tmp_path / "pid0").read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_together([program(deaf)], tmp_path, on_poll=interrupt)
    assert not is_running(pids_of(tmp_path, 1)[0])


def test_processes_of_one_machine_talk_over_the_loopback(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert local_environment()["GLOO_SOCKET_IFNAME"].startswith("lo")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert local_environment()["GLOO_SOCKET_IFNAME"] == "eth7"


def test_last_words_are_short():
    words = "[rank0]: RuntimeError: [/src/gloo/pair.cc:553] Closed by peer. This is typically caused by"
    assert first_sentence(words) == "RuntimeError: Closed by peer"
