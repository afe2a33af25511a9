from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perfcast.errors import InputError
from perfcast.files import lock as module
from perfcast.files.lock import StoreWarning, hold_lock

HOLD = """
import sys, time
from pathlib import Path
from perfcast.files.lock import hold_lock
with hold_lock(Path(sys.argv[1]), elsewhere="name another"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@contextmanager
def _holder(path: Path, seconds: float, script: str = HOLD) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", script, str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_told_who_holds_it_since_when_and_what_to_do(tmp_path):
    path = tmp_path / "m.jsonl"
    with (
        _holder(path, 60) as holder,
        pytest.raises(InputError) as caught,
        hold_lock(path, elsewhere="name another with --output", wait_seconds=0.1),
    ):
        pass
    assert f"is being written by process {holder.pid} (-c {path} 60), since " in str(caught.value)
    assert str(caught.value).endswith("wait for it, or name another with --output")


def test_a_second_process_waits_for_one_that_is_about_to_end(tmp_path):
    path = tmp_path / "m.jsonl"
    with _holder(path, 0.2) as holder, hold_lock(path, elsewhere="", wait_seconds=20):
        assert holder.wait(20) == 0


def test_a_lock_dies_with_its_process_even_where_that_left_a_child(tmp_path):
    path = tmp_path / "m.jsonl"
    forks = "    import os\n    if not os.fork(): os.close(1); time.sleep(3); os._exit(0)\n    print"
    with _holder(path, 60, HOLD.replace("    print", forks)) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with hold_lock(path, elsewhere="", wait_seconds=1.0):
            pass


def test_one_process_cannot_hold_it_twice(tmp_path):
    path = tmp_path / "m.jsonl"
    said: list[str] = []

    def second() -> None:
        try:
            with hold_lock(path, elsewhere="name another"):
                said.append("held")
        except InputError as error:
            said.append(str(error))

    with hold_lock(path, elsewhere="name another"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert said == [f"{path} is being written by this process already; wait for it, or name another"]
    second()
    assert said[-1] == "held"


FORK = """
import os, sys
from pathlib import Path
from perfcast.errors import InputError
from perfcast.files.lock import hold_lock
path = Path(sys.argv[1])
with hold_lock(path, elsewhere=""):
    if not (child := os.fork()):
        try:
            with hold_lock(path, elsewhere="", wait_seconds=0):
                os._exit(1)
        except InputError as error:
            os._exit(0 if f"by process {os.getppid()} " in str(error) else 2)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_does_not_hold_what_its_parent_holds(tmp_path):
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path / "m")], check=True)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_said_and_the_work_goes_on(tmp_path, monkeypatch, number):
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module.fcntl, "lockf", refuse)
    with (
        pytest.warns(StoreWarning, match="has no locks .* no other perfcast writes"),
        hold_lock(tmp_path / "m", elsewhere=""),
    ):
        pass


def test_a_folder_that_cannot_be_made_or_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "m", Path("/proc/nowhere/m"), tmp_path / ("n" * 300)):
        with (
            pytest.raises(InputError, match=r"^cannot write beside .*; name another"),
            hold_lock(place, elsewhere="name another"),
        ):
            pass


COUNT = """
import sys
from pathlib import Path
from perfcast.files.lock import hold_lock
path = Path(sys.argv[1])
for _ in range(10):
    with hold_lock(path, elsewhere="", wait_seconds=60):
        path.write_text(str(int(path.read_text()) + 1))
"""


def test_of_many_processes_that_want_it_one_holds_it_at_a_time(tmp_path):
    path = tmp_path / "counter"
    path.write_text("0")
    workers = [subprocess.Popen([sys.executable, "-c", COUNT, str(path)]) for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    assert path.read_text() == "40"
