"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from perfcast.errors import PlanError, UnknownNameError

_DEGREES = ("dp", "tp", "pp", "cp", "ep", "vp")
_PLAN_KEYS = (*_DEGREES, "zero", "sp", "recompute", "schedule")

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
                "--dtype", default="fp32", show_default=True, help="fp32, tf32, bf16, fp16 or fp64."
            ),
            click.option(
                "--optimizer", default="adamw", show_default=True, help="adamw, adam, sgd, momentum, none."
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
    if devices != 1:
        raise PlanError(f"--devices {devices}: this version forecasts one device")
    return {**options, "recompute": parse_plan(plan)["recompute"]}


def parse_plan(text: str) -> dict[str, str]:
    """``'tp=1,recompute=full'`` → its keys; on one device every degree is 1."""
    plan = {"recompute": "none"}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = item.partition("=")
        if not equals or not value:
            raise PlanError(f"--plan: '{item}' is not KEY=VALUE")
        if key not in _PLAN_KEYS:
            raise UnknownNameError("plan key", key, _PLAN_KEYS, f"Known: {', '.join(_PLAN_KEYS)}.")
        neutral = {"zero": "0", "sp": "0", "schedule": value, "recompute": value}.get(key, "1")
        if value != neutral:
            raise PlanError(f"--plan {item}: this version forecasts one device, where {key} is {neutral}")
        plan[key] = value
    return plan


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
