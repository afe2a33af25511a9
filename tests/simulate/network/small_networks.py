"""Clusters with round figures, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.simulate.network.simulate import simulate_groups
from perfcast.simulate.network.topology import Topology

RATE = 100.0
LATENCY_SECONDS = 0.25


def link(rate: float = RATE, latency_seconds: float = LATENCY_SECONDS, **given: object) -> Link:
    return Link("made up", latency_seconds, rate, **given)  # type: ignore[arg-type]


def flat(count: int, **given: object) -> Cluster:
    """``count`` devices on one network."""
    return Cluster("flat", "flat", "made up", (Level("network", count, link(**given)),))


def nodes(count: int, size: int = 4, inner_rate: float = 800.0, **given: object) -> Cluster:
    """``count`` nodes of ``size`` devices."""
    inner = Level("node", size, link(inner_rate, 0.0))
    return Cluster("nodes", "nodes", "made up", (inner, Level("network", count, link(**given))))


def simulate_collective(
    topology: Topology,
    collective: str,
    message_bytes: float,
    ranks: Sequence[int],
    algorithm: str = "ring",
    **given: int,
) -> float:
    """Seconds of one collective that has the network for itself."""
    seconds, _ = simulate_groups(topology, collective, message_bytes, [ranks], algorithm, **given)
    return float(seconds[0])
