"""What runs in a process that answers: it bounds itself, then answers until its connection ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.errors import InputError, PerfcastError, UnknownNameError
from perfcast.files.typed_json import write_typed
from perfcast.server.processes.message import Asked, Kind, Told

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from perfcast.verbs.result import Shown

#: Least time between two words of progress, in seconds.
_PROGRESS_SECONDS = 0.2
_MOST_FILE_BYTES = 2**33


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a process may take.

    Attributes:
        memory_bytes: Of data (RLIMIT_DATA: heap and private mappings).
        cpu_seconds: Of all its processors; None: without end, where each answer is timed by itself.
        niceness: How far it stands back behind the server.
    """

    memory_bytes: int
    cpu_seconds: int | None = None
    niceness: int = 0


def serve(connection: Connection, bounds: Bounds) -> None:
    """Answer what comes until the connection ends."""
    _bound(bounds)
    waiting: queue.SimpleQueue[Asked] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, waiting), daemon=True).start()
    while True:
        _answer(waiting.get(), connection)


def _bound(bounds: Bounds) -> None:
    os.setsid()  # what it starts ends with it,
    multiprocessing.current_process().daemon = False  # and so it may: a search shares its work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.nice(bounds.niceness)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (bounds.memory_bytes, bounds.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_FILE_BYTES, _MOST_FILE_BYTES))
    if bounds.cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (bounds.cpu_seconds, bounds.cpu_seconds + 1))


def _listen(connection: Connection, waiting: queue.SimpleQueue[Asked]) -> None:
    """Take what is asked; the end of the server is the end of the process, whatever it is doing."""
    try:
        while True:
            waiting.put(Asked.from_bytes(connection.recv_bytes()))
    except (EOFError, OSError):
        os._exit(0)


def _answer(asked: Asked, connection: Connection) -> None:
    try:
        parts = _parts(asked, _teller(connection) if asked.with_progress else None)
    except MemoryError:
        text = "The memory that an answer may take was not enough."
        Told(what="problem", status=503, text=text).send(connection)
        os._exit(1)  # what is left of its memory is in pieces
    except BaseException as error:
        told = _problem_of(error)
        replace(told, text=_without_folders(told.text, asked)).send(connection)
        return
    for kind, body in parts.items():
        Told(what="part", kind=kind).send(connection, body)
    Told(what="done").send(connection)


def _without_folders(text: str, asked: Asked) -> str:
    """Words without the places where the server keeps uploads."""
    for value in asked.files.values():
        for path in value if isinstance(value, list) else ():
            text = text.replace(f"{Path(str(path)).parent}{os.sep}", "")
    return text


def _problem_of(error: BaseException) -> Told:
    if isinstance(error, PerfcastError):
        close = tuple(error.close_names) if isinstance(error, UnknownNameError) else ()
        return Told(what="problem", status=422, text=str(error), close_names=close)
    if isinstance(error, OverflowError):
        return Told(what="problem", status=422, text="A number is too large to compute with.")
    return Told(what="problem", status=500, traceback="".join(traceback.format_exception(error)))


def _teller(connection: Connection) -> Callable[[float | None, str], None]:
    """Tells progress, but not more often than anybody looks."""
    last = 0.0

    def tell(share: float | None, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PROGRESS_SECONDS:
            last = now
            Told(what="progress", share=share, text=text).send(connection)

    return tell


def _parts(asked: Asked, on_progress: Callable[[float | None, str], None] | None) -> dict[Kind, bytes]:
    from perfcast.verbs.answer import answer
    from perfcast.verbs.question import question_of

    result = answer(question_of(asked.verb, {**asked.plain, **asked.files}), on_progress=on_progress)
    found = {kind: _part(result, kind, is_only=len(asked.kinds) == 1) for kind in asked.kinds}
    return {kind: part for kind, part in found.items() if part is not None}


def _part(result: Shown, kind: Kind, *, is_only: bool) -> bytes | None:
    """A form of the answer; one that is asked for beside others may be missing."""
    try:
        return part_of(result, kind)
    except InputError:
        if is_only:
            raise
        return None


def part_of(result: Shown, kind: Kind) -> bytes | None:
    """A result in one form; None where it has none such, as formulas have no timeline."""
    from perfcast.report.answers import to_plain, write_plain

    if kind == "json":
        return write_plain(to_plain(result.whole(is_shared=True))).encode()
    if kind == "document":
        return write_typed(result.document())
    if kind == "html":
        return _page(result)
    events = result.timeline()
    return None if events is None else write_plain(events, indent=None, is_exact=True).encode()


def _page(result: Shown) -> bytes:
    """As ``--html`` writes it; the command that makes it stands in it, unless that would name an upload."""
    from perfcast.report.page import render_page
    from perfcast.verbs.origin import origin_line
    from perfcast.verbs.question import files_of
    from perfcast.verbs.spelled import command_line

    document = result.document()
    command = "" if files_of(result.question) else command_line(result.question)
    provenance = replace(document.provenance, command=command, origin=origin_line())
    return render_page(replace(document, provenance=provenance)).encode()


def prepare() -> None:
    """Import what answers need, and answer once, so that processes forked from here start with all of it.

    Runs on one thread: threads of libraries do not survive a fork.
    """
    sys.argv = ["perfcast"]
    from perfcast.verbs.answer import answer
    from perfcast.verbs.question import question_of

    for plain in _FIRST_QUESTIONS:
        with contextlib.suppress(InputError):
            part_of(answer(question_of("predict", plain)), "json")


_FIRST_QUESTIONS = (
    {"model": "llama3-8b", "cluster": "dgx-h100:8", "plan": "tp=8", "batch_size": 8, "closed_form": True},
)
