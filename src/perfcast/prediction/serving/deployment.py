"""The deployment where none is named, the devices of one, and what its degrees must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Deployment, Pool
from perfcast.errors import PlanError
from perfcast.prediction.plan.smallest import powers_up_to

#: How the deployment is chosen, for the reader.
RULE = (
    "plan: the smallest tp · pp whose memory holds weights and {tokens:,} tokens of keys and values, of "
    "equals the largest tp within a server; as many replicas as the devices allow"
)
#: Requests of mean length whose keys and values an engine should hold, where there are so many.
_USUAL_SEQUENCES = 32


def pools_of(deployment: Deployment) -> tuple[Pool, ...]:
    """One, or prefill and decode."""
    if isinstance(deployment, Aggregated):
        return (deployment.pool,)
    return (deployment.prefill, deployment.decode)


def check_deployment(deployment: Deployment, model: Transformer, cluster: Cluster) -> None:
    """Whether a deployment is one, and the cluster has its devices; others of it stay idle.

    Raises:
        PlanError: It does not; the message states the equation.
    """
    for pool in pools_of(deployment):
        _check_plan(pool.plan, model)
    if deployment.num_devices > cluster.num_devices:
        parts = " + ".join(f"{pool.replicas} · {pool.plan.world_size}" for pool in pools_of(deployment))
        raise PlanError(
            f"replicas · devices of a replica: {parts} = {deployment.num_devices} devices, but "
            f"{cluster.name} has {cluster.num_devices}"
        )


def _check_plan(plan: Plan, model: Transformer) -> None:
    if plan.data_parallel > 1 and model.experts is None:
        raise PlanError(
            f"dp={plan.data_parallel}: attention data-parallel ranks share experts, and this model has none; "
            "take replicas"
        )
    if plan.context_parallel > 1:
        raise PlanError(f"cp={plan.context_parallel}: a plan of serving has tp, pp, dp and ep")
    if model.num_attention_heads % plan.tensor_parallel:
        raise PlanError(
            f"tp={plan.tensor_parallel} does not divide {model.num_attention_heads} attention heads"
        )
    if plan.pipeline_parallel > model.num_layers:
        raise PlanError(f"pp={plan.pipeline_parallel} stages of {model.num_layers} layers")


def choose_deployment(
    model: Transformer,
    cluster: Cluster,
    kv_tokens: Callable[[Plan], int],
    *,
    longest: int,
    mean: float,
    num_requests: int,
) -> tuple[Aggregated, str]:
    """Replicas of the first plan whose engine holds what requests need.

    Args:
        kv_tokens: Tokens that an engine of a plan holds.
        longest, mean: Tokens of prompt and answer, of the longest request and on average.
        num_requests: That may be under way at once.

    Returns:
        The deployment, and the rule that chose it.

    Raises:
        PlanError: No plan holds even the longest request.
    """
    devices = cluster.num_devices
    sensible = max(longest, math.ceil(mean * min(_USUAL_SEQUENCES, num_requests)))
    second: Plan | None = None
    for plan in _smallest_first(model, devices, cluster.levels[0].size):
        try:
            held = kv_tokens(plan)
        except PlanError:
            continue  # of another model's degrees
        if held >= sensible:
            return _replicas(plan, devices), RULE.format(tokens=sensible)
        if held >= longest:
            second = plan
    if second is None:
        raise PlanError(
            f"no plan of {devices} devices holds the weights and one request of {longest:,} tokens; "
            "take more devices, a narrower --dtype or --kv-cache-dtype"
        )
    return _replicas(second, devices), RULE.format(tokens=longest)


def _replicas(plan: Plan, devices: int) -> Aggregated:
    return Aggregated(Pool(plan, devices // plan.world_size))


def _smallest_first(model: Transformer, devices: int, server: int) -> Iterator[Plan]:
    """Plans of one replica; those with the least devices first, of equals those with the largest tp."""
    degrees = [
        (tensor, pipeline)
        for tensor in powers_up_to(min(server, model.num_attention_heads))
        for pipeline in powers_up_to(model.num_layers)
        if devices % (tensor * pipeline) == 0 and model.num_attention_heads % tensor == 0
    ]
    for tensor, pipeline in sorted(degrees, key=lambda pair: (pair[0] * pair[1], -pair[0])):
        yield Plan(tensor_parallel=tensor, pipeline_parallel=pipeline)
