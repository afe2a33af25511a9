"""``perfcast scale``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.shared import output_options
from perfcast.cli.output import Outputs, write_answer
from perfcast.core.plan_choice import complete_plan
from perfcast.core.plan_text import parse_plan

if TYPE_CHECKING:
    from perfcast.core.mode import Mode
    from perfcast.core.plan import Plan
    from perfcast.core.training import Training
    from perfcast.prediction.sweep.scale import ScaleForecast
    from perfcast.prediction.sweep.serving import ServingForecast

_DEFAULT_DTYPE = "bf16"
#: Of inference, where nothing is asked for.
_SEQUENCES_OF_A_REPLICA, _CONTEXT = (1, 8, 64), 2048
_OF_LIMITS = ("assumed", "data")
_OF_INFERENCE = ("batch_sizes", "contexts")
_OF_TRAINING = ("micro_batch_size", "framework", "is_weak", "simulated")
_NAMES = {
    "assumed": "--assume", "data": "--data", "batch_sizes": "--batch-sizes", "contexts": "--contexts",
    "micro_batch_size": "--micro-batch-size", "framework": "--framework", "is_weak": "--weak",
    "simulated": "--simulate", "batch_size": "--batch-size", "sequence_length": "--sequence-length",
}  # fmt: skip


@click.command()
@click.argument("model", required=False)
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Or several, A,B: one chart.")
@click.option("--devices", metavar="N,N,…", help="Such as 8,64,512; inference takes one number.")
@click.option("--plan", default="", help="tp=8,pp=4,…; dp follows. Default: the smallest tp · pp that fits.")
@click.option("--strong/--weak", "is_strong", default=True, help="The batch stays, or grows with devices.")
@click.option("--batch-size", type=int, help="Sequences of a step; with --weak of the fewest devices.")
@click.option("--micro-batch-size", type=int, help="Of one forward; default: 1.")
@click.option("--sequence-length", type=int, help="Tokens; default: the model's own.")
@click.option("--mode", default="train", show_default=True, help="train, prefill, decode or serve (both).")
@click.option(
    "--batch-sizes",
    metavar="N,N,…",
    help="Of inference: sequences that are answered at once; default: 1,8,64 of each replica.",
)
@click.option(
    "--contexts", metavar="N,N,…", help="Of inference: tokens of a prompt, and of the cache; default: 2048."
)
@click.option("--dtype", default=_DEFAULT_DTYPE, show_default=True, help="bf16, fp16, fp32 or fp8.")
@click.option("--framework", help="Of training: pytorch, fsdp, megatron, nanotron, deepspeed.")
@click.option("--cost-model", help="learned (default), roofline, or a published one.")
@click.option("--simulate", "simulated", is_flag=True, help="Event by event; default: closed forms.")
@click.option("--limits", is_flag=True, help="How far a training run on H100s can scale (arXiv 2411.01137).")
@click.option("--assume", "assumed", multiple=True, metavar="NAME=VALUE", help="A free variable of --limits.")
@click.option("--data", metavar="DIR", help="Holds the published curve of --limits, shown beside ours.")
@output_options(html=True, timeline=False)
def scale(
    model: str | None, limits: bool, is_strong: bool, json_path: str | None, html: str | None, **options: Any
) -> None:
    """Forecast what becomes of a training step of MODEL on more and more devices, or of inference with
    more sequences and longer contexts.

    MODEL is a catalog name, or a Hugging Face config.json or its folder.
    """
    outputs = Outputs(json=json_path, html=html)
    outputs.check()
    options["is_weak"] = not is_strong
    options["clusters"] = split_names(options["clusters"])
    if limits:
        from perfcast.cli.scale.limits import show_limits

        if model or html or options["clusters"]:
            raise click.UsageError("--limits has no model, no cluster and no page")
        show_limits(options["assumed"], options["data"], json_path)
        return
    _refuse(options, _OF_LIMITS, "of --limits")
    if model is None or not options["clusters"]:
        raise click.UsageError("give MODEL and --cluster with --devices, or --limits")
    if options["mode"] == "train":
        _refuse(options, _OF_INFERENCE, "of inference (--mode serve)")
        _write_scaling(_scaling(model, options), outputs)
    else:
        _refuse(options, (*_OF_TRAINING, "batch_size", "sequence_length"), "of training; inference has "
                "--batch-sizes and --contexts")  # fmt: skip
        _write_serving(_serving(model, options), outputs)


def _refuse(options: dict[str, Any], names: tuple[str, ...], reason: str) -> None:
    given = [_NAMES[name] for name in names if options[name]]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {reason}")


def _scaling(model: str, options: dict[str, Any]) -> ScaleForecast:
    """Training over numbers of devices, with progress on standard error."""
    from rich.console import Console

    from perfcast.prediction.request.scale import ScaleRequest
    from perfcast.prediction.sweep.scale import predict_scaling

    if options["devices"] is None:
        raise click.UsageError("on how many? give --devices, such as 8,64,512")
    devices = parse_counts("--devices", options["devices"])
    for name in options["clusters"]:
        if ":" in name:
            raise click.UsageError(f"--cluster {name}: how many devices is said by --devices")
    values = parse_plan(options["plan"])
    micro = options["micro_batch_size"] or 1

    def rule(count: int, batch: int) -> Plan:
        return complete_plan(values, count, batch, micro)

    request = ScaleRequest(
        model=model,
        clusters=options["clusters"],
        devices=devices,
        batch_size=options["batch_size"] or micro * max(devices),
        is_weak=options["is_weak"],
        rule=rule if values else None,
        training=_training(options),
        sequence_length=options["sequence_length"],
        cost_model=_cost_model(options["cost_model"], options["clusters"]),
        method="simulated" if options["simulated"] else "closed_form",
    )
    with Console(stderr=True, highlight=False).status("…") as status:
        found = predict_scaling(request, lambda name, count: status.update(f"{name}: {count:,} devices …"))
    points = [point for curve in found.curves for point in curve.points]
    _check_any({f"{point.num_devices} devices": point.skipped for point in points})
    return found


def _training(options: dict[str, Any]) -> Training | None:
    """None where nothing but the default is asked for: each plan then suggests its framework."""
    from perfcast.core.training import Training

    if options["framework"] is None and options["dtype"] == _DEFAULT_DTYPE:
        return None
    return Training(dtype=options["dtype"], framework=options["framework"] or "megatron")


def _serving(model: str, options: dict[str, Any]) -> ServingForecast:
    """Inference over batch sizes and contexts."""
    from rich.console import Console

    from perfcast.errors import UnknownNameError
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.prediction.request.serving import ServingRequest
    from perfcast.prediction.sweep.serving import serving_sweep

    modes: dict[str, tuple[Mode, ...]] = {
        "prefill": ("prefill",),
        "decode": ("decode",),
        "serve": ("prefill", "decode"),
    }
    if options["mode"] not in modes:
        known = ("train", *modes)
        raise UnknownNameError("mode", options["mode"], known, f"Known: {', '.join(known)}.")
    if len(options["clusters"]) > 1:
        raise click.UsageError("inference is swept on one --cluster")
    name = options["clusters"][0]
    asked = _only(options["devices"])
    if ":" in name:
        cluster = cluster_by_name(name, asked)
        plan = _serving_plan(options["plan"], cluster.num_devices)
    else:
        plan = _serving_plan(options["plan"], asked)
        cluster = cluster_by_name(name, plan.world_size)
    request = ServingRequest(
        model=model,
        cluster=cluster,
        plan=plan,
        batch_sizes=_batches(options["batch_sizes"], plan),
        context_lengths=_contexts(options["contexts"], model),
        modes=modes[options["mode"]],
        dtype=options["dtype"],
        cost_model=_cost_model(options["cost_model"], options["clusters"]),
    )
    with Console(stderr=True, highlight=False).status("…") as status:
        found = serving_sweep(
            request,
            lambda batch, context: status.update(f"{batch:,} sequences of {context:,} tokens …"),
        )
    _check_any({f"{p.batch_size} sequences of {p.context_length} tokens": p.skipped for p in found.points})
    return found


def _serving_plan(text: str, devices: int | None) -> Plan:
    return complete_plan({"sequence_parallel": False, **parse_plan(text)}, devices, None, 1)


def _batches(text: str | None, plan: Plan) -> tuple[int, ...]:
    if text is not None:
        return parse_counts("--batch-sizes", text)
    return tuple(share * plan.data_parallel for share in _SEQUENCES_OF_A_REPLICA)


def _contexts(text: str | None, model: str) -> tuple[int, ...]:
    """As given, or ``_CONTEXT``, or the model's own length where that is shorter."""
    from perfcast.prediction.model import read_model

    if text is not None:
        return parse_counts("--contexts", text)
    return (min(_CONTEXT, read_model(model).own_sequence_length or _CONTEXT),)


def _check_any(skipped: dict[str, str]) -> None:
    """Raises PlanError where no point has a forecast: ``skipped`` says of each why, '' of one that has."""
    from perfcast.errors import PlanError

    if all(skipped.values()):
        point, reason = next(iter(skipped.items()))
        more = f", and the other {len(skipped) - 1} neither" if len(skipped) > 1 else ""
        raise PlanError(f"{point} cannot be forecast{more}: {reason}")


def split_names(texts: Sequence[str]) -> tuple[str, ...]:
    """``('a,b', 'c')`` → each name once, in the order given."""
    return tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def _only(devices: str | None) -> int | None:
    if devices is None:
        return None
    counts = parse_counts("--devices", devices)
    if len(counts) > 1:
        raise click.UsageError("inference is swept over batches and contexts on one number of --devices")
    return counts[0]


def _cost_model(name: str | None, clusters: tuple[str, ...]) -> Any:
    from perfcast.catalog.clusters import load_cluster_entry
    from perfcast.cli.options.cost_model import find_cost_model

    stem = clusters[0].partition(":")[0]
    return find_cost_model(name, load_cluster_entry(stem).device)


def parse_counts(option: str, text: str | None) -> tuple[int, ...]:
    """``'8,64,512'`` → numbers.

    Raises:
        UsageError: Nothing, or something else than whole numbers above 0.
    """
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) for part in parts):
        raise click.UsageError(f"{option} {text or ''}: whole numbers above 0, such as 8,64,512")
    return tuple(int(part) for part in parts)


def _write_scaling(found: ScaleForecast, outputs: Outputs) -> None:
    from perfcast.report.data.scale import data_of
    from perfcast.report.documents.scale import document_of

    write_answer(outputs, lambda: document_of(found), lambda: data_of(found))


def _write_serving(found: ServingForecast, outputs: Outputs) -> None:
    from perfcast.report.data.serving import data_of
    from perfcast.report.documents.serving import document_of

    write_answer(outputs, lambda: document_of(found), lambda: data_of(found))
