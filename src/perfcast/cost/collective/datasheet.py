"""Prices from a cluster's datasheet: links from the catalog, constants that are the same for every system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.collective import COLLECTIVES
from perfcast.core.machine.cluster import Cluster
from perfcast.cost.collective.choose import ALGORITHMS, algorithms_of
from perfcast.cost.collective.constants import PROTOCOLS, Constants, load_constants
from perfcast.cost.collective.geometry import Geometry, lay_out
from perfcast.cost.collective.protocol import Offer, offers_of
from perfcast.cost.collective.table import CollectiveTable, collective_table

#: Calls priced at once: as many as keep the columns in a processor's cache.
_CHUNK = 16_384
_WITH_COPY = ("ring", "direct", "recursive", "hierarchical")


@dataclass(frozen=True, eq=False)
class CollectiveTimes:
    """What n collectives take; shape [n].

    Attributes:
        seconds: Median.
        low, high: 90 % interval.
        latency_seconds: What a message of no bytes takes by the same algorithm and protocol.
        algorithms: Index into ``ALGORITHMS``; -1 for a group of one.
        protocols: Index into ``PROTOCOLS``; -1 for a group of one.
    """

    seconds: Floats
    low: Floats
    high: Floats
    latency_seconds: Floats
    algorithms: Integers
    protocols: Integers

    def __len__(self) -> int:
        return len(self.seconds)

    def algorithm(self, index: int) -> str:
        """Name of the algorithm of one call; '' for a group of one."""
        code = int(self.algorithms[index])
        return ALGORITHMS[code] if code >= 0 else ""

    def protocol(self, index: int) -> str:
        """Name of the protocol of one call; '' for a group of one."""
        code = int(self.protocols[index])
        return PROTOCOLS[code] if code >= 0 else ""


def price_collectives(
    cluster: Cluster, table: CollectiveTable, algorithm: str = "nccl", constants: Constants | None = None
) -> CollectiveTimes:
    """What every call of a table takes.

    Args:
        algorithm: Of ``choose.CHOICES``.
        constants: The shipped ones by default.

    Raises:
        UnknownNameError: Not an algorithm of one of the collectives, or a link kind without constants.
        InputError: Groups that do not lie in the cluster.
    """
    figures = constants or load_constants()
    count = len(table)
    seconds, low, high, latency = np.zeros((4, count))
    algorithms, protocols = np.full((2, count), -1, dtype=np.int64)
    times = CollectiveTimes(seconds, low, high, latency, algorithms, protocols)
    for code in np.unique(table.collectives).tolist():
        rows = np.flatnonzero(table.collectives == code)
        part = _price_rows(cluster, table.take(rows), COLLECTIVES[code], algorithm, figures)
        for field in fields(times):
            getattr(times, field.name)[rows] = getattr(part, field.name)
    return times


def price_collective(
    cluster: Cluster,
    collective: str,
    message_bytes: float,
    ranks: tuple[int, ...],
    *,
    algorithm: str = "nccl",
    concurrent_groups: float = 1.0,
    sharing: float = 1.0,
) -> float:
    """Seconds of one call among some ranks of a cluster.

    Raises:
        PlanError: Ranks that do not lie in the cluster, or fill its levels unevenly.
    """
    table = collective_table(
        collective,
        message_bytes,
        [cluster.span(ranks)],
        concurrent_groups=concurrent_groups,
        sharing=sharing,
    )
    return float(price_collectives(cluster, table, algorithm).seconds[0])


def _price_rows(
    cluster: Cluster, table: CollectiveTable, collective: str, algorithm: str, constants: Constants
) -> CollectiveTimes:
    """Calls of one collective: equal groups have the same offers, the cheapest one is taken for each size."""
    first, groups = _different_groups(table)
    offers = _offers(cluster, table.take(first), collective, algorithm, constants)
    sizes = np.zeros(len(table)) if collective == "barrier" else table.message_bytes
    parts = [
        _cheapest(offers, sizes[start : start + _CHUNK], groups[start : start + _CHUNK], algorithm == "nccl")
        for start in range(0, len(table), _CHUNK)
    ]
    seconds, latency, chosen = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    alone = table.group_sizes == 1
    codes = np.array([(offer.algorithm, offer.protocol) for offer in offers], dtype=np.int64)[chosen]
    seconds = np.where(alone, 0.0, seconds)
    return CollectiveTimes(
        seconds=seconds,
        low=seconds * constants.low,
        high=seconds * constants.high,
        latency_seconds=np.where(alone, 0.0, latency),
        algorithms=np.where(alone, -1, codes[:, 0]),
        protocols=np.where(alone, -1, codes[:, 1]),
    )


def _different_groups(table: CollectiveTable) -> tuple[Integers, Integers]:
    """First call of each different group, shape [u], and the group of each call, shape [n]."""
    columns = [*table.spans.T, *table.visits.T, table.reducible, table.concurrent_groups, table.sharing]
    codes = np.zeros(len(table), dtype=np.int64)
    for column in columns:
        if (column == column[0]).all():
            continue
        different, index = np.unique(column, return_inverse=True)
        codes = codes * len(different) + index
        codes = np.unique(codes, return_inverse=True)[1]
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    return first, groups


def _offers(
    cluster: Cluster, table: CollectiveTable, collective: str, algorithm: str, constants: Constants
) -> list[Offer]:
    """What every candidate asks of each group of a table, for messages of one byte."""
    geometry = lay_out(cluster, replace(table, message_bytes=np.ones(len(table))), constants)
    offers: list[Offer] = []
    for code, function in algorithms_of(collective, algorithm):
        work = function(geometry)
        if ALGORITHMS[code] == "in_network":
            work = replace(work, transfer_seconds=np.where(table.reducible, work.transfer_seconds, np.inf))
        copied = copied_seconds(ALGORITHMS[code], geometry, collective, constants)
        offers += offers_of(code, work, geometry, copied, constants)
    return offers


def _cheapest(
    offers: Sequence[Offer], sizes: Floats, groups: Integers, by_judgement: bool
) -> tuple[Floats, Floats, Integers]:
    """Seconds, latency and index of the chosen offer of each call, shape [n] each."""
    seconds, latency = np.full(len(sizes), np.inf), np.full(len(sizes), np.inf)
    least, chosen = np.full(len(sizes), np.inf), np.zeros(len(sizes), dtype=np.int64)
    for index, offer in enumerate(offers):
        mine = offer.seconds(sizes, groups)
        judged = mine
        if by_judgement and offer.judged_seconds_per_byte.any():
            judged = mine + sizes * offer.judged_seconds_per_byte[groups]
        better = judged < least
        least = np.where(better, judged, least)
        seconds = np.where(better, mine, seconds)
        latency = np.where(better, offer.latency_seconds[groups], latency)
        chosen[better] = index
    return seconds, latency, chosen


def copied_seconds(algorithm: str, geometry: Geometry, collective: str, constants: Constants) -> Floats:
    """The piece of 1/n that a rank keeps is copied by the same workers that send the others; shape [n].

    The library starts as many of them as it takes to fill a device's links, so the pace of copies is taken in
    parts of the innermost link's rate.
    """
    share = constants.copy_shares.get(collective, 0.0) if algorithm in _WITH_COPY else 0.0
    seconds: Floats = share * geometry.message_bytes / geometry.members / geometry.copy_rate
    return seconds
