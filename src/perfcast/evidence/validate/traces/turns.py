"""Programs that run at the same time and take turns, so that a machine's moods meet all of them alike.

All but one wait, without using a processor, until they are given a number of steps to take.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Client, Connection
from pathlib import Path
from types import TracebackType

from perfcast.errors import TraceError

#: Name of the environment variable that names where turns are given out.
_PLACE = "PERFCAST_TRACE_PROGRAM_TURNS"
_FAMILY = "AF_UNIX"
#: A program that has not come by then will not come.
_PATIENCE_SECONDS = 300.0


def ask_for_turns(name: str, usual_seconds: float) -> Iterator[int]:
    """Steps to take, turn by turn, in a program that was started to take turns.

    Args:
        name: The program's, among those that take turns.
        usual_seconds: What a step of it takes, about.
    """
    with Client(os.environ[_PLACE], _FAMILY) as line:
        line.send((name, usual_seconds))
        while num_steps := int(line.recv()):
            yield num_steps
            line.send(name)


class Turns:
    """Gives out turns to programs that were started with ``environment``."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._place = str(Path(self._folder.name) / "turns")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._place)
        self._listener.listen()
        self._listener.settimeout(_PATIENCE_SECONDS)
        self._lines: dict[str, Connection] = {}
        self.usual_seconds: dict[str, float] = {}

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:  # fmt: skip
        for line in self._lines.values():
            line.close()
        self._listener.close()
        self._folder.cleanup()

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program has to be started with."""
        return {_PLACE: self._place}

    def await_programs(self, count: int) -> None:
        """Until so many are ready.

        Raises:
            TraceError: One did not come.
        """
        while len(self._lines) < count:
            try:
                accepted, _ = self._listener.accept()
            except TimeoutError as error:
                raise TraceError(f"{count - len(self._lines)} programs did not start") from error
            accepted.setblocking(True)
            line = Connection(accepted.detach())
            name, seconds = line.recv()
            self._lines[name], self.usual_seconds[name] = line, seconds

    def give(self, name: str, num_steps: int) -> None:
        """A turn of so many steps; returns when it is over.

        Raises:
            TraceError: The program ended.
        """
        try:
            self._lines[name].send(num_steps)
            self._lines[name].recv()
        except (EOFError, OSError) as error:
            raise TraceError(f"{name}: the program ended while it had its turn") from error

    def end(self, name: str) -> None:
        """No more turns for a program."""
        self._lines[name].send(0)
