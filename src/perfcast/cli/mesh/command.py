"""``perfcast mesh``: what communication costs, by datasheet or as measured, and on which mesh."""

from __future__ import annotations

import click

from perfcast.cli.lazy import LazyGroup

_COMMANDS = ("cost", "profile", "discover", "step")
_HOMES = {name: f"perfcast.cli.mesh.{name}" for name in _COMMANDS}


@click.group(cls=LazyGroup, homes=_HOMES)
def mesh() -> None:
    """Collectives on clusters: forecast them, measure them, discover their mesh; whole steps on it."""
