"""From the question of ``perfcast search --mode serving`` to the request that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.core.words import known_word
from perfcast.errors import QuestionError
from perfcast.verbs.question import each
from perfcast.verbs.search.question import SearchQuestion
from perfcast.verbs.search.request import choose_cost_models, memory_fraction_of, read_price_list
from perfcast.verbs.shared.step import format_of
from perfcast.verbs.shared.values import parse_time, split_names

if TYPE_CHECKING:
    from perfcast.searches.serving.request import DeploymentSearchRequest


def deployments_request_of(asked: SearchQuestion) -> DeploymentSearchRequest:
    """A search over deployments.

    Raises:
        InputError: A value that an option cannot have; the message names it.
        QuestionError: Options that exclude each other, or of which one is missing.
    """
    from perfcast.prediction.request.serving import Limits
    from perfcast.searches.serving.request import (
        DEPLOYMENT_OBJECTIVES,
        POOL_KINDS,
        STATISTICS,
        DeploymentSearchRequest,
    )

    prompts, answers = asked.lengths("input_length"), asked.lengths("output_length")
    if prompts is None or answers is None:
        raise QuestionError("how long are requests? give --input-length and --output-length")
    return DeploymentSearchRequest(
        model=asked.models[0],
        clusters=asked.clusters,
        prompts=prompts,
        answers=answers,
        load=_load(asked),
        prefix_hit_share=asked.number("prefix_hit_share"),
        limits=Limits(
            time_to_first_token_seconds=parse_time("--max-ttft", asked.max_ttft),
            time_per_output_token_seconds=parse_time("--max-tpot", asked.max_tpot),
            end_to_end_seconds=parse_time("--max-latency", asked.max_latency),
        ),
        statistic=known_word("--limits-of", asked.text("limits_of"), STATISTICS),
        engine=asked.engine_options(
            asked.framework, None if asked.max_memory_fraction is None else memory_fraction_of(asked)
        ),
        dtypes=_tried("--dtype", format_of(asked.dtype), each(asked.dtypes)) or (AUTO,),
        kv_cache_dtypes=_tried("--kv-cache-dtype", asked.kv_cache_dtype, each(asked.kv_cache_dtypes))
        or (None,),
        max_sequences=each(asked.max_sequences),
        max_step_tokens=each(asked.max_step_tokens),
        kinds=tuple(
            known_word("kind of pools", kind, POOL_KINDS) for kind in _names("--pools", each(asked.pools))
        )
        or POOL_KINDS,
        fixed=asked.fixed,
        objective=known_word("objective", asked.objective or DEPLOYMENT_OBJECTIVES[0], DEPLOYMENT_OBJECTIVES),
        cost_models=choose_cost_models(asked.cost_model, asked.clusters),
        prices=read_price_list(asked),
        top=asked.count("top"),
        num_played=asked.count("num_played"),
    )


def _names(option: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    return split_names(option, texts) if texts else ()


def _tried(option: str, one: str | None, texts: tuple[str, ...]) -> tuple[str, ...]:
    several = _names(f"{option}s", texts)
    if one is not None and several:
        raise QuestionError(f"{option}, {option}s: choose one")
    return several or (() if one is None else (one,))


def _load(asked: SearchQuestion) -> ClosedLoad | OpenLoad | None:
    """The load that is asked for; None where the clients are searched too."""
    if asked.concurrency is not None and asked.request_rate is not None:
        raise QuestionError("--concurrency, --request-rate: choose one load")
    if asked.burstiness is not None and asked.request_rate is None:
        raise QuestionError("--burstiness: of --request-rate")
    if asked.concurrency is not None:
        return ClosedLoad(asked.concurrency)
    if asked.request_rate is None:
        return None
    return asked.open_load(asked.request_rate)
