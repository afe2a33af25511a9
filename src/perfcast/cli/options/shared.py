"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from perfcast.core.plan_choice import is_one_device, stated_micro_batch_size
from perfcast.core.plan_text import parse_plan
from perfcast.errors import PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.training import AttentionKernels

Command = Callable[..., Any]
#: Where none is asked for.
DEFAULT_DTYPE = "fp32"
PLAN_DTYPE = "bf16"


def workload_options(*, requires_device: bool) -> Callable[[Command], Command]:
    """MODEL and everything that says what is done with it."""

    def decorate(function: Command) -> Command:
        for option in reversed(_workload_options(requires_device)):
            function = option(function)
        return function

    return decorate


def _workload_options(requires_device: bool) -> tuple[Callable[[Command], Command], ...]:
    return (
        click.argument("model"),
        click.option(
            "--device", required=requires_device, help="Catalog name, FILE.toml, or 'cpu' (this machine)."
        ),
        click.option("--devices", type=int, default=1, show_default=True, help="Number of devices."),
        click.option("--plan", default="", help="Comma-separated keys, for example recompute=full."),
        click.option("--mode", default="train", show_default=True, help="train, prefill or decode."),
        click.option(
            "--batch-size",
            type=int,
            help="Sequences or samples, over all devices; default: 1; under a plan, enough to fill it.",
        ),
        click.option(
            "--micro-batch-size",
            type=int,
            help="Of one forward; default: a replica's batch; in a pipeline 1.",
        ),
        click.option("--sequence-length", type=int, help="Tokens; default: the model's own."),
        click.option(
            "--dtype", help="fp32, tf32, bf16, fp16 or fp64; fp8 for plans; default: fp32; bf16 for plans."
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


def request_options(devices: int, plan: str, **options: Any) -> dict[str, Any]:
    """The options of ``perfcast.Request``, from those of the command line.

    Raises:
        PlanError: A plan over several devices, or a key that is not one.
    """
    values = parse_plan(plan)
    if not is_one_device(values, devices):
        asked = f"--devices {devices}" + (f" --plan {plan}" if plan else "")
        raise PlanError(f"{asked}: this is of one device")
    if options["batch_size"] is None:
        options["batch_size"] = 1
    options["dtype"] = options["dtype"] or DEFAULT_DTYPE
    options["micro_batch_size"] = stated_micro_batch_size(values, options["micro_batch_size"])
    return {**options, "recompute": values.get("recompute", "none")}


def attention_kernels(name: str) -> AttentionKernels:
    """What a plan calls the kernels of transformers' implementation of attention.

    Raises:
        UnknownNameError: Not one of them.
    """
    kernels: dict[str, AttentionKernels] = {"sdpa": "flash", "eager": "math"}
    if name not in kernels:
        raise UnknownNameError("attention", name, kernels, f"Known: {', '.join(kernels)}.")
    return kernels[name]


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
