"""Options of requests and engines, which ``perfcast serving`` and its search share."""

from __future__ import annotations

import click

LENGTH_OPTIONS = (
    click.option("--input-length", metavar="TOKENS"),
    click.option("--output-length", metavar="TOKENS"),
)
PREFIX_OPTION = click.option("--prefix-hit-share", type=float, default=0.0)
LOAD_OPTIONS = (
    click.option("--concurrency", type=int),
    click.option("--request-rate", type=float),
    click.option("--burstiness", type=float),
)
VERSION_OPTION = click.option("--framework-version", metavar="X.Y.Z")
ENGINE_OPTIONS = (
    click.option("--memory-fraction", type=float),
    click.option("--speculate", metavar="DRAFTED:ACCEPTANCE"),
    click.option("--expert-load", type=float, default=1.0, show_default=True),
    click.option("--rank-wait-steps", type=int),
    click.option("--polls-every-steps", type=int),
    click.option("--host-seconds", metavar="TIME"),
)
LATENCY_OPTION = click.option("--max-latency", metavar="TIME")
