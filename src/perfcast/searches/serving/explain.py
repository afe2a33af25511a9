"""Why a deployment is where it is: what the next gives up, and which limit leaves none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Flags
from perfcast.searches.serving.rank import excess
from perfcast.searches.serving.replicas import Shortage
from perfcast.searches.serving.request import DeploymentSearchRequest
from perfcast.searches.serving.result import FoundDeployment
from perfcast.searches.serving.weigh import Weighed
from perfcast.units import format_seconds

#: Below this part no difference is said.
_SAME = 0.02
_MISSES = 3


def with_what_it_gives_up(found: Sequence[FoundDeployment]) -> tuple[FoundDeployment, ...]:
    """Each beside the first."""
    first = found[0]
    return (first, *(replace(each, gives_up=_differences(first, each)) for each in found[1:]))


def _differences(first: FoundDeployment, other: FoundDeployment) -> tuple[str, ...]:
    said = []
    ratio = other.tokens_per_second_per_device / first.tokens_per_second_per_device
    if abs(ratio - 1) >= _SAME:
        said.append(f"{abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'} throughput of a device")
    pairs: tuple[tuple[str, float, float], ...] = (
        ("first token", first.first_seconds, other.first_seconds),
        ("each token", first.token_seconds, other.token_seconds),
    )
    for name, one, two in pairs:
        if one > 0 and abs(two / one - 1) >= _SAME:
            said.append(f"{name} {abs(two / one - 1):.0%} {'later' if two > one else 'sooner'}")
    if first.dollars_per_token and other.dollars_per_token:
        ratio = other.dollars_per_token / first.dollars_per_token
        if abs(ratio - 1) >= _SAME:
            said.append(f"{abs(ratio - 1):.0%} {'dearer' if ratio > 1 else 'cheaper'}")
    if other.num_devices != first.num_devices:
        said.append(f"{other.num_devices} devices, not {first.num_devices}")
    return tuple(said) or ("hardly anything: the two cannot be told apart",)


def explain_no_replica(
    request: DeploymentSearchRequest, short: Sequence[Shortage], failed: Sequence[str]
) -> str:
    """No plan of any cluster holds one request."""
    tokens = round(request.prompts.mean_tokens + request.answers.mean_tokens)
    if not short:
        return "; ".join(failed) or "no plan of a replica is left on these devices: --fix excludes all"
    best = max(short, key=lambda each: each.kv_tokens)
    return (
        f"none of {len(short)} plans of a replica holds the keys and values of one request of {tokens:,} "
        f"tokens; the roomiest holds {best.kv_tokens:,}: take more devices, or a narrower --dtype or "
        "--kv-cache-dtype"
    )


def explain_none(request: DeploymentSearchRequest, found: Weighed, describe: Callable[[int], str]) -> str:
    """Which limit excludes every deployment, and the nearest misses."""
    limits, count = request.limits, len(found.is_stable)
    if not found.is_stable.any():
        return f"none of {count:,} deployments keeps up with the load: their queues grow without end"
    stable: Flags = found.is_stable
    asked = (
        ("--max-ttft", limits.time_to_first_token_seconds, found.first_seconds),
        ("--max-tpot", limits.time_per_output_token_seconds, found.token_seconds),
        ("--max-latency", limits.end_to_end_seconds, found.whole_seconds),
    )
    said = [
        f"{option} {format_seconds(limit)} excludes all of {count:,} deployments; the fastest takes "
        f"{format_seconds(float(np.nanmin(seconds[stable])))} ({request.statistic})"
        for option, limit, seconds in asked
        if limit is not None and np.nanmin(seconds[stable]) > limit
    ]
    if not said:
        said = [f"no deployment of {count:,} keeps all limits at once, though each alone can be kept"]
    worst = excess(request, found)
    misses: dict[str, str] = {}
    for row in np.argsort(worst, kind="stable").tolist():
        if len(misses) == _MISSES or not np.isfinite(worst[row]):
            break
        first, token = (
            format_seconds(float(each[row])) for each in (found.first_seconds, found.token_seconds)
        )
        misses.setdefault(describe(row), f"first token {first}, each token {token}")
    return "; ".join(said) + (
        ". Nearest: " + "; ".join(f"{name}: {said}" for name, said in misses.items()) if misses else ""
    )
