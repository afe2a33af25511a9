"""What ``perfcast search`` is asked, from the texts of its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.search.baseline import find_baseline
from perfcast.core.plan_choice import complete_plan
from perfcast.core.plan_text import parse_plan
from perfcast.errors import PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.plan import Plan
    from perfcast.core.plan_text import PlanValue
    from perfcast.search.request import MakePlan, SearchRequest
    from perfcast.search.serving import ServingSearchRequest

Command = Callable[..., Any]
DEFAULT_DTYPE = "bf16"
DEFAULT_FRAMEWORK = "megatron"


def search_options(function: Command) -> Command:
    """All options but those of the output."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS = (
    click.argument("models", metavar="MODEL…", nargs=-1, required=True),
    click.option(
        "--cluster", "clusters", multiple=True, required=True, metavar="NAME:N,…",
        help="Catalog names or .toml files with their devices; several are compared.",
    ),
    click.option("--global-batch-size", metavar="N,…", help="Sequences of a step; several make a sweep."),
    click.option("--sequence-length", metavar="S,…", help="Tokens; default: the model's own."),
    click.option("--mode", default="train", show_default=True, help="train, prefill or decode."),
    click.option("--dtype", default=DEFAULT_DTYPE, show_default=True, help="bf16, fp16, fp32 or fp8."),
    click.option("--optimizer", default="adamw", show_default=True, help="Of training."),
    click.option("--framework", default=DEFAULT_FRAMEWORK, show_default=True, help="Whose program trains."),
    click.option("--cost-model", metavar="NAME",
                 help="learned (default), roofline, a published one; searcher-3d: its choice beside ours."),
    click.option("--fix", "fixed", multiple=True, metavar="KEY=VALUE,…",
                 help="Dimensions that are decided: tp=8,zero=1,recompute_layers=2,shards=8,stages=7/8/8/7 "
                 "(or even, balanced), …; may be repeated."),
    click.option("--max-memory-fraction", type=float, default=1.0, show_default=True, metavar="F",
                 help="Of a device's memory that a plan may take."),
    click.option("--min-mfu", type=float, metavar="F", help="Such as 0.4."),
    click.option("--objective", metavar="NAME",
                 help="time (default), tokens-per-second (default of inference), dollars-per-token, "
                 "energy-per-token, time-to-train, or devices: the fewest that keep --deadline."),
    click.option("--tokens", metavar="N", help="Of the whole training, such as 1e12."),
    click.option("--deadline", metavar="TIME", help="Of the whole training, such as 30d or 12h."),
    click.option("--prices", metavar="FILE", help="Dollars per device and hour: .toml, .json or .csv."),
    click.option("--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="Plans shown."),
    click.option("--num-simulated", type=click.IntRange(0, 10_000), metavar="N",
                 help="Most plans that are simulated event by event; default: 200 (of a sweep: 0)."),
    click.option("--no-simulate", is_flag=True, help="The same as --num-simulated 0."),
    click.option("--processes", type=click.IntRange(1, 256), metavar="N",
                 help="Default: two where there are two processors; of a sweep: with --backend ray."),
    click.option("--compare", "compared", multiple=True, metavar="PLAN",
                 help="tp=8,pp=4,mbs=1,…: explained beside the winner; may be repeated."),
    click.option("--sensitivity", is_flag=True, help="How the winner changes with network, memory, batch."),
    click.option("--max-ttft", metavar="TIME", help="Of inference: until the first token, such as 500ms."),
    click.option("--max-tpot", metavar="TIME", help="Of inference: for each further token, such as 50ms."),
    click.option("--hand-over", "target", metavar="NAME", help="torchtitan, megatron, deepspeed or fsdp2."),
    click.option("--output", metavar="DIR", help="Where the files of --hand-over go."),
    click.option("--backend", default="local", show_default=True, help="Of a sweep: local or ray."),
    click.option("--address", metavar="HOST:PORT", help="Of a running Ray cluster; default: one is started."),
    click.option("--store", metavar="DIR", help="Keeps a sweep's finished cells, for the next run."),
)  # fmt: skip


def split_names(option: str, texts: Sequence[str]) -> tuple[str, ...]:
    """``('a:8,b:8', 'c')`` → three names, each once.

    Raises:
        UsageError: An empty one.
    """
    names = [name.strip() for text in texts for name in text.split(",")]
    if not all(names):
        raise click.UsageError(f"{option} {','.join(texts)}: a name is empty")
    return tuple(dict.fromkeys(names))


def parse_counts(option: str, text: str | None) -> tuple[int, ...]:
    """``'8,64'`` → numbers; nothing gives none.

    Raises:
        PlanError: Something else than whole numbers above 0.
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise PlanError(f"{option} {text}: whole numbers above 0, such as 256 or 256,512")
    return tuple(int(part) for part in parts)


def parse_fixed(texts: Sequence[str]) -> dict[str, PlanValue]:
    """``('tp=8,zero=1', 'pp=4')`` → what a space is fixed to, by key.

    Raises:
        PlanError, UnknownNameError: As of ``read_fixed``.
    """
    from perfcast.search.space.fixed import read_fixed

    return read_fixed(*texts)


def parse_time(option: str, text: str | None) -> float | None:
    """``'30d'``, ``'12h'``, ``'500ms'`` or seconds → seconds.

    Raises:
        PlanError: Not a finite time above 0.
    """
    import math

    from perfcast.units import DAY, HOUR, MICRO, MILLI, MINUTE

    if text is None:
        return None
    units = {"ms": MILLI, "us": MICRO, "µs": MICRO, "min": MINUTE, "d": DAY, "h": HOUR, "s": 1.0, "": 1.0}
    unit = next(name for name in units if text.endswith(name))
    try:
        seconds = float(text.removesuffix(unit)) * units[unit]
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise PlanError(f"{option} {text}: a time above 0, such as 30d, 12h, 45min, 2s or 50ms")
    return seconds


def parse_amount(option: str, text: str | None) -> float | None:
    """``'1e12'`` → a number.

    Raises:
        PlanError: Not a finite number above 0.
    """
    import math

    if text is None:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not 0 < amount < math.inf:
        raise PlanError(f"{option} {text}: a number above 0, such as 1e12")
    return amount


def name_plans(texts: Sequence[str], global_batch_size: int) -> dict[str, MakePlan]:
    """Plans of ``--compare`` by their texts; data parallelism follows from the devices.

    Raises:
        PlanError: Not keys of a plan.
        UnknownNameError: A key that is not one.
    """
    return {text: _plan_maker(text, global_batch_size) for text in texts}


def _plan_maker(text: str, global_batch_size: int) -> MakePlan:
    values = {"micro_batch_size": 1, **parse_plan(text, "--compare")}

    def make(num_devices: int) -> Plan:
        return complete_plan(values, num_devices, global_batch_size)

    return make


def build_request(model: str, options: dict[str, Any]) -> SearchRequest:
    """A search for training.

    Raises:
        InputError: A value that an option cannot have; the message names it.
        UsageError: Options that contradict.
    """
    from perfcast.core.training import Training
    from perfcast.search.prices_file import read_prices
    from perfcast.search.ranking.objectives import OBJECTIVES
    from perfcast.search.request import NUM_SIMULATED, SearchRequest
    from perfcast.search.space.definition import Space

    clusters = split_names("--cluster", options["clusters"])
    batch = one("--global-batch-size", options["global_batch_size"])
    if batch is None:
        raise click.UsageError("--global-batch-size N: how many sequences has a step?")
    objective = options["objective"] or next(iter(OBJECTIVES))
    check_objective(objective, options)
    check_fractions(options)
    return SearchRequest(
        model=model, clusters=clusters, global_batch_size=batch,
        sequence_length=one("--sequence-length", options["sequence_length"]),
        training=Training(
            dtype=options["dtype"], optimizer=options["optimizer"], framework=options["framework"]
        ),
        cost_models=choose_cost_models(options["cost_model"], clusters),
        space=Space(fixed=parse_fixed(options["fixed"])), objective=objective,
        tokens=parse_amount("--tokens", options["tokens"]),
        deadline_seconds=parse_time("--deadline", options["deadline"]),
        prices=read_prices(options["prices"]) if options["prices"] else None,
        max_memory_fraction=options["max_memory_fraction"], min_mfu=options["min_mfu"], top=options["top"],
        num_simulated=count_simulated(options, NUM_SIMULATED), num_processes=count_processes(options),
        named=name_plans(options["compared"], batch), with_sensitivity=options["sensitivity"],
        baseline=find_baseline(options["cost_model"]),
    )  # fmt: skip


def one(option: str, text: str | None) -> int | None:
    """A single number, or None."""
    counts = parse_counts(option, text)
    return counts[0] if counts else None


def count_simulated(options: dict[str, Any], usual: int) -> int:
    """Most plans that are simulated.

    Raises:
        UsageError: Both options that say it.
    """
    asked = options["num_simulated"]
    if options["no_simulate"] and asked:
        raise click.UsageError(f"--no-simulate and --num-simulated {asked} contradict")
    return 0 if options["no_simulate"] else usual if asked is None else int(asked)


def count_processes(options: dict[str, Any]) -> int:
    """Those asked for; else two, where so many processors may be used."""
    import os

    if options["processes"] is not None:
        return int(options["processes"])
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def check_objective(objective: str, options: dict[str, Any]) -> None:
    """Refuse an unknown objective, or one without what it needs.

    Raises:
        UnknownNameError: Lists close names.
        UsageError: Says which option is missing.
    """
    from perfcast.search.ranking.objectives import OBJECTIVES

    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES, f"Known: {', '.join(OBJECTIVES)}.")
    missing = [
        option for _, option in OBJECTIVES[objective].needs if options[option.removeprefix("--")] is None
    ]
    if missing:
        raise click.UsageError(f"--objective {objective} needs {' and '.join(missing)}")
    if options["deadline"] is not None and options["tokens"] is None:
        raise click.UsageError("--deadline needs --tokens: how long is the training?")


def check_fractions(options: dict[str, Any]) -> None:
    """Refuse shares that are none.

    Raises:
        PlanError: Names the option.
    """
    for option, value in (
        ("--max-memory-fraction", options["max_memory_fraction"]),
        ("--min-mfu", options["min_mfu"]),
    ):
        if value is not None and not 0 < value <= 1:
            raise PlanError(f"{option} {value:g}: must be above 0 and at most 1")


def choose_cost_models(name: str | None, clusters: Sequence[str]) -> dict[str, Any]:
    """The cost model of each cluster's device, as ``--cost-model`` names it."""
    from perfcast.catalog.clusters import load_cluster
    from perfcast.cli.options.cost_model import find_cost_model

    if name is None or find_baseline(name) is not None:
        return {}
    devices = dict.fromkeys(load_cluster(cluster).device for cluster in clusters)
    return {device: find_cost_model(name, device) for device in devices}


def build_serving_request(model: str, options: dict[str, Any]) -> ServingSearchRequest:
    """A search for inference.

    Raises:
        InputError: A value that an option cannot have; the message names it.
    """
    from perfcast.search.serving import ServingSearchRequest

    check_fractions(options)
    return ServingSearchRequest(
        model=model, mode=options["mode"],
        context_length=one("--sequence-length", options["sequence_length"]), dtype=options["dtype"],
        max_first_seconds=parse_time("--max-ttft", options["max_ttft"]),
        max_token_seconds=parse_time("--max-tpot", options["max_tpot"]),
        fixed=parse_fixed(options["fixed"]), max_memory_fraction=options["max_memory_fraction"],
        batch_size=one("--global-batch-size", options["global_batch_size"]),
    )  # fmt: skip
