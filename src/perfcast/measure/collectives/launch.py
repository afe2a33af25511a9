"""Processes that belong together: started together, watched, and stopped together."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from perfcast.errors import CalibrationError
from perfcast.files.reading import read_text
from perfcast.ranges import LAUNCHED

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 3.0


def run_together(
    commands: Sequence[Sequence[str]],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    on_poll: Callable[[], None] | None = None,
) -> None:
    """Run one process per command until all are done.

    Whatever ends this function (a process that fails, Ctrl-C, an error of ``on_poll``) stops the others:
    they are asked to end, and killed after three seconds. They do not see Ctrl-C themselves.

    Args:
        folder: Where their output goes, ``rank0.log`` and so on.
        environment: Theirs; this process's by default.
        on_poll: Called several times a second.

    Raises:
        CalibrationError: A process died or failed; says which and how. More than one machine is asked to run.
    """
    LAUNCHED.check("--ranks", len(commands), CalibrationError)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank, command in enumerate(commands):
            with (folder / f"rank{rank}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,  # closed when this process is gone: the others then leave
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=environment,
                        start_new_session=True,
                    )
                )
        while not _are_done(processes, folder):
            if on_poll is not None:
                on_poll()
            time.sleep(_POLL_SECONDS)
    finally:
        _stop(processes)


def _are_done(processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> bool:
    codes = [process.poll() for process in processes]
    failed = [(code, rank) for rank, code in enumerate(codes) if code]
    if failed:
        code, rank = min(failed)  # signals are negative: who was killed comes before who missed them
        raise CalibrationError(f"rank {rank} {_how_it_ended(code, folder / f'rank{rank}.log')}")
    return all(code == 0 for code in codes)


def _how_it_ended(code: int, log: Path) -> str:
    lines = [
        line
        for line in read_text(log, what="the log of a rank", errors="replace").splitlines()
        if line.strip()
    ]
    last_words = f": {first_sentence(lines[-1])}" if lines else ""
    if code > 0:
        return f"failed with exit code {code}{last_words}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}{last_words}"
    return f"was killed by signal {-code}{last_words}"


def first_sentence(message: str) -> str:
    """The first sentence of an error of PyTorch, without the ranks and source files in brackets before it."""
    return re.sub(r"\[(?:rank\d+|/[^\]]*)\]:?\s*", "", message.strip()).split(". ")[0]


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the process and to what it has started, which are a session of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def local_environment() -> dict[str, str]:
    """For processes of one machine: one thread each, and gloo on the loopback, unless the user says else."""
    import socket

    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if loopback is not None:
        environment.setdefault("GLOO_SOCKET_IFNAME", loopback)
    return environment
