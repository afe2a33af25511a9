"""``perfcast trace``: record a program, read what was recorded, explain it, forecast from it."""

from __future__ import annotations

import click

from perfcast.cli.lazy import LazyGroup

_COMMANDS = ("record", "info", "link", "explain", "forecast", "overheads", "chakra", "anonymise")
_HOMES = {name: f"perfcast.cli.trace.{name}" for name in _COMMANDS}


@click.group(cls=LazyGroup, homes=_HOMES)
def trace() -> None:
    """Traces of PyTorch's profiler: record them, read them, explain them, forecast from them."""
