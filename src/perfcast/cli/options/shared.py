"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable

import click

from perfcast.cli.options.pack import Command
from perfcast.core.mode import MOST_TOKENS
from perfcast.core.training import FRAMEWORKS
from perfcast.verbs.shared.step import format_of as read_format

SEQUENCE_HELP = f"Tokens; default: the model's own, at most {MOST_TOKENS:,}."


def format_option() -> Callable[[Command], Command]:
    """The format of products, of verbs that weigh many plans."""
    return click.option(
        "--dtype",
        callback=format_of,
        help="bf16, fp16, fp32, fp8; of inference fp8_block, mxfp8, nvfp4, mxfp4, int8, int8_wo, int4_wo, …; "
        "default: of a training mixed precision, of inference what the model's config says.",
    )


def framework_option() -> Callable[[Command], Command]:
    """Whose program runs."""
    return click.option(
        "--framework",
        help=f"Whose program trains: {', '.join(FRAMEWORKS)}; or answers: vllm, sglang, trtllm, pytorch.",
    )


def kv_cache_option() -> Callable[[Command], Command]:
    """In which format keys and values are kept."""
    return click.option(
        "--kv-cache-dtype",
        metavar="FORMAT",
        help="Of inference, keys and values: auto (what the framework keeps), bf16, fp16, fp8, int8, nvfp4.",
    )


def format_of(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """A format's name, however it is spelled; nothing, and 'auto', stay nothing."""
    return read_format(text)
