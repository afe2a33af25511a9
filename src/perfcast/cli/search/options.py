"""Options of ``perfcast search``."""

from __future__ import annotations

import click

from perfcast.cli.options import values
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
from perfcast.cli.options.tuning import TUNING_OPTIONS
from perfcast.verbs.search.question import SearchQuestion

_SEARCH = (
    click.argument("model", metavar="MODEL…", nargs=-1, required=True),
    click.option("--cluster", multiple=True, required=True, metavar="NAME:N,…"),
    click.option(
        "--batch-size", "--global-batch-size", "global_batch_size", callback=values.counts, metavar="N,…"
    ),
    click.option("--sequence-length", callback=values.counts, metavar="S,…"),
    click.option("--mode", default="train", show_default=True),
    click.option("--dtype"),
    click.option("--kv-cache-dtype", metavar="FORMAT"),
    click.option("--optimizer", default="adamw", show_default=True),
    *TUNING_OPTIONS,
    click.option("--framework"),
    click.option("--compile", is_flag=True),
    click.option("--any-framework", is_flag=True),
    click.option("--cost-model", metavar="NAME"),
    click.option("--fix", multiple=True, metavar="KEY=VALUE,…"),
    click.option("--max-memory-fraction", type=float, default=1.0, show_default=True, metavar="F"),
    click.option("--min-mfu", type=float, metavar="F"),
    click.option("--objective", metavar="NAME"),
    click.option("--tokens", callback=values.amount, metavar="N"),
    click.option("--deadline", metavar="TIME"),
    click.option("--prices", metavar="FILE"),
    click.option("--top", type=int, default=10, show_default=True),
    click.option("--num-simulated", type=int, metavar="N"),
    click.option("--no-simulate", is_flag=True),
    click.option("--processes", type=int, metavar="N"),
    click.option("--compare", multiple=True, metavar="PLAN"),
    click.option("--sensitivity", is_flag=True),
    click.option("--max-ttft", metavar="TIME"),
    click.option("--max-tpot", metavar="TIME"),
    click.option("--hand-over", metavar="NAME"),
    click.option("--output", type=OUTPUT_FOLDER, metavar="DIR", help="Where the files of --hand-over go."),
    click.option("--backend", default="local", show_default=True),
    click.option("--address", metavar="HOST:PORT"),
    click.option("--store", type=OUTPUT_FOLDER, metavar="DIR"),
)
_FLEET = (
    *LENGTH_OPTIONS,
    PREFIX_OPTION,
    *LOAD_OPTIONS,
    VERSION_OPTION,
    *ENGINE_OPTIONS,
    LATENCY_OPTION,
    click.option("--limits-of", default="p90", show_default=True, metavar="WORD"),
    click.option("--dtypes", multiple=True, metavar="F,…"),
    click.option("--kv-cache-dtypes", multiple=True, metavar="F,…"),
    click.option("--max-sequences", callback=values.counts, metavar="N,…"),
    click.option("--max-step-tokens", callback=values.counts, metavar="N,…"),
    click.option("--pools", multiple=True, metavar="KIND,…"),
    click.option("--num-played", type=int, default=8, show_default=True),
    click.option(
        "--launch",
        type=OUTPUT_FOLDER,
        metavar="DIR",
        help="Of serving: where what starts the best deployment goes.",
    ),
    click.option(
        "--launch-model", metavar="NAME", help="Of its weights on Hugging Face; default: the catalog model's."
    ),
)

search_options = asking(SearchQuestion, *_SEARCH, *_FLEET)
