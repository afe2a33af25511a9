"""A deployment as it was forecast → what is handed over, with every limit that the forecast took."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from perfcast.core.words import known_word
from perfcast.prediction.request.serving import EngineOptions
from perfcast.prediction.serving.resolve import EngineSetting, ResolvedServing
from perfcast.searches.handover.job import count_devices_per_node
from perfcast.searches.handover.serving.job import ServingFramework, ServingJob, find_hub_name

_FRAMEWORKS: tuple[ServingFramework, ...] = get_args(ServingFramework)


def job_of(setting: ResolvedServing, model: str | None = None) -> ServingJob:
    """What is handed over: limits are written even where the framework would take the same by itself.

    Args:
        model: Its name on Hugging Face, or the folder of its weights; None looks the name up.

    Raises:
        InputError: No name is known.
        PlanError: The cluster does not say which devices share a host.
    """
    request, requests = setting.request, setting.requests
    first, *rest = (_options(setting, engine) for engine in setting.engines)
    return ServingJob(
        model=model or find_hub_name(setting.model.name),
        deployment=setting.deployment,
        framework=known_word("serving framework", setting.program.framework, _FRAMEWORKS),
        engine=first,
        decode_engine=rest[0] if rest else None,
        dtype=setting.precision.name,
        kv_cache_dtype=setting.precision.cache_format,
        has_experts=setting.model.sizes.experts is not None,
        longest_tokens=int((requests.prompt_tokens + requests.answer_tokens).max()),
        reuses_prefixes=request.prefix_hit_share > 0,
        devices_per_node=count_devices_per_node(setting.cluster),
    )


def _options(setting: ResolvedServing, engine: EngineSetting) -> EngineOptions:
    """Of one pool; what reads alone drafts nothing."""
    scheduling = engine.scheduling
    reads_alone = len(setting.engines) > 1 and engine is setting.engines[0]
    found = replace(
        setting.request.engine,
        max_sequences=scheduling.max_sequences,
        max_step_tokens=scheduling.max_step_tokens,
        chunks_prompts=scheduling.chunks_prompts,
        block_tokens=scheduling.block_tokens,
        polls_every_steps=scheduling.polls_every_steps,
        rank_wait_steps=scheduling.rank_wait_steps,
        memory_fraction=round(engine.memory_fraction, 4),
    )
    return replace(found, speculation=None) if reads_alone else found
