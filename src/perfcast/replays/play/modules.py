"""The one file that a replay runs: the user's own, which registers operators."""

from __future__ import annotations

import runpy

from perfcast.errors import TraceError
from perfcast.files.reading import read_bytes
from perfcast.printer.streams import streams_of_others


def load_module(path: str) -> frozenset[str]:
    """Run a Python file that the user named; returns the namespaces of the operators that it registers.

    Raises:
        TraceError: There is no such file, or it raises an error.
    """
    read_bytes(path, what="the module", error=TraceError)  # a file, and one that ends
    before = _namespaces()
    try:
        with streams_of_others():
            runpy.run_path(path, run_name="perfcast_user_module")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's own code; SystemExit too
        raise TraceError(f"'{path}' failed: {type(error).__name__}: {error}") from error
    return _namespaces() - before


def _namespaces() -> frozenset[str]:
    """The namespaces of all operators that are registered."""
    from perfcast.torch_internals.eager import operator_names

    return frozenset(name.partition("::")[0] for name in operator_names())
