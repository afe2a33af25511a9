"""The fewest devices of a cluster on which a training keeps its deadline.

More devices are not always faster: a number that divides neither batch nor layers allows poor plans only,
and a larger one may leave a pipeline with a wider bubble. So nothing is bisected: sizes are searched in
rising order, from the smallest that could do, and the first that does is the answer. What could do: a step
takes at least the compute of the plan that computes with the fewest device-seconds, spread over all devices,

    devices ≥ steps · least device-seconds of compute / deadline

with the least of all sizes searched so far; where a later size lowers it, the sizes let in are searched too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from perfcast.core.machine.cluster import Cluster
from perfcast.errors import PlanError
from perfcast.searches.result import SearchResult
from perfcast.searches.space.degrees import divisors
from perfcast.units import format_duration

#: Of large clusters every size is not tried, but so many between a size and its double.
SIZES_PER_OCTAVE = 32


@dataclass
class _Known:
    """What the searches of sizes have shown so far.

    Attributes:
        device_seconds: Of compute in a step, the least of any plan.
        fastest: Step and size of the fastest plan.
    """

    device_seconds: float = float("inf")
    fastest: tuple[float, int] | None = None
    tried: set[int] = field(default_factory=set)

    def learn(self, found: SearchResult) -> None:
        """Take up one size's plans, all without a deadline."""
        evaluation, count = found.evaluation, found.num_devices
        self.device_seconds = min(
            self.device_seconds, count * float(evaluation.seconds_by_cause["compute"].min())
        )
        seconds = float(evaluation.step_seconds.min())
        if self.fastest is None or seconds < self.fastest[0]:
            self.fastest = (seconds, count)


def find_fewest_devices(
    cluster: Cluster,
    resize: Callable[[int], Cluster],
    explore: Callable[[Cluster], SearchResult],
    search: Callable[[Cluster], SearchResult],
    *,
    num_steps: int,
    deadline_seconds: float,
) -> SearchResult:
    """The best plans on the fewest devices that keep a deadline.

    Args:
        cluster: The largest size.
        resize: The same cluster with fewer devices; a ``PlanError`` says that it cannot have so many.
        explore: All plans of a size by formula, whatever the deadline; a ``PlanError``: there is none.
        search: The whole search of a size, with the deadline as a constraint; a ``PlanError`` says that no
            plan keeps it.
        num_steps: Of the training.

    Raises:
        PlanError: No size keeps the deadline; says which comes nearest.
    """
    known, reason = _Known(), ""
    try:
        known.learn(explore(cluster))
    except PlanError as error:
        reason = str(error)
    sizes = list_sizes(cluster)
    while True:
        least = _least(known, num_steps, deadline_seconds)
        left = [size for size in sizes if size >= least and size not in known.tried]
        if not left:
            _refuse(known, cluster, num_steps, deadline_seconds, reason)
        known.tried.add(left[0])
        try:
            resized = resize(left[0])
            known.learn(explored := explore(resized))
        except PlanError:
            continue
        if num_steps * float(explored.evaluation.step_seconds.min()) > deadline_seconds:
            continue
        smaller = _least(known, num_steps, deadline_seconds)
        if any(smaller <= size < left[0] and size not in known.tried for size in sizes):
            known.tried.remove(left[0])
            continue
        try:
            return search(resized)
        except PlanError:  # its simulated plans are too late
            continue


def _least(known: _Known, num_steps: int, deadline_seconds: float) -> float:
    """Devices below which no plan can keep the deadline; 0 while nothing is known."""
    if known.fastest is None:
        return 0.0
    return num_steps * known.device_seconds / deadline_seconds


def list_sizes(cluster: Cluster) -> list[int]:
    """Sizes up to a cluster's own, rising: parts of a server that divide it, then whole servers.

    >>> from perfcast.catalogs.clusters import load_cluster
    >>> list_sizes(load_cluster("dgx-h100:32"))
    [1, 2, 4, 8, 16, 24, 32]
    """
    server = cluster.levels[0].size
    servers, count = [], 1
    while count * server <= cluster.num_devices:
        servers.append(count * server)
        count += max(1, (1 << (count.bit_length() - 1)) // SIZES_PER_OCTAVE)
    return sorted({*divisors(server), *servers, cluster.num_devices})


def _refuse(
    known: _Known, cluster: Cluster, num_steps: int, deadline_seconds: float, reason: str
) -> NoReturn:
    asked = f"no size of {cluster.name} up to {cluster.num_devices:,} devices trains in "
    asked += format_duration(deadline_seconds)
    if known.fastest is None:
        raise PlanError(f"{asked}: {reason}")
    seconds, count = known.fastest
    raise PlanError(
        f"{asked}: the fastest plan tried, on {count:,}, trains for {format_duration(num_steps * seconds)}"
    )
