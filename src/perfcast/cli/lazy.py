"""Groups of commands that import a command's file when that command is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click


class LazyGroup(click.Group):
    """A group that knows its commands by name alone; helps and completions list them without importing any.

    Args:
        homes: Name of a command → module that has it under that name, in the order in which help lists them.
        attributes: What ``click.Group`` takes.
    """

    def __init__(self, *, homes: Mapping[str, str], **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self._homes = homes

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order given."""
        return list(self._homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None where there is none."""
        if cmd_name not in self._homes:
            return None
        command = getattr(import_module(self._homes[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command
