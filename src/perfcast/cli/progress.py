"""Progress of what takes long, on standard error: nothing for two seconds, then what is being done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from perfcast.printer.streams import say

#: Waits that nobody has to be told about.
_QUIET_SECONDS = 2.0
#: Between two lines where standard error is no terminal.
_LINE_SECONDS = 10.0


@contextmanager
def status(doing: str = "") -> Iterator[Callable[[float | None, str], None]]:
    """A function that takes the share that is done, None where it is not known, and what is being done.

    On a terminal that stands in one line that is gone in the end; elsewhere a line is written now and then.

    Args:
        doing: What is being done until the function says it.
    """
    teller = _Teller(doing, sys.stderr)
    teller.start()
    try:
        yield teller.tell
    finally:
        teller.stop()


class _Teller(threading.Thread):
    """Says what is being done, from the third second on."""

    def __init__(self, doing: str, stream: TextIO | None) -> None:
        super().__init__(daemon=True)
        self._text, self._stream = doing, stream
        self._ended = threading.Event()

    def tell(self, share: float | None, doing: str) -> None:
        """From now on this is being done."""
        self._text = doing if share is None else f"{doing} ({100 * share:.0f} %)"

    def stop(self) -> None:
        """All is done."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        """Wait, then say it until the end."""
        began = time.monotonic()
        if self._ended.wait(_QUIET_SECONDS):
            return
        with ExitStack() as stack:
            is_terminal = self._stream is not None and self._stream.isatty()
            tell = self._line(stack) if is_terminal else self._write
            pause = 0.2 if is_terminal else _LINE_SECONDS
            is_going = True
            while is_going:
                if self._text:
                    tell(f"{self._text} … {time.monotonic() - began:.0f} s")
                is_going = not self._ended.wait(pause)

    def _write(self, text: str) -> None:
        say(text, is_error=True)

    def _line(self, stack: ExitStack) -> Callable[[str], None]:
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        from perfcast.printer.boxes import visible_console

        # Streams stay where they are: this thread does not know who else sets them aside, and for how long.
        spinner = Spinner("dots", Text(), style="status.spinner")
        live = Live(
            spinner,
            console=visible_console(is_error=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        stack.enter_context(live)
        return lambda text: spinner.update(text=Text(text))
