"""Options of ``perfcast serving``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.options.places import OUTPUT_FOLDER
from perfcast.cli.options.requests import (
    ENGINE_OPTIONS,
    LATENCY_OPTION,
    LENGTH_OPTIONS,
    LOAD_OPTIONS,
    PREFIX_OPTION,
    VERSION_OPTION,
)
from perfcast.verbs.serving.question import ServingQuestion

_WHERE = (
    click.option("--device"),
    click.option("--devices", type=int),
    click.option("--cluster", metavar="NAME:N"),
    click.option("--plan"),
    click.option("--replicas", type=int),
    click.option("--prefill-plan"),
    click.option("--prefill-replicas", type=int),
    click.option("--decode-plan"),
    click.option("--decode-replicas", type=int),
)
_REQUESTS = (
    *LENGTH_OPTIONS,
    click.option("--requests", metavar="FILE"),
    click.option("--num-requests", type=int),
    click.option("--measure", default="all", show_default=True),
    PREFIX_OPTION,
    click.option("--seed", type=int, default=0, show_default=True),
    *LOAD_OPTIONS,
    click.option("--saturated", is_flag=True),
)
_ENGINE = (
    click.option("--dtype"),
    click.option("--kv-cache-dtype", metavar="FORMAT"),
    click.option("--framework"),
    VERSION_OPTION,
    click.option("--max-sequences", type=int),
    click.option("--max-step-tokens", type=int),
    click.option("--chunked-prefill/--no-chunked-prefill", default=None),
    click.option("--block-tokens", type=int),
    *ENGINE_OPTIONS,
    click.option("--cuda-graphs/--no-cuda-graphs", default=None),
)
_ANSWER = (
    click.option("--max-ttft", metavar="TIME"),
    click.option("--max-tpot", metavar="TIME"),
    LATENCY_OPTION,
    click.option("--percentile", type=float),
    click.option("--method", default="both", show_default=True),
    click.option("--cost-model"),
    click.option("--price", metavar="DOLLARS"),
    click.option("--sweep", multiple=True, metavar="NAME=V,V,…"),
)
_FILES = (
    click.option("--window", metavar="FROM:TO"),
    click.option(
        "--launch",
        type=OUTPUT_FOLDER,
        metavar="DIR",
        help="Write what starts the deployment: commands of vllm, sglang or trtllm, and a Dynamo deployment.",
    ),
    click.option(
        "--launch-model",
        metavar="NAME",
        help="Of the weights on Hugging Face, or their folder; default: that of the catalog's model.",
    ),
)

serving_options = asking(
    ServingQuestion, click.argument("model"), *_WHERE, *_REQUESTS, *_ENGINE, *_ANSWER, *_FILES
)
