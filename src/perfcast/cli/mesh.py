"""``perfcast mesh``: what communication costs, by datasheet or as measured, and on which mesh."""

from __future__ import annotations

from importlib import import_module

import click

_COMMANDS = ("cost", "profile", "discover")


class _LazyGroup(click.Group):
    """Imports a subcommand's file when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"perfcast.cli.mesh_{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup)
def mesh() -> None:
    """Collectives on clusters: forecast them, measure them, discover the mesh they run on."""
