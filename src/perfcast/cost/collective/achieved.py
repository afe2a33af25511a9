"""What collectives get out of links, for whoever plays them flow by flow, as the closed form has it.

That says of a call, with h hops of latency l and a transfer of t seconds at the links' achieved rates
(``protocol``):

    seconds = launch + Σ h · l + (t + copied) / share + √(ramp · (t + copied))

A player of flows finds hops and the transfer itself, on the links of ``achieved_links``. The rest, which no
link does, is ``beside_links``. Without contention both then say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.cost.collective.choose import ALGORITHMS, algorithms_of
from perfcast.cost.collective.constants import Constants, LinkConstants, Pattern, load_constants
from perfcast.cost.collective.datasheet import copied_seconds
from perfcast.cost.collective.geometry import lay_out
from perfcast.cost.collective.protocol import offers_of
from perfcast.cost.collective.table import collective_table
from perfcast.cost.collective.work import Algorithm

#: Of the closed form, whose software stands for that of an algorithm of flows it does not have by its name.
_STANDS_FOR = {"rings": "ring", "two_way_ring": "ring", "pairwise": "direct"}


@dataclass(frozen=True, slots=True)
class Software:
    """How a library runs one call.

    Attributes:
        pattern: How ranks work together.
        protocol: Index into ``PROTOCOLS``: the one that is cheapest for the message.
        beside_links: Seconds that no link spends: the launch, filling the pipeline, what a rank copies to
            itself.
    """

    pattern: Pattern
    protocol: int
    beside_links: float


def software_of(
    cluster: Cluster,
    collective: str,
    algorithm: str,
    message_bytes: float,
    span: Sequence[int],
    constants: Constants | None = None,
) -> Software:
    """How the library runs a call by an algorithm of flows.

    Args:
        algorithm: Of ``simulate.network.collectives``; one that the closed form does not have is run like its
            first one for the collective.
        message_bytes: As in ``CollectiveTable``.
        span: Of the group on each level of the cluster.

    Raises:
        UnknownNameError: A link kind without constants.
        InputError: A group that does not lie in the cluster.
    """
    figures = constants or load_constants()
    table = collective_table(collective, 1.0, [span])
    geometry = lay_out(cluster, table, figures)
    code, function = _closest(collective, _STANDS_FOR.get(algorithm, algorithm))
    work = function(geometry)
    copied = copied_seconds(ALGORITHMS[code], geometry, collective, figures)
    size, one = np.array([message_bytes if collective != "barrier" else 0.0]), np.zeros(1, dtype=np.int64)
    offers = list(offers_of(code, work, geometry, copied, figures))
    best = min(offers, key=lambda offer: float(offer.seconds(size, one)[0]))
    pattern = figures.patterns[work.pattern]
    own = float(copied[0]) / pattern.share / figures.protocol_shares[best.protocol]
    beside = pattern.launch_seconds[best.protocol] + size[0] * own + np.sqrt(size[0] * best.ramp[0])
    return Software(work.pattern, best.protocol, float(beside))


def _closest(collective: str, algorithm: str) -> tuple[int, Algorithm]:
    known = algorithms_of(collective, "best")
    return next((one for one in known if ALGORITHMS[one[0]] == algorithm), known[0])


def achieved_links(cluster: Cluster, software: Software, constants: Constants | None = None) -> Cluster:
    """The same cluster with each link at the rate and latency that a call gets out of it."""
    figures = constants or load_constants()
    share = figures.protocol_shares[software.protocol] * figures.patterns[software.pattern].share

    def achieved(link: Link) -> Link:
        of_kind = figures.of_link(link.kind)
        part = share * _link_share(of_kind, software.pattern)
        return replace(
            link,
            latency_seconds=link.latency_seconds + of_kind.hop_seconds[software.protocol],
            bytes_per_second=link.bytes_per_second * part,
            ring_bytes_per_second=tuple(rate * part for rate in link.ring_bytes_per_second),
            port_bytes_per_second=link.port_bytes_per_second * part,
        )

    levels = tuple(Level(level.name, level.size, achieved(level.link)) for level in cluster.levels)
    return replace(cluster, levels=levels)


def _link_share(figures: LinkConstants, pattern: Pattern) -> float:
    return figures.dispatch_share if pattern == "dispatch" else figures.share
