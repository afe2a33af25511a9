"""Groups of commands that import a command's file when that command is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

import click

from perfcast.cli.options.names import complete_names
from perfcast.cli.options.numbers import guard
from perfcast.cli.options.places import guard_places


class NamingGroup(click.Group):
    """A group that answers a mistyped command with the close ones."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for.

        Raises:
            UsageError: There is none of that name; lists close ones.
        """
        name = args[0]
        if name not in self.list_commands(ctx) and not name.startswith("-") and not ctx.resilient_parsing:
            close = get_close_matches(name, self.list_commands(ctx), n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(NamingGroup):
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
        command = getattr(import_module(self._homes[cmd_name]), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        complete_names(command)
        guard_places(command)
        guard(command)
        return command
