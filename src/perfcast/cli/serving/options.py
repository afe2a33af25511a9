"""Options of ``perfcast serving``, typed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import click

from perfcast.cli.options import values
from perfcast.cli.options.pack import packed
from perfcast.cli.options.serving import (
    ENGINE_OPTIONS,
    LATENCY_OPTION,
    LENGTH_OPTIONS,
    LOAD_OPTIONS,
    PREFIX_OPTION,
    VERSION_OPTION,
)
from perfcast.cli.options.shared import format_option, kv_cache_option
from perfcast.core.plans.text import PlanValues, parse_plan
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import MEASURED_WINDOWS, MeasuredWindow
from perfcast.core.serving.scheduling import Speculation
from perfcast.errors import InputError

#: Which of the two forms answers, as the option says it.
MethodWord = Literal["events", "closed-form", "both"]
METHOD_WORDS: tuple[MethodWord, ...] = get_args(MethodWord)


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """What serves which requests, as the options give it; times are seconds.

    Attributes:
        plan, prefill_plan, decode_plan: What is said of a replica, by the fields of ``Plan``; None where
            nothing is said.
        sweep: Texts such as 'concurrency=1,4,16'.
    """

    model: str
    device: str | None
    devices: int | None
    cluster: str | None
    plan: PlanValues | None
    replicas: int | None
    prefill_plan: PlanValues | None
    prefill_replicas: int | None
    decode_plan: PlanValues | None
    decode_replicas: int | None
    input_length: Lengths | None
    output_length: Lengths | None
    requests: str | None
    num_requests: int | None
    measure: MeasuredWindow
    prefix_hit_share: float
    seed: int
    concurrency: int | None
    request_rate: float | None
    burstiness: float | None
    saturated: bool
    dtype: str | None
    kv_cache_dtype: str | None
    framework: str | None
    framework_version: str | None
    max_sequences: int | None
    max_step_tokens: int | None
    chunked_prefill: bool | None
    block_tokens: int | None
    memory_fraction: float | None
    speculate: Speculation | None
    expert_load: float
    rank_wait_steps: int | None
    polls_every_steps: int | None
    host_seconds: float | None
    cuda_graphs: bool | None
    max_ttft: float | None
    max_tpot: float | None
    max_latency: float | None
    percentile: float | None
    method: MethodWord
    cost_model: str | None
    price: str | None
    sweep: tuple[str, ...]
    window: tuple[float, float] | None
    launch: str | None
    launch_model: str | None


def _plan_of(_: click.Context, option: click.Parameter, text: str | None) -> PlanValues | None:
    return None if text is None else parse_plan(text, option.opts[0])


_WHERE = (
    click.option("--device", help="Catalog name, or FILE.toml."),
    click.option("--devices", type=int, help="Number of devices, of all replicas; default: those they take."),
    click.option("--cluster", metavar="NAME:N", help="Or devices and their links."),
    click.option(
        "--plan",
        callback=_plan_of,
        help="Of one replica: tp=4,pp=2; dp=8,ep=8 are attention data-parallel ranks that share experts. "
        "Default: the smallest that holds weights and a sensible cache.",
    ),
    click.option("--replicas", type=int, help="Of that plan; default: as many as the devices allow."),
    click.option("--prefill-plan", callback=_plan_of, help="Disaggregated: a replica that reads prompts."),
    click.option("--prefill-replicas", type=int, help="Default: 1."),
    click.option("--decode-plan", callback=_plan_of, help="Disaggregated: a replica that writes answers."),
    click.option("--decode-replicas", type=int, help="Default: 1."),
)
_REQUESTS = (
    *LENGTH_OPTIONS,
    click.option(
        "--requests",
        metavar="FILE",
        help="Recorded requests: Azure's or BurstGPT's .csv, Mooncake's .jsonl, or columns "
        "arrival_seconds,prompt_tokens,answer_tokens; without another load they come at their own times.",
    ),
    click.option(
        "--num-requests",
        type=int,
        help="That are played; default: 10 of each client, 200 at least; 1,000 of a stream.",
    ),
    click.option(
        "--measure",
        default="all",
        show_default=True,
        callback=values.word_of("part of a run", MEASURED_WINDOWS),
        help="Figures are of all requests, the first wave included, or of the steady part.",
    ),
    PREFIX_OPTION,
    click.option("--seed", type=int, default=0, show_default=True, help="Of lengths and arrivals."),
    *LOAD_OPTIONS,
    click.option("--saturated", is_flag=True, help="All requests wait at the door from the beginning."),
)
_ENGINE = (
    format_option(),
    kv_cache_option(),
    click.option("--framework", help="Whose program serves: vllm (default), sglang, trtllm."),
    VERSION_OPTION,
    click.option("--max-sequences", type=int, help="Of an engine at once; default: the framework's."),
    click.option("--max-step-tokens", type=int, help="New tokens of a step; default: the framework's."),
    click.option(
        "--chunked-prefill/--no-chunked-prefill", default=None, help="Prompts read in several steps."
    ),
    click.option("--block-tokens", type=int, help="Of a block of keys and values; default: the framework's."),
    *ENGINE_OPTIONS,
    click.option("--cuda-graphs/--no-cuda-graphs", default=None, help="Steps of decoding are replayed."),
)
_ANSWER = (
    click.option(
        "--max-ttft", callback=values.seconds, metavar="TIME", help="Limit, such as 500ms: goodput."
    ),
    click.option("--max-tpot", callback=values.seconds, metavar="TIME", help="Limit of each further token."),
    LATENCY_OPTION,
    click.option(
        "--percentile",
        type=float,
        callback=values.fraction,
        help="Share of requests that must keep the limits; default: 0.9.",
    ),
    click.option(
        "--method",
        default="both",
        show_default=True,
        callback=values.word_of("method", METHOD_WORDS),
        help="events (every step), closed-form (the steady state), or both side by side.",
    ),
    click.option("--cost-model", help="learned (default), roofline, or a published one."),
    click.option("--price", metavar="DOLLARS", help="Of a device-hour, or a FILE.toml of prices by device."),
    click.option(
        "--sweep",
        multiple=True,
        metavar="NAME=V,V,…",
        help="Curves: concurrency=1,4,16,64, request-rate, input-length, output-length, replicas, "
        "max-sequences, max-step-tokens; several are combined.",
    ),
)


def _window_of(_: click.Context, option: click.Parameter, text: str | None) -> tuple[float, float] | None:
    """``2:5``: from when to when, in seconds."""
    if text is None:
        return None
    begin, colon, end = text.partition(":")
    try:
        window = (float(begin), float(end if colon else ""))
    except ValueError:
        window = (0.0, 0.0)
    if not 0 <= window[0] < window[1] < math.inf:
        raise InputError(f"{option.opts[0]} {text}: FROM:TO in seconds, such as 2:5")
    return window


_FILES = (
    click.option(
        "--window",
        callback=_window_of,
        metavar="FROM:TO",
        help="Of --timeline: seconds whose steps are kept; default: 0:10.",
    ),
    click.option(
        "--launch",
        metavar="DIR",
        help="Write what starts the deployment: commands of vllm, sglang or trtllm, and a Dynamo deployment.",
    ),
    click.option(
        "--launch-model",
        metavar="NAME",
        help="Of the weights on Hugging Face, or their folder; default: that of the catalog's model.",
    ),
)

serving_options = packed(
    ServingOptions, "own", click.argument("model"), *_WHERE, *_REQUESTS, *_ENGINE, *_ANSWER, *_FILES
)
