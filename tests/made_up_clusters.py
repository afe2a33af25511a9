"""Clusters with round figures, and constants under which software costs nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.cost.collective.constants import (
    Constants,
    DispatchConstants,
    LinkConstants,
    PatternConstants,
    load_constants,
)

FREE = (0.0, 0.0, 0.0)


def cluster(*levels: tuple[int, float], latency_seconds: float = 0.0, **link: object) -> Cluster:
    """Levels as (size, bytes per second); the innermost an NVLink, the others InfiniBand."""
    kinds = ["nvlink", *["infiniband"] * (len(levels) - 1)]
    return Cluster(
        "made-up",
        "Made up",
        "h100-sxm",
        tuple(
            Level(f"level{i}", size, Link(kind, latency_seconds, rate, **link))  # type: ignore[arg-type]
            for i, ((size, rate), kind) in enumerate(zip(levels, kinds, strict=True))
        ),
    )


def pure() -> Constants:
    """Nothing but links: no launch, no ramp, full shares, one protocol's worth of everything."""
    shipped = load_constants()
    links = {name: LinkConstants(1.0, FREE, 1.0, 1.0) for name in shipped.links}
    patterns = {name: PatternConstants(FREE, FREE, 1.0) for name in shipped.patterns}
    return replace(
        shipped,
        patterns=MappingProxyType(patterns),
        protocol_shares=(1.0, 1.0, 1.0),
        copy_shares=MappingProxyType({}),
        links=MappingProxyType(links),
        dispatch=DispatchConstants(math.inf, math.inf, math.inf),
    )
