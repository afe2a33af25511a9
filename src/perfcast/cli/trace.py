"""``perfcast trace``: record a program, read what was recorded, explain it, forecast from it."""

from __future__ import annotations

from importlib import import_module

import click

_COMMANDS = ("record", "info", "link", "explain", "forecast", "overheads", "chakra", "anonymise")


class _LazyGroup(click.Group):
    """Imports a subcommand's file when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"perfcast.cli.trace_{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup)
def trace() -> None:
    """Traces of PyTorch's profiler: record them, read them, explain them, forecast from them."""
