"""Options of ``perfcast scale``, typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import click

from perfcast.cli.options.pack import packed
from perfcast.cli.options.shared import SEQUENCE_HELP, format_option, framework_option, kv_cache_option
from perfcast.cli.options.tuning import TUNING_OPTIONS, TuningOptions
from perfcast.cli.options.values import counts, names, word_of
from perfcast.core.plans.text import PlanValues, parse_plan

#: A training, or what is forecast of inference: prompts, answers, or both.
ScaledMode = Literal["train", "prefill", "decode", "serve"]
SCALED_MODES: tuple[ScaledMode, ...] = get_args(ScaledMode)


@dataclass(frozen=True, kw_only=True)
class ScaleOptions(TuningOptions):
    """What is scaled, as the options give it.

    Attributes:
        devices, batch_sizes, contexts: Empty where none is given.
        plan: What ``--plan`` says, by the fields of ``Plan``.
        assumed, data: Of ``--limits``.
    """

    model: str | None
    clusters: tuple[str, ...]
    devices: tuple[int, ...]
    plan: PlanValues
    is_strong: bool
    batch_size: int | None
    micro_batch_size: int | None
    sequence_length: int | None
    mode: ScaledMode
    batch_sizes: tuple[int, ...]
    contexts: tuple[int, ...]
    dtype: str | None
    kv_cache_dtype: str | None
    framework: str | None
    compile: bool
    cost_model: str | None
    simulated: bool
    limits: bool
    assumed: tuple[str, ...]
    data: str | None


def _plan_values(_: click.Context, __: click.Parameter, text: str) -> PlanValues:
    return parse_plan(text)


scale_options = packed(
    ScaleOptions,
    "own",
    click.argument("model", required=False),
    click.option(
        "--cluster",
        "clusters",
        multiple=True,
        callback=names,
        metavar="NAME",
        help="Or several, A,B: one chart.",
    ),
    click.option(
        "--devices", callback=counts, metavar="N,N,…", help="Such as 8,64,512; inference takes one number."
    ),
    click.option(
        "--plan",
        default="",
        callback=_plan_values,
        help="tp=8,pp=4,…; dp follows. Default: the smallest tp · pp that fits, and of inference the fewest "
        "devices where none are named.",
    ),
    click.option(
        "--strong/--weak", "is_strong", default=True, help="The batch stays, or grows with devices."
    ),
    click.option("--batch-size", type=int, help="Sequences of a step; with --weak of the fewest devices."),
    click.option("--micro-batch-size", type=int, help="Of one forward; default: 1."),
    click.option("--sequence-length", type=int, help=SEQUENCE_HELP),
    click.option(
        "--mode",
        default="train",
        show_default=True,
        callback=word_of("mode", SCALED_MODES),
        help="train, prefill, decode or serve (both, of a standing batch; under load: 'perfcast serving').",
    ),
    click.option(
        "--batch-sizes",
        callback=counts,
        metavar="N,N,…",
        help="Of inference: sequences that are answered at once; default: 1,8,64 of each replica.",
    ),
    click.option(
        "--contexts",
        callback=counts,
        metavar="N,N,…",
        help="Of inference: tokens of a prompt, and of the cache; default: as of every verb.",
    ),
    format_option(),
    kv_cache_option(),
    framework_option(),
    click.option("--compile", is_flag=True, help="Of training: fuse kernels as torch.compile would."),
    *TUNING_OPTIONS,
    click.option("--cost-model", help="learned (default), roofline, or a published one."),
    click.option("--simulate", "simulated", is_flag=True, help="Event by event; default: closed forms."),
    click.option(
        "--limits", is_flag=True, help="How far a training run on H100s can scale (arXiv 2411.01137)."
    ),
    click.option(
        "--assume", "assumed", multiple=True, metavar="NAME=VALUE", help="A free variable of --limits."
    ),
    click.option("--data", metavar="DIR", help="Holds the published curve of --limits, shown beside ours."),
)
