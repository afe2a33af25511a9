"""The serving frameworks by name, and the refusal of what one cannot run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated
from perfcast.errors import PlanError
from perfcast.searches.handover.serving import dynamo, sglang, trtllm, vllm
from perfcast.searches.handover.serving.job import ServingFramework, ServingJob, servers_of
from perfcast.searches.handover.serving.parallel import find_common_obstacles


@dataclass(frozen=True)
class ServingTarget:
    """A framework: what of a job it cannot do, and the files that tell it."""

    title: str
    find_obstacles: Callable[[ServingJob, Plan], tuple[str, ...]]
    write_files: Callable[[ServingJob], dict[str, str]]


SERVING_TARGETS: Mapping[ServingFramework, ServingTarget] = MappingProxyType(
    {
        "vllm": ServingTarget("vLLM", vllm.find_obstacles, vllm.write_files),
        "sglang": ServingTarget("SGLang", sglang.find_obstacles, sglang.write_files),
        "trtllm": ServingTarget("TensorRT-LLM", trtllm.find_obstacles, trtllm.write_files),
    }
)


def write_serving(job: ServingJob) -> Mapping[str, str]:
    """What starts a deployment.

    Returns:
        Names of files → their texts: scripts of the framework, and 'dynamo.yaml' with the same servers behind
        one door.

    Raises:
        PlanError: The framework cannot run it; the message says what is in the way, and which can.
    """
    target, obstacles = SERVING_TARGETS[job.framework], find_serving_obstacles(job)
    if obstacles:
        others = [
            name for name in SERVING_TARGETS if not find_serving_obstacles(replace(job, framework=name))
        ]
        way_out = f"Frameworks that can: {', '.join(others)}." if others else "No other framework can either."
        raise PlanError(f"{target.title} cannot run this deployment: {'; '.join(obstacles)}. {way_out}")
    return MappingProxyType(target.write_files(job) | dynamo.write_files(job))


def find_serving_obstacles(job: ServingJob) -> tuple[str, ...]:
    """What of a job its framework cannot do; empty where it can."""
    target, deployment = SERVING_TARGETS[job.framework], job.deployment
    pools = (
        (deployment.pool,) if isinstance(deployment, Aggregated) else (deployment.prefill, deployment.decode)
    )
    found = [
        obstacle
        for pool in pools
        for obstacle in (*find_common_obstacles(job, pool.plan), *target.find_obstacles(job, pool.plan))
    ]
    try:
        servers_of(job, first_port=0)
    except PlanError as error:
        found.append(str(error))
    return tuple(dict.fromkeys(found))
