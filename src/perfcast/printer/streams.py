"""Standard output and standard error: lines, documents, and streams that take nothing more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from perfcast.errors import InputError
from perfcast.printer.text import PLAINLY, visible


def say(text: str = "", *, is_error: bool = False) -> None:
    """A line for whoever runs the program: on standard output, or on standard error.

    Raises:
        InputError: Standard output is closed or takes nothing more.
        BrokenPipeError: Nobody reads standard output any more.
    """
    _write(f"{visible(text)}\n", is_error=is_error)


def write_document(text: str) -> None:
    """A document, as JSON or a page, on standard output: UTF-8 whatever the terminal's encoding is.

    Raises:
        InputError, BrokenPipeError: As of ``say``.
    """
    with _told(is_error=False) as stream:
        stream.flush()
        binary = getattr(stream, "buffer", None)
        if binary is None:
            stream.write(text)
        else:
            binary.write(text.encode("utf-8", errors="replace"))
        stream.flush()


def _write(text: str, *, is_error: bool) -> None:
    with _told(is_error=is_error) as stream:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            coding = stream.encoding or "ascii"
            stream.write(text.encode(coding, errors="backslashreplace").decode(coding))
        stream.flush()


@contextmanager
def _told(*, is_error: bool) -> Iterator[TextIO]:
    """A stream whose failures become one error; failures of standard error can be told to nobody."""
    stream = sys.stderr if is_error else sys.stdout
    if stream is None or stream.closed:
        if is_error:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (ends with the process)
        else:
            raise InputError("cannot write to standard output: it is closed")
    try:
        yield stream
    except BrokenPipeError:
        if not is_error:
            raise
    except OSError as error:
        if not is_error:
            raise output_error(error) from error


def output_error(error: OSError) -> InputError:
    """What is said of standard output that takes nothing more."""
    reason = error.strerror or str(error)
    return InputError(f"cannot write to standard output: {reason[:1].lower()}{reason[1:]}")


def is_open(stream: TextIO | None) -> bool:
    """Whether a stream takes anything."""
    return stream is not None and not stream.closed


def prepare_streams() -> None:
    """Let no text fail for a terminal's encoding or command it, and no file take a closed stream's number."""
    global _own_process, _plain_errors
    _own_process = True
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the smallest number that is free: this one
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(AttributeError, ValueError, OSError):
                stream.reconfigure(errors=PLAINLY)  # type: ignore[union-attr]
    if sys.stderr is not None and _plain_errors is None:
        _plain_errors = sys.stderr
        sys.stderr = cast("TextIO", _VisibleErrors(sys.stderr))


_own_process = False
_plain_errors: TextIO | None = None


class _VisibleErrors:
    """Standard error for everybody who writes to it: libraries' logs, warnings, tracebacks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Its texts are ``visible``."""
        self._stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Likewise."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def plain_errors() -> TextIO | None:
    """Standard error as it is, for codes of our own; None: ``sys.stderr`` is it."""
    return _plain_errors


@contextmanager
def streams_of_others() -> Iterator[None]:
    """For code of the user: what it prints goes to standard error, and there is nothing that it could read.

    Of a process that is the command line's own; whoever calls perfcast from Python keeps the streams as they
    are. It may close what it is given. Code that ends the process by ``os._exit`` cannot be stopped.
    """
    if not _own_process:
        yield
        return
    before, kept = (sys.stdin, sys.stdout), (os.dup(0), os.dup(1))
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 (a stream of the process)
    sys.stdout = open(os.dup(2), "w", encoding="utf-8", errors=PLAINLY, buffering=1)  # noqa: PTH123, SIM115
    given = (sys.stdin, sys.stdout)
    try:
        yield
    finally:
        for stream in given:
            with suppress(OSError, ValueError):
                stream.close()
        for number, held in enumerate(kept):
            os.dup2(held, number)
            os.close(held)
        sys.stdin, sys.stdout = before


def finish_output() -> InputError | None:
    """Write what standard output still holds; where it takes nothing more, what is to be said of that.

    That nobody reads it any more is no error. It holds nothing afterwards, so that the process can end.
    """
    found: InputError | None = None
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        found = output_error(error)
        drop_output()
    except ValueError:
        return None
    return found


def drop_output() -> None:
    """From here on standard output takes everything and keeps nothing."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
