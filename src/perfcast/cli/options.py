"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from perfcast.cli.plan import is_one_device, parse_plan
from perfcast.errors import PlanError

Command = Callable[..., Any]


def workload_options(function: Command) -> Command:
    """MODEL and everything that says what is done with it."""
    for option in reversed(
        (
            click.argument("model"),
            click.option("--device", required=True, help="Catalog name, FILE.toml, or 'cpu' (this machine)."),
            click.option("--devices", type=int, default=1, show_default=True, help="Number of devices."),
            click.option("--plan", default="", help="Comma-separated keys, for example recompute=full."),
            click.option("--mode", default="train", show_default=True, help="train, prefill or decode."),
            click.option(
                "--batch-size", type=int, default=1, show_default=True, help="Sequences or samples."
            ),
            click.option("--micro-batch-size", type=int, help="Of one forward; default: the batch size."),
            click.option("--sequence-length", type=int, help="Tokens; default: the model's own."),
            click.option(
                "--dtype",
                default="fp32",
                show_default=True,
                help="fp32, tf32, bf16, fp16 or fp64; fp8 for plans.",
            ),
            click.option(
                "--optimizer",
                default="adamw",
                show_default=True,
                help="adamw, adam, sgd, momentum, none; adamw_8bit, adafactor, muon for plans.",
            ),
            click.option("--optimizer-implementation", help="fused, foreach or loop; default: PyTorch's."),
            click.option("--attention", default="sdpa", show_default=True, help="sdpa (fused) or eager."),
            click.option("--compile", is_flag=True, help="Fuse kernels as torch.compile would (GPUs)."),
        )
    ):
        function = option(function)
    return function


def request_options(devices: int, plan: str, **options: Any) -> dict[str, Any]:
    """The options of ``perfcast.Request``, from those of the command line.

    Raises:
        PlanError: A plan over several devices, or a key that is not one.
    """
    keys = parse_plan(plan)
    if not is_one_device(keys, devices):
        asked = f"--devices {devices}" + (f" --plan {plan}" if plan else "")
        raise PlanError(
            f"{asked}: this version forecasts times of one device; 'perfcast memory' knows plans over many"
        )
    return {**options, "recompute": keys.get("recompute", "none")}


def output_options(*, html: bool, timeline: bool) -> Callable[[Command], Command]:
    """--json, and --html and --timeline where the verb has them."""

    def decorate(function: Command) -> Command:
        if timeline:
            function = click.option("--timeline", metavar="FILE", help="Trace events; opens in Perfetto.")(
                function
            )
        if html:
            function = click.option("--html", metavar="FILE", help="One self-contained page.")(function)
        return click.option("--json", "json_path", metavar="FILE", help="JSON; '-' is standard output.")(
            function
        )

    return decorate
