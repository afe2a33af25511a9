"""``perfcast measure``: what a real device tells the forecaster of itself."""

from __future__ import annotations

import click

from perfcast.cli.lazy import LazyGroup

_HOMES = {"kernels": "perfcast.cli.measure.kernels"}


@click.group(cls=LazyGroup, homes=_HOMES)
def measure() -> None:
    """Measure a device in minutes, so that what is forecast for it moves towards it."""
