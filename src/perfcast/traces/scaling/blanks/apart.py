"""A function run in a process of its own: where it ends that, ours goes on."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

Q = TypeVar("Q")
A = TypeVar("A")

#: Longer than any operator without memory takes, and than a process takes to start.
_MOST_SECONDS = 60.0


class Apart(Generic[Q, A]):
    """A function run in another process, which is started when it is first needed and after each end of it.

    Args:
        work: What to run there, of a module.
        ended: What stands for an answer where the process ended instead.
    """

    def __init__(self, work: Callable[[Q], A], ended: A) -> None:
        self._work, self._ended = work, ended
        self._lock = threading.Lock()
        self._running: tuple[BaseProcess, Connection] | None = None
        self._owner = 0

    def __call__(self, question: Q) -> A:
        """The answer; ``ended`` where the process ended, or took too long."""
        with self._lock:
            connection = self._connection()
            try:
                connection.send(question)
                if connection.poll(_MOST_SECONDS):
                    answer: A = connection.recv()
                    return answer
            except (EOFError, OSError):
                pass
            self._stop()
            return self._ended

    def _connection(self) -> Connection:
        if self._running is not None and self._owner == os.getpid():
            return self._running[1]
        context = get_context("fork") if "fork" in get_all_start_methods() else get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_answer, args=(theirs, ours, self._work), daemon=True)
        process.start()
        theirs.close()
        self._running, self._owner = (process, ours), os.getpid()
        atexit.register(self._stop)
        return ours

    def _stop(self) -> None:
        if self._running is not None and self._owner == os.getpid():
            process, connection = self._running
            connection.close()
            process.kill()
            process.join()
        self._running = None


def _answer(connection: Connection, other: Connection, work: Callable[[Q], A]) -> None:
    """What the process does: answers until nobody asks."""
    other.close()
    _die_quietly()
    while True:
        try:
            question = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        connection.send(work(question))


def _die_quietly() -> None:
    """No traceback and no core file of a crash that was to be expected."""
    import faulthandler

    faulthandler.disable()
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
