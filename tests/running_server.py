"""A server in a process of its own, as users start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def running_server(*options: str) -> Iterator[str]:
    """Its address, without the slash at the end."""
    command = [sys.executable, "-m", "perfcast", "web", "--port", "0", "--no-page", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            words = process.stdout.readline().split()
            yield next(word for word in words if word.startswith("http://")).rstrip("/")
        finally:
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
