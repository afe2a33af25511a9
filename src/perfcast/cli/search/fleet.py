"""``perfcast search --mode serving``: the best deployment for requests as they come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from perfcast.cli.options import values
from perfcast.cli.options.given import is_given
from perfcast.cli.options.pack import packed
from perfcast.cli.options.serving import (
    ENGINE_OPTIONS,
    LATENCY_OPTION,
    LENGTH_OPTIONS,
    LOAD_OPTIONS,
    PREFIX_OPTION,
    VERSION_OPTION,
)
from perfcast.cli.output import Outputs, write_answer
from perfcast.cli.search.options import SearchOptions
from perfcast.core.dtype import AUTO
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.core.serving.scheduling import Speculation
from perfcast.core.words import known_word

if TYPE_CHECKING:
    from perfcast.searches.resolve import Progress
    from perfcast.searches.serving.request import DeploymentSearchRequest
    from perfcast.searches.serving.result import DeploymentSearchResult

_STATISTIC = "p90"


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Requests, load and engines of a search over deployments, as the options give them.

    Attributes:
        dtypes, kv_cache_dtypes: Beside --dtype and --kv-cache-dtype, further ones that are tried.
        pools: 'aggregated', 'disaggregated' or both.
        launch: A folder for what starts the best that its framework can run.
        launch_model: Name of its weights on Hugging Face, or their folder.
    """

    input_length: Lengths | None
    output_length: Lengths | None
    prefix_hit_share: float
    concurrency: int | None
    request_rate: float | None
    burstiness: float | None
    framework_version: str | None
    memory_fraction: float | None
    speculate: Speculation | None
    expert_load: float
    rank_wait_steps: int | None
    polls_every_steps: int | None
    host_seconds: float | None
    max_latency: float | None
    limits_of: str
    dtypes: tuple[str, ...]
    kv_cache_dtypes: tuple[str, ...]
    max_sequences: tuple[int, ...]
    max_step_tokens: tuple[int, ...]
    pools: tuple[str, ...]
    num_played: int
    launch: str | None
    launch_model: str | None


fleet_options = packed(
    FleetOptions,
    "served",
    *LENGTH_OPTIONS,
    PREFIX_OPTION,
    *LOAD_OPTIONS,
    VERSION_OPTION,
    *ENGINE_OPTIONS,
    LATENCY_OPTION,
    click.option(
        "--limits-of",
        default=_STATISTIC,
        show_default=True,
        metavar="WORD",
        help="Of serving, what of the requests keeps limits: mean, median, p90 or p99.",
    ),
    click.option(
        "--dtypes", multiple=True, callback=values.names, metavar="F,…", help="Of serving: all are tried."
    ),
    click.option(
        "--kv-cache-dtypes",
        multiple=True,
        callback=values.names,
        metavar="F,…",
        help="Of serving: all are tried.",
    ),
    click.option(
        "--max-sequences",
        callback=values.counts,
        metavar="N,…",
        help="Of an engine at once, tried; default: the framework's and, with a load, smaller ones.",
    ),
    click.option(
        "--max-step-tokens",
        callback=values.counts,
        metavar="N,…",
        help="New tokens of a step, tried; default: the framework's, 2048, 4096, 8192 and 16384.",
    ),
    click.option(
        "--pools",
        multiple=True,
        callback=values.names,
        metavar="KIND,…",
        help="Of serving: aggregated, disaggregated; default: both.",
    ),
    click.option(
        "--num-played",
        type=click.IntRange(0, 200),
        default=8,
        show_default=True,
        help="Of serving: deployments, best by formula, that are played by events.",
    ),
    click.option("--launch", metavar="DIR", help="Of serving: where what starts the best deployment goes."),
    click.option(
        "--launch-model", metavar="NAME", help="Of its weights on Hugging Face; default: the catalog model's."
    ),
)


def refuse_served(reason: str) -> None:
    """Of another mode: what only serving has.

    Raises:
        UsageError: One was given.
    """
    names = list(FleetOptions.__dataclass_fields__)
    given = [f"--{name.replace('_', '-')}" for name in names if is_given(name)]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {reason}")


def search_fleet(
    own: SearchOptions,
    served: FleetOptions,
    outputs: Outputs,
    show_progress: Callable[[], AbstractContextManager[Progress]],
) -> None:
    """Search, and write what was found."""
    from perfcast.cli.serving.launch import check_launch
    from perfcast.searches.serving.search import search_deployments

    request = build_fleet_request(own, served)
    if served.launch_model is not None and served.launch is None:
        raise click.UsageError("--launch-model: of --launch DIR")
    if served.launch is not None:
        check_launch(own.models[0], served.launch, served.launch_model)
    with show_progress() as watch:
        found = search_deployments(request, watch)
    _write(found, served, outputs)


def _write(found: DeploymentSearchResult, served: FleetOptions, outputs: Outputs) -> None:
    from perfcast.report.data.search.deployments import data_of
    from perfcast.report.documents.search.deployments import document_of

    said = () if served.launch is None else _launch(found, served.launch, served.launch_model)
    write_answer(outputs, lambda: document_of(found), lambda: data_of(found), said=said)


def _launch(found: DeploymentSearchResult, folder: str, model: str | None) -> tuple[str, ...]:
    """Write what starts the first deployment that its framework can run; lines that say so."""
    from perfcast.cli.serving.launch import first_launch_files, write_launch_files

    requests = [each.request for each in found.ranked]
    place, files, obstacle = first_launch_files(requests, folder, model)
    other = (
        (
            f"deployment 1 is not launched: {obstacle}",
            f"launched is the next that can be: {place + 1} of the list",
        )
        if place
        else ()
    )
    return (*other, *(f"wrote {name}" for name in write_launch_files(files)))


def build_fleet_request(own: SearchOptions, served: FleetOptions) -> DeploymentSearchRequest:
    """A search over deployments.

    Raises:
        InputError: A value that an option cannot have; the message names it.
        UsageError: Options that exclude each other, or of which one is missing.
    """
    from perfcast.cli.search.request import choose_cost_models, read_price_list
    from perfcast.prediction.request.serving import EngineOptions, Limits
    from perfcast.searches.serving.request import (
        DEPLOYMENT_OBJECTIVES,
        POOL_KINDS,
        STATISTICS,
        DeploymentSearchRequest,
    )

    if served.input_length is None or served.output_length is None:
        raise click.UsageError("how long are requests? give --input-length and --output-length")
    return DeploymentSearchRequest(
        model=own.models[0],
        clusters=own.clusters,
        prompts=served.input_length,
        answers=served.output_length,
        load=_load(served),
        prefix_hit_share=served.prefix_hit_share,
        limits=Limits(
            time_to_first_token_seconds=own.max_ttft,
            time_per_output_token_seconds=own.max_tpot,
            end_to_end_seconds=served.max_latency,
        ),
        statistic=known_word("--limits-of", served.limits_of, STATISTICS),
        engine=EngineOptions(
            framework=own.framework,
            version=served.framework_version,
            memory_fraction=served.memory_fraction or _fraction(own),
            host_seconds=served.host_seconds,
            speculation=served.speculate,
            expert_load=served.expert_load,
            rank_wait_steps=served.rank_wait_steps,
            polls_every_steps=served.polls_every_steps,
        ),
        dtypes=_tried("--dtype", own.dtype, served.dtypes) or (AUTO,),
        kv_cache_dtypes=_tried("--kv-cache-dtype", own.kv_cache_dtype, served.kv_cache_dtypes) or (None,),
        max_sequences=served.max_sequences,
        max_step_tokens=served.max_step_tokens,
        kinds=tuple(known_word("kind of pools", kind, POOL_KINDS) for kind in served.pools) or POOL_KINDS,
        fixed=own.fixed,
        objective=known_word("objective", own.objective or DEPLOYMENT_OBJECTIVES[0], DEPLOYMENT_OBJECTIVES),
        cost_models=choose_cost_models(own.cost_model, own.clusters),
        prices=read_price_list(own),
        top=own.top,
        num_played=served.num_played,
    )


def _fraction(own: SearchOptions) -> float | None:
    return own.max_memory_fraction if is_given("max_memory_fraction") else None


def _tried(option: str, one: str | None, several: tuple[str, ...]) -> tuple[str, ...]:
    if one is not None and several:
        raise click.UsageError(f"{option}, {option}s: choose one")
    return several or (() if one is None else (one,))


def _load(served: FleetOptions) -> ClosedLoad | OpenLoad | None:
    """The load that is asked for; None where the clients are searched too."""
    if served.concurrency is not None and served.request_rate is not None:
        raise click.UsageError("--concurrency, --request-rate: choose one load")
    if served.burstiness is not None and served.request_rate is None:
        raise click.UsageError("--burstiness: of --request-rate")
    if served.concurrency is not None:
        return ClosedLoad(served.concurrency)
    if served.request_rate is None:
        return None
    return OpenLoad(served.request_rate, 1.0 if served.burstiness is None else served.burstiness)
