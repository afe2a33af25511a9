"""A cluster of any number of devices: levels that these do not fill are filled in part, all alike."""

from __future__ import annotations

from dataclasses import replace

from perfcast.catalogs.clusters import ClusterEntry
from perfcast.core.machine.cluster import Cluster
from perfcast.errors import PlanError


def fill_cluster(entry: ClusterEntry, num_devices: int) -> tuple[Cluster, str]:
    """The cluster, and a sentence on what stays empty in its servers; '' where nothing does.

    A rack of 72 in a cluster of 128 has 64: the largest number of equal parts that it holds.

    Raises:
        PlanError: Fewer than one device, or more than the levels hold.
    """
    try:
        cluster = entry.of_size(num_devices)
    except PlanError:
        if num_devices < 1 or entry.is_even:
            raise
        sizes, left = [], num_devices
        for level in entry.levels:
            most = level.size or left
            size = max(part for part in range(1, min(most, left) + 1) if left % part == 0)
            sizes.append(size)
            left //= size
        if left > 1 or max(sizes) < 2:
            raise
        levels = tuple(replace(level, size=size) for level, size in zip(entry.levels, sizes, strict=True))
        cluster = Cluster(entry.name, entry.title, entry.device, levels, entry.note)
    unused = entry.say_unused([level.size for level in cluster.levels])
    return cluster, f"{entry.name}: {unused}" if unused else ""
