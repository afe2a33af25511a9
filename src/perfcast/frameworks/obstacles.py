"""Which plans a framework cannot run, and why, in words: one rule for each thing that a plan can ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcast.core.plan import Plan
from perfcast.frameworks.profile import SupportProfile


def plan_obstacles(support: SupportProfile, plan: Plan) -> tuple[str, ...]:
    """What of a plan a framework cannot do, each with what it has instead; empty where it can run the plan.

    Model, precision and optimizer are not looked at.
    """
    found = (*_of_degrees(support, plan), *_of_words(support, plan), *_of_sharding(support, plan))
    return tuple(_with_reason(support, key, text) for key, text in (*found, *_of_settings(support, plan)))


def _with_reason(support: SupportProfile, key: str, text: str) -> str:
    return f"{text}: {support.reasons[key]}" if key in support.reasons else text


def _of_degrees(support: SupportProfile, plan: Plan) -> Iterator[tuple[str, str]]:
    degrees = {
        "tp": plan.tensor_parallel,
        "pp": plan.pipeline_parallel,
        "cp": plan.context_parallel,
        "ep": plan.expert_parallel,
    }
    for key, size in degrees.items():
        if size > 1 and key not in support.axes:
            yield key, f"{key}={size}"
    if plan.tensor_parallel_inputs > 1 and not support.cuts_inputs:
        yield "tp_inputs", f"tp_inputs={plan.tensor_parallel_inputs}: 2-D tensor parallelism"


def _of_words(support: SupportProfile, plan: Plan) -> Iterator[tuple[str, str]]:
    words: list[tuple[str, str, tuple[str, ...]]] = [
        ("recompute", plan.recompute, support.recomputes),
        ("offload", plan.offload, support.offloads),
    ]
    if plan.world_size > plan.data_parallel:
        words.append(("order", plan.order, support.orders))
    if plan.pipeline_parallel > 1:
        words.append(("schedule", plan.schedule, support.schedules))
    if plan.expert_parallel > 1 and plan.dispatch is not None:
        words.append(("dispatch", plan.dispatch, support.dispatches))
    if plan.context_parallel > 1 and support.context_communications:
        words.append(("cp_type", plan.context_communication, support.context_communications))
    for key, word, known in words:
        if word in known:
            continue
        given = next(iter({key, f"{key}={word}"} & support.reasons.keys()), "")
        yield given, f"{key}={word}" if given else f"{key}={word}: it has {listed(known)}"


def _of_sharding(support: SupportProfile, plan: Plan) -> Iterator[tuple[str, str]]:
    zero, pp, replicas = plan.zero_stage, plan.pipeline_parallel, plan.num_dense_replicas
    if zero not in support.zero_stages:
        yield f"zero={zero}", f"zero={zero}"
    if zero >= 2 and pp > 1 and not support.sharded_pipelines:
        yield "zero with pp", f"zero={zero} with pp={pp}"
    if zero and plan.num_shards not in (None, replicas) and zero not in support.hybrid_zero_stages:
        yield "shards", f"shards={plan.num_shards} of {replicas} with zero={zero}"
    if zero == 3 and not plan.reshard_after_forward and not support.keeps_gathered_weights:
        yield "reshard", "weights that are kept between forward and backward (reshard=0)"
    most = plan.num_prefetched if support.most_prefetched is None else support.most_prefetched
    if zero == 3 and not support.least_prefetched <= plan.num_prefetched <= most:
        yield "prefetch", f"prefetch={plan.num_prefetched}"


def _of_settings(support: SupportProfile, plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.recompute_layers is not None and not support.recomputes_some_layers:
        yield "recompute_layers", f"recompute_layers={plan.recompute_layers}"
    if plan.recompute_modules and plan.recompute == "selective" and not support.names_modules:
        yield "recompute_modules", f"recompute_modules={'+'.join(plan.recompute_modules)}"
    if plan.bucket_bytes is not None and not support.sets_buckets:
        yield "bucket", "a bucket of gradients"
    if not (plan.overlaps_gradients and plan.overlaps_weights) and not support.sets_overlaps:
        yield "overlap", "exchanges that do not overlap"
    sets_experts = plan.overlaps_experts or plan.overlaps_shared_experts or plan.capacity_factor is not None
    if sets_experts and not support.sets_experts:
        yield "experts", "settings of experts"


def listed(words: Sequence[str]) -> str:
    """Words as a person lists them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
