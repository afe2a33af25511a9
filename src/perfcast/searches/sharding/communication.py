"""Collectives priced on a cluster's datasheet: exact at some sizes, straight lines between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.machine.cluster import Cluster
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.table import collective_table
from perfcast.units import TIB

#: Sizes that are priced: from a byte to a tebibyte, eight to each doubling.
_NUM_SIZES = 8 * 40 + 1


@dataclass(frozen=True, eq=False)
class Curve:
    """Seconds over message sizes, both ascending, shape [k]; beyond the last one at its pace."""

    sizes_bytes: Floats
    seconds: Floats

    def at(self, message_bytes: Floats) -> Floats:
        """Seconds of each message."""
        inside: Floats = np.interp(message_bytes, self.sizes_bytes, self.seconds)
        beyond = np.maximum(message_bytes / self.sizes_bytes[-1], 1.0)
        total: Floats = inside * beyond
        return total


@dataclass(frozen=True, eq=False)
class CommunicationCurves:
    """All-to-all and all-reduce as curves; satisfies ``problem.CommunicationTimes``."""

    all_to_all: Curve
    all_reduce: Curve

    def all_to_all_seconds(self, message_bytes: Floats) -> Floats:
        """An even all-to-all in which every rank holds so many bytes."""
        return self.all_to_all.at(message_bytes)

    def all_reduce_seconds(self, message_bytes: Floats) -> Floats:
        """An all-reduce of so many bytes."""
        return self.all_reduce.at(message_bytes)


def cluster_communication(cluster: Cluster) -> CommunicationCurves:
    """Collectives among all devices of a cluster.

    Raises:
        UnknownNameError: A link kind without constants.
    """
    sizes = np.geomspace(1, TIB, _NUM_SIZES)
    spans = [cluster.span(tuple(range(cluster.num_devices)))]
    curves = []
    for collective in ("all_to_all", "all_reduce"):
        times = price_collectives(cluster, collective_table(collective, sizes, spans))
        curves.append(Curve(sizes, np.maximum.accumulate(times.seconds)))
    return CommunicationCurves(*curves)
