"""Standard error without what the profiler's libraries say of every start and stop."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Kineto's marks for tracers, and the execution trace's own; warnings and errors are passed on.
_CHATTER = re.compile(rb"^(USDT|STAGE):\d{4}-|execution_trace_observer\.cpp:\d+\] (En|Dis)abling ")
#: The number of standard error.
_ERRORS = 2


@contextmanager
def quietly() -> Iterator[None]:
    """Catch what is written to standard error, by C++ too, and pass on all but chatter of the profiler.

    Where there is no standard error, or no place to keep what is caught, nothing is caught.
    """
    try:
        kept = os.dup(_ERRORS)
    except OSError:
        yield
        return
    with tempfile.TemporaryFile() as caught:
        _flush()
        os.dup2(caught.fileno(), _ERRORS)
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, _ERRORS)
            os.close(kept)
            caught.seek(0)
            for line in caught:
                if not _CHATTER.search(line):
                    os.write(_ERRORS, line)


def _flush() -> None:
    with suppress(Exception):
        sys.stderr.flush()
