"""The part of a space that a framework can run, and what of a fixed choice it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from perfcast.core.plan import Plan
from perfcast.core.plans.text import STAGE_WORDS, PlanValue
from perfcast.errors import PlanError
from perfcast.frameworks.obstacles import plan_obstacles
from perfcast.frameworks.profile import SupportProfile
from perfcast.searches.space.definition import Space
from perfcast.searches.space.fixed import KEYS, write_fixed

_Choice = TypeVar("_Choice", int, str)
#: Layers whose weights ZeRO 3 gathers ahead in every plan of a space.
_PREFETCHED = 1
#: From this stage of ZeRO on, what is sharded has to be brought together within a step.
_GATHERED_WEIGHTS = 3


def supported_space(space: Space, support: SupportProfile) -> Space:
    """The plans of a space without those in whose way ``plan_obstacles`` finds something.

    What is fixed is left as it is: ``check_supported`` refuses it. Of how attention sees the whole sequence,
    a framework that has nothing of what the space tries has its own first choice.
    """
    most = support.most_prefetched
    prefetches = support.least_prefetched <= _PREFETCHED and (most is None or most >= _PREFETCHED)
    stages = [stage for stage in support.zero_stages if prefetches or stage < _GATHERED_WEIGHTS]
    own_types = support.context_communications
    return replace(
        space,
        axes=_both(space.axes, support.axes),
        zero_stages=_both(space.zero_stages, stages),
        shards_pipelines=space.shards_pipelines and support.sharded_pipelines,
        hybrid_zero_stages=_both(space.hybrid_zero_stages, support.hybrid_zero_stages),
        reshards=space.reshards if support.keeps_gathered_weights else _both(space.reshards, (1,)),
        recomputes=_both(space.recomputes, support.recomputes),
        recompute_layers=space.recompute_layers if support.recomputes_some_layers else (0,),
        schedules=_both(space.schedules, support.schedules),
        offloads=_both(space.offloads, support.offloads),
        orders=_both(space.orders, support.orders),
        context_communications=_both(space.context_communications, own_types)
        or own_types[:1]
        or space.context_communications,
        overlaps_gradients=space.overlaps_gradients if support.sets_overlaps else (1,),
        overlaps_weights=space.overlaps_weights if support.sets_overlaps else (1,),
        overlaps_experts=space.overlaps_experts if support.sets_experts else (0,),
    )


def _both(tried: Sequence[_Choice], had: Sequence[object]) -> tuple[_Choice, ...]:
    return tuple(value for value in tried if value in had)


def check_supported(fixed: Mapping[str, PlanValue], support: SupportProfile, title: str) -> None:
    """Refuse fixed values that a framework cannot run.

    Args:
        title: Of the framework.

    Raises:
        PlanError: Says what is in the way, and how it is searched all the same.
    """
    found = fixed_obstacles(fixed, support)
    if found:
        raise PlanError(
            f"--fix {write_fixed(fixed)}: {title} cannot run {'; '.join(found)}. Take another --framework, "
            "or --any-framework for plans that it cannot run"
        )


def fixed_obstacles(fixed: Mapping[str, PlanValue], support: SupportProfile) -> tuple[str, ...]:
    """What of fixed values a framework cannot do, of the smallest plan in which they mean something."""
    stated: dict[str, Any] = {
        KEYS[key]: value for key, value in fixed.items() if value not in (*STAGE_WORDS, 0) or key == "zero"
    }
    switched_off = {KEYS[key]: False for key, value in fixed.items() if key in _SWITCHES and not value}
    around = _around(stated, switched_off)
    try:
        asked, usual = Plan(**{**around, **stated, **switched_off}), Plan(**around)
    except PlanError:
        return ()  # no framework's: why there is no plan is said in numbers
    known = plan_obstacles(support, usual)
    return tuple(obstacle for obstacle in plan_obstacles(support, asked) if obstacle not in known)


#: Keys that are yes where nothing is said.
_SWITCHES = ("reshard", "overlap_gradients", "overlap_weights")


def _around(stated: Mapping[str, Any], switched_off: Mapping[str, bool]) -> dict[str, Any]:
    """The smallest other dimensions with which fixed ones mean something."""
    found: dict[str, Any] = {}
    stages = stated.get("pipeline_parallel", 1)
    if stated.get("virtual_stages_per_rank", 1) > 1 or stated.get("schedule") == "interleaved":
        found |= {"virtual_stages_per_rank": 2, "schedule": "interleaved"}
    if "pipeline_parallel" not in stated and (found or stated.get("schedule", "1f1b") != "1f1b"):
        stages = found["pipeline_parallel"] = 2
    if "context_communication" in stated:
        found["context_parallel"] = 2
    if "order" in stated:
        found["tensor_parallel"] = 2
    if "reshard_after_forward" in switched_off:
        found["zero_stage"] = 3
    if "recompute_layers" in stated:
        found["recompute"] = "full"
    experts = stated.get("expert_parallel", 1) * (stated.get("expert_tensor_parallel") or 1)
    found["data_parallel"] = 2 * experts * stated.get("num_shards", 1)
    if "num_shards" in stated:
        found["zero_stage"] = 1
    found["num_micro_batches"] = 2 * stages
    return found
