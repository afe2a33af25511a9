"""What an input may do: be answered, or be refused by one clear message; nothing else.

No other exception, no hang, no memory beyond a bound, no file written, no program run, no connection, and no
message with raw control characters.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

import perfcast
from fuzz.target import Target
from perfcast.errors import PerfcastError

#: An error's message is longer than this: it is no message.
MESSAGE_CHARACTERS = 20_000
#: Seeds that a target reads before it is watched.
SEEDS_BEFORE = 3
#: Files that may hold so much unpacked while inputs are drawn.
MAX_FILE = "64MiB"
#: What Python may do that no reader does.
FORBIDDEN = {
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.rename",
    "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.kill",
    "shutil.copyfile", "shutil.move", "shutil.rmtree", "socket.connect", "socket.bind",
    "pickle.find_class", "urllib.Request", "webbrowser.open", "tempfile.mkstemp",
    "tempfile.mkdtemp",
}  # fmt: skip


class Hang(BaseException):
    """An input took longer than it may."""


class Deed(BaseException):
    """An input made perfcast do what no reader does."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What an input did that none may.

    Attributes:
        kind: The exception's type, or what else it was.
        place: The innermost function of perfcast; faults of one kind and place are one.
        report: A traceback.
    """

    kind: str
    place: str
    report: str

    @property
    def name(self) -> str:
        """Of the fault, as a file may be called."""
        return f"{self.kind}-{self.place}".replace("/", ".").replace(":", "-")


class FaultError(AssertionError):
    """An input's fault, for a test that fails by it."""


_PACKAGE = f"{Path(perfcast.__file__).parent}/"
_TARGETS = f"{Path(__file__).parent}/targets/"
_watched = threading.local()


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not getattr(_watched, "on", False) or (event != "open" and event not in FORBIDDEN):
        return
    if "torchinductor" in repr(arguments[:1]):  # PyTorch's own folder, made where it is imported
        return
    if event != "open" or _writes(arguments):
        _watched.deed = f"{event} {arguments!r}"[:300]
        raise Deed(_watched.deed)


def _writes(arguments: tuple[object, ...]) -> bool:
    path, _, flags = arguments
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    return isinstance(flags, int) and bool(flags & writing) and path != os.devnull


@cache
def _install_audit() -> None:
    sys.addaudithook(_audit)


@cache
def scratch() -> Path:
    """A folder of this process, in memory where there is such, for inputs that are files."""
    inside = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.TemporaryDirectory(prefix="perfcast-fuzz-", dir=inside)
    _kept.append(folder)
    return Path(folder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


@contextlib.contextmanager
def _guarded(seconds: float) -> Iterator[None]:
    """Deeds raise, and so does time that runs out."""
    _install_audit()
    alarmed = threading.current_thread() is threading.main_thread()

    def stop(*_: object) -> None:
        if _watched.on:
            raise Hang(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop) if alarmed else None
    _watched.on, _watched.deed = True, ""
    if alarmed:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        _watched.on = False
        if alarmed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def given_to(target: Target, data: bytes) -> object:
    """What a target runs on: the input, or the file that holds it."""
    data = target.expand(data)
    if not target.file_name:
        return data
    path = scratch() / target.file_name
    path.write_bytes(data)
    return path


def fault_of(target: Target, data: bytes) -> Fault | None:
    """What an input does that none may; None: it is answered, or refused as it should be."""
    given = given_to(target, data)
    before = _peak_bytes()
    try:
        with _guarded(target.seconds), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            target.run(given)  # type: ignore[arg-type]
    except (PerfcastError, click.ClickException) as error:
        found = _of_message(error)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        found = _of_exception(error)
    else:
        found = None
    if found is None and _watched.deed:
        found = Fault(kind="Deed", place=_watched.deed.split(" ")[0], report=_watched.deed)
    grown = _peak_bytes() - before
    if found is None and grown > target.memory_bytes:
        found = Fault(kind="Memory", place=target.name, report=f"{grown / 1e6:.0f} MB more")
    return found


def check(target: Target, data: bytes) -> None:
    """Raise where an input does what none may.

    Raises:
        FaultError: It did; the message has the traceback and the input.
    """
    fault = fault_of(target, data)
    if fault is not None:
        raise FaultError(
            f"{target.name}: {fault.kind} at {fault.place} of {target.expand(data)[:2000]!r}\n{fault.report}"
        )


def _of_exception(error: BaseException) -> Fault:
    report = "".join(traceback.format_exception(error, limit=-40, chain=False))[-6000:]
    return Fault(kind=type(error).__name__, place=_place(error), report=report)


def _of_message(error: Exception) -> Fault | None:
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    problem = None
    if not text.strip():
        problem = "an empty message"
    elif len(text) > MESSAGE_CHARACTERS:
        problem = f"a message of {len(text):,} characters"
    elif "Traceback" in text:
        problem = "a message with a traceback"
    if problem is None:
        return None
    return Fault(kind="Message", place=_place(error), report=f"{problem}: {text[:1000]!r}")


def _place(error: BaseException) -> str:
    """The innermost function of perfcast that an exception passed."""
    found, steps = "outside", traceback.walk_tb(error.__traceback__)
    for frame, _ in steps:
        path = frame.f_code.co_filename
        if path.startswith(_PACKAGE):
            found = f"{path.removeprefix(_PACKAGE).removesuffix('.py')}:{frame.f_code.co_name}"
        elif isinstance(error, AssertionError) and path.startswith(_TARGETS):
            found = f"{Path(path).stem}:{frame.f_code.co_name}"
    return found


def prepare(target: Target) -> None:
    """Give a target its seeds once, unwatched: what is imported and opened by then is no input's doing."""
    os.environ.update(PERFCAST_CACHE="off", PERFCAST_MAX_FILE=MAX_FILE)
    tempfile.gettempdir()  # found by writing to it, once
    for seed in target.seeds()[:SEEDS_BEFORE]:
        given = given_to(target, seed)
        with contextlib.suppress(Exception):
            target.run(given)  # type: ignore[arg-type]
