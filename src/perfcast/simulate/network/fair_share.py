"""Max-min fair rates by progressive filling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.simulate.network.arrays import sums_by

#: Links whose fair share is this close to the least one count as full together.
SAME = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class Shares:
    """Kinds of flows and kinds of links; all flows of a kind have one rate.

    Attributes:
        links, flows, weights: Of each entry: kind of link, kind of flow, and how many such flows (or shares
            of flows) pass one such link.
        bytes_per_second: Of one link of each kind.
        num_flows: Kinds of flows.
    """

    links: Integers
    flows: Integers
    weights: Floats
    bytes_per_second: Floats
    num_flows: int


def fair_rates(shares: Shares, is_active: Flags) -> Floats:
    """Rate of one flow of each kind, in bytes/s; zero for those that are not active.

    All active flows grow at one pace; when a link is full, those on it stay as they are, and the others grow
    on. The result is the only one in which every flow has a bottleneck: a full link on which no flow is
    faster. Source: Bertsekas, Gallager, "Data Networks", 2nd edition, section 6.5.2.

    Args:
        shares: Who passes where. Every active flow passes at least one link.
        is_active: Of each kind of flow.
    """
    num_links = len(shares.bytes_per_second)
    rates = np.zeros(shares.num_flows)
    growing = is_active[shares.flows]
    links, flows, weights = shares.links[growing], shares.flows[growing], shares.weights[growing]
    left = shares.bytes_per_second.astype(np.float64)
    while len(links):
        load = sums_by(links, weights, num_links)
        pace = np.full(num_links, np.inf)
        np.divide(left, load, out=pace, where=load > 0)
        rate = pace.min()
        full = pace <= rate * (1 + SAME)
        stops = np.zeros(shares.num_flows, dtype=np.bool_)
        stops[flows[full[links]]] = True
        rates[stops] = rate
        ending = stops[flows]
        taken = sums_by(links[ending], weights[ending], num_links)
        left = np.maximum(left - rate * taken, 0.0)
        links, flows, weights = links[~ending], flows[~ending], weights[~ending]
    return rates
