"""Options of requests and engines, which ``perfcast serving`` and its search share."""

from __future__ import annotations

import click

from perfcast.cli.options import values
from perfcast.core.serving.lengths import Lengths, parse_lengths
from perfcast.core.serving.scheduling import Speculation
from perfcast.errors import InputError


def _lengths_of(_: click.Context, option: click.Parameter, text: str | None) -> Lengths | None:
    return None if text is None else parse_lengths(text, option.opts[0])


def _speculation_of(_: click.Context, option: click.Parameter, text: str | None) -> Speculation | None:
    """``3:0.7``: tokens drafted in each step, and the probability that one is kept."""
    if text is None:
        return None
    drafted, colon, acceptance = text.partition(":")
    try:
        return Speculation(int(drafted), float(acceptance if colon else ""))
    except ValueError:
        raise InputError(f"{option.opts[0]} {text}: DRAFTED:ACCEPTANCE, such as 3:0.7") from None


LENGTH_OPTIONS = (
    click.option(
        "--input-length",
        callback=_lengths_of,
        metavar="TOKENS",
        help="Of prompts: 8192, or SHAPE:MEAN:SPREAD with uniform, normal or lognormal, as uniform:1024:0.2.",
    ),
    click.option("--output-length", callback=_lengths_of, metavar="TOKENS", help="Of answers, likewise."),
)
PREFIX_OPTION = click.option(
    "--prefix-hit-share", type=float, default=0.0, help="Of a prompt's tokens, those that are cached."
)
LOAD_OPTIONS = (
    click.option("--concurrency", type=int, help="Clients that each wait for their answer, of all replicas."),
    click.option("--request-rate", type=float, help="Requests per second, whatever becomes of them."),
    click.option(
        "--burstiness", type=float, help="Of --request-rate: 1 (default) is Poisson, 0 even, above 1 bursts."
    ),
)
VERSION_OPTION = click.option(
    "--framework-version", metavar="X.Y.Z", help="Default: the newest that is known."
)
ENGINE_OPTIONS = (
    click.option(
        "--memory-fraction",
        type=float,
        callback=values.fraction,
        help="Of the device's memory: gpu_memory_utilization of vllm, mem_fraction_static of sglang, "
        "free_gpu_memory_fraction of trtllm; default: the framework's.",
    ),
    click.option(
        "--speculate", callback=_speculation_of, metavar="DRAFTED:ACCEPTANCE", help="Such as 3:0.7."
    ),
    click.option(
        "--expert-load", type=float, default=1.0, show_default=True, help="The busiest rank's over the mean."
    ),
    click.option(
        "--rank-wait-steps",
        type=int,
        help="Of attention data-parallel ranks: prompts wait so long for one another (trtllm).",
    ),
    click.option(
        "--polls-every-steps", type=int, help="New requests are fetched (sglang: --scheduler-recv-interval)."
    ),
    click.option(
        "--host-seconds", callback=values.seconds, metavar="TIME", help="Of a step, where measured: 2ms."
    ),
)
LATENCY_OPTION = click.option(
    "--max-latency", callback=values.seconds, metavar="TIME", help="Limit of a whole answer."
)
