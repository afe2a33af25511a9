"""A process that answers, seen from the server: started, asked, ended."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from types import ModuleType
from typing import TYPE_CHECKING, Any

from perfcast.files.typed_json import read_typed
from perfcast.server.problems import LOG, Problem, ProblemError, refuse
from perfcast.server.processes import child
from perfcast.server.processes.message import Asked, Kind, Told

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

    from perfcast.report.document import Document

#: Variables that keep libraries on one thread: several processes answer at a time.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
)
_starting = threading.Lock()
_ENDING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in the forms that were asked for and exist.

    Attributes:
        parts: Form → its bytes.
    """

    parts: Mapping[Kind, bytes]

    @property
    def num_bytes(self) -> int:
        """Of all forms."""
        return sum(len(part) for part in self.parts.values())

    @property
    def json(self) -> bytes:
        """As the command line writes it."""
        return self.parts["json"]

    @property
    def document(self) -> Document:
        """What text and page say."""
        found: Document = read_typed(self.parts["document"])
        return found


@cache
def _forks() -> ForkServerContext:
    """Where processes come from: a process that has imported everything once, on one thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["perfcast.server.processes.warm"])
    return context


@contextlib.contextmanager
def _bare_start() -> Iterator[None]:
    """Starts on one thread, and without what this process was started by: ``__main__`` is not run again."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    main = sys.modules["__main__"]
    os.environ.update(_ONE_THREAD)
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class KilledError(ProblemError):
    """A process was killed by others than this server (SIGKILL) before it had answered."""


class Process:
    """One process. Methods block; each is called from a thread of its own, ``end`` from any."""

    def __init__(self, bounds: child.Bounds, *, most_bytes: int) -> None:
        self._bounds = bounds
        self._most_bytes = most_bytes
        ours, theirs = multiprocessing.Pipe()
        self._connection = ours
        with _starting, _bare_start():
            started: Any = _forks().Process(target=child.serve, args=(theirs, bounds), daemon=True)
            started.start()
        theirs.close()
        self._process: ForkServerProcess = started
        self._is_ended = False

    def ask(
        self,
        asked: Asked,
        *,
        seconds: float,
        on_progress: Callable[[float | None, str], None] = lambda share, text: None,
    ) -> Reply:
        """The answer. After a ProblemError of 503 or 504 the process is gone.

        Raises:
            KilledError: It was killed; another one may answer.
            ProblemError: The question has none, or not within the bounds.
        """
        try:
            self._connection.send_bytes(asked.to_bytes())
            return self._receive(time.monotonic() + seconds, seconds, on_progress)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            was_killed = self._was_killed()
            self.end()
            if was_killed:
                said = "The process that made the answer was killed."
                raise KilledError(Problem(status=503, detail=said)) from None
            said = "The process that made the answer has ended: its memory or time was used up."
            raise refuse(503, said) from None
        except OSError:
            self.end()
            said = f"The answer was ended, or has more than {self._most_bytes:,} bytes."
            raise refuse(503, said) from None

    def _receive(
        self, until: float, seconds: float, on_progress: Callable[[float | None, str], None]
    ) -> Reply:
        parts: dict[Kind, bytes] = {}
        while True:
            if not self._connection.poll(max(0.0, until - time.monotonic())):
                self.end()
                raise refuse(504, f"The answer took longer than {seconds:g} s; a job may take longer.")
            told, body = Told.receive(self._connection, self._most_bytes)
            if told.what == "done":
                return Reply(parts)
            if told.what == "problem":
                raise _problem(told)
            if told.what == "progress":
                on_progress(told.share, told.text)
            elif told.kind:
                parts[told.kind] = body  # type: ignore[index]

    def _was_killed(self) -> bool:
        """Whether others killed it; limits of its own end it by other signals."""
        if self._is_ended:
            return False
        self._process.join(_ENDING_SECONDS)
        return self._process.exitcode == -signal.SIGKILL

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return not self._is_ended and self._process.is_alive()

    def end(self) -> None:
        """End it and all that it has started, now. Whoever waits for its answer is told that it has ended."""
        if self._is_ended:
            return
        self._is_ended = True
        pid = self._process.pid
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid is not None:
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, OSError):
            self._process.kill()


def _problem(told: Told) -> ProblemError:
    if not told.traceback:
        return ProblemError(Problem(status=told.status, detail=told.text, close_names=told.close_names))
    name = secrets.token_hex(8)
    LOG.log(logging.ERROR, "internal fault %s\n%s", name, told.traceback)
    detail = f"An internal fault. The server's log has it under the id {name}."
    return ProblemError(Problem(status=500, detail=detail, id=name))
