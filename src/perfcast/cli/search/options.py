"""Options of ``perfcast search``, typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import click

from perfcast.cli.options import values
from perfcast.cli.options.pack import packed
from perfcast.cli.options.shared import SEQUENCE_HELP, format_option, kv_cache_option
from perfcast.cli.options.tuning import TUNING_OPTIONS, TuningOptions
from perfcast.core.mode import MODES, Mode
from perfcast.core.plans.text import PlanValue
from perfcast.core.training import OPTIMIZERS, Optimizer, TrainingFramework

DEFAULT_FRAMEWORK: TrainingFramework = "megatron"
#: What a search is of: a step, or a deployment that serves requests as they come.
SearchMode = Mode | Literal["serving"]
SEARCH_MODES: tuple[SearchMode, ...] = (*MODES, "serving")
Backend = Literal["local", "ray"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(TuningOptions):
    """What is searched, as the options give it; times are seconds.

    Attributes:
        batch_sizes, sequence_lengths: Empty where none is given; several make a sweep.
        fixed: Dimensions that are decided, by key.
        objective: None takes the usual one of training or of inference.
        compared: Plans to be explained beside the winner.
        target, output: A framework that the plan is handed over to, and the folder of its files.
    """

    models: tuple[str, ...]
    clusters: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    sequence_lengths: tuple[int, ...]
    mode: SearchMode
    dtype: str | None
    kv_cache_dtype: str | None
    optimizer: Optimizer
    framework: str | None
    compile: bool
    any_framework: bool
    cost_model: str | None
    fixed: Mapping[str, PlanValue]
    max_memory_fraction: float
    min_mfu: float | None
    objective: str | None
    tokens: float | None
    deadline: float | None
    prices: str | None
    top: int
    num_simulated: int | None
    no_simulate: bool
    processes: int | None
    compared: tuple[str, ...]
    sensitivity: bool
    max_ttft: float | None
    max_tpot: float | None
    target: str | None
    output: str | None
    backend: Backend
    address: str | None
    store: str | None

    @property
    def is_sweep(self) -> bool:
        """Whether several searches are asked for, or what only a sweep has."""
        several = max(len(self.models), len(self.batch_sizes), len(self.sequence_lengths)) > 1
        return several or self.backend != "local" or self.store is not None


def _fixed(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> Mapping[str, PlanValue]:
    from perfcast.searches.space.fixed import read_fixed

    return read_fixed(*texts)


search_options = packed(
    SearchOptions,
    "own",
    click.argument("models", metavar="MODEL…", nargs=-1, required=True),
    click.option(
        "--cluster",
        "clusters",
        multiple=True,
        required=True,
        callback=values.names,
        metavar="NAME:N,…",
        help="Catalog names or .toml files with their devices; several are compared.",
    ),
    click.option(
        "--global-batch-size",
        "batch_sizes",
        callback=values.counts,
        metavar="N,…",
        help="Sequences of a step; several make a sweep.",
    ),
    click.option(
        "--sequence-length",
        "sequence_lengths",
        callback=values.counts,
        metavar="S,…",
        help=SEQUENCE_HELP,
    ),
    click.option(
        "--mode",
        default="train",
        show_default=True,
        callback=values.word_of("mode", SEARCH_MODES),
        help="train; prefill or decode, of batches that arrive at once; serving, of requests as they come.",
    ),
    format_option(),
    kv_cache_option(),
    click.option(
        "--optimizer",
        default="adamw",
        show_default=True,
        callback=values.word_of("optimizer", OPTIMIZERS),
        help="Of training.",
    ),
    *TUNING_OPTIONS,
    click.option(
        "--framework",
        help="Whose program trains, and can run the plans that are offered; default: that of --hand-over, "
        f"else {DEFAULT_FRAMEWORK}. Of inference: whose kernels answer: vllm (default), sglang, trtllm.",
    ),
    click.option("--compile", is_flag=True, help="Of training: fuse kernels as torch.compile would."),
    click.option(
        "--any-framework", is_flag=True, help="Plans too that the framework cannot run, such as DualPipe."
    ),
    click.option(
        "--cost-model",
        metavar="NAME",
        help="learned (default), roofline, a published one; searcher-3d: its choice beside ours.",
    ),
    click.option(
        "--fix",
        "fixed",
        multiple=True,
        callback=_fixed,
        metavar="KEY=VALUE,…",
        help="Dimensions that are decided: tp=8,zero=1,recompute_layers=2,shards=8,stages=7/8/8/7 "
        "(or even, balanced), …; may be repeated.",
    ),
    click.option(
        "--max-memory-fraction",
        type=float,
        callback=values.fraction,
        default=1.0,
        show_default=True,
        metavar="F",
        help="Of a device's memory that a plan may take.",
    ),
    click.option("--min-mfu", type=float, callback=values.fraction, metavar="F", help="Such as 0.4."),
    click.option(
        "--objective",
        metavar="NAME",
        help="time (default), tokens-per-second (default of inference), dollars-per-token, "
        "energy-per-token, time-to-train, devices: the fewest that keep --deadline (of serving: the limits), "
        "or latency (of serving).",
    ),
    click.option(
        "--tokens", callback=values.amount, metavar="N", help="Of the whole training, such as 1e12."
    ),
    click.option(
        "--deadline",
        callback=values.seconds,
        metavar="TIME",
        help="Of the whole training, such as 30d or 12h.",
    ),
    click.option("--prices", metavar="FILE", help="Dollars per device and hour: .toml, .json or .csv."),
    click.option("--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="Plans shown."),
    click.option(
        "--num-simulated",
        type=click.IntRange(0, 10_000),
        metavar="N",
        help="Most plans that are simulated event by event; default: 200 (of a sweep: 0).",
    ),
    click.option("--no-simulate", is_flag=True, help="The same as --num-simulated 0."),
    click.option(
        "--processes",
        type=click.IntRange(1, 256),
        metavar="N",
        help="Default: two where there are two processors; of a sweep: with --backend ray.",
    ),
    click.option(
        "--compare",
        "compared",
        multiple=True,
        metavar="PLAN",
        help="tp=8,pp=4,mbs=1,…: explained beside the winner; may be repeated.",
    ),
    click.option("--sensitivity", is_flag=True, help="How the winner changes with network, memory, batch."),
    click.option(
        "--max-ttft",
        callback=values.seconds,
        metavar="TIME",
        help="Of inference: until the first token, such as 500ms.",
    ),
    click.option(
        "--max-tpot",
        callback=values.seconds,
        metavar="TIME",
        help="Of inference: for each further token, such as 50ms.",
    ),
    click.option("--hand-over", "target", metavar="NAME", help="torchtitan, megatron, deepspeed or fsdp2."),
    click.option("--output", metavar="DIR", help="Where the files of --hand-over go."),
    click.option(
        "--backend",
        default="local",
        show_default=True,
        callback=values.word_of("backend", BACKENDS),
        help="Of a sweep: local or ray.",
    ),
    click.option("--address", metavar="HOST:PORT", help="Of a running Ray cluster; default: one is started."),
    click.option("--store", metavar="DIR", help="Keeps a sweep's finished cells, for the next run."),
)
