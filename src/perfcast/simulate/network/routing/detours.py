"""Routes out of the way: by way of a switch elsewhere (Valiant), always or where the short way is crowded."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import PlanError
from perfcast.simulate.network.arrays import runs, sums_by
from perfcast.simulate.network.routing.paths import Trunks, split_evenly
from perfcast.simulate.network.topology import Topology

#: Rounds of the search for the shares that go out of their way, and the power of a link's load it lowers.
ROUNDS, POWER = 128, 8
#: Part by which the busiest link must be relieved before more traffic goes out of its way.
LESS = 1e-9


def go_round(topology: Topology, sources: Integers, targets: Integers) -> Trunks:
    """Each pair's traffic split evenly over all detours: shortest paths to one, and from there to the target.

    After Valiant, "A Scheme for Fast Parallel Communication", SIAM J. Comput. 11, 1982.

    Raises:
        PlanError: No detours in this topology, or a pair between which no path is left.
    """
    num_detours, num_pairs = len(topology.detours), len(sources)
    if not num_detours:
        raise PlanError(f"{topology.name} has no switches to go round by: route evenly or by hash")
    middles = np.tile(topology.detours, num_pairs)
    starts, ends = np.repeat(sources, num_detours), np.repeat(targets, num_detours)
    owners = np.repeat(np.arange(num_pairs), num_detours)
    away = (middles != starts) & (middles != ends)
    middles, starts, ends, owners = middles[away], starts[away], ends[away], owners[away]
    if len(np.unique(owners)) < num_pairs:
        raise PlanError(f"{topology.name} is too small for detours: route evenly or by hash")
    num_switches = len(topology.switch_names)
    keys, legs = np.unique(
        np.concatenate([starts * num_switches + middles, middles * num_switches + ends]), return_inverse=True
    )
    trunks = split_evenly(topology, keys // num_switches, keys % num_switches)
    shares = 1 / np.bincount(owners, minlength=num_pairs)
    owners = np.tile(owners, 2)
    order = np.argsort(trunks.pairs, kind="stable")
    bounds = np.searchsorted(trunks.pairs[order], np.arange(trunks.num_pairs + 1))
    counts = (bounds[1:] - bounds[:-1])[legs]
    entries = order[runs(bounds[legs], counts)]
    pairs = np.repeat(owners, counts)
    return merged(topology, num_pairs, pairs, trunks.links[entries], trunks.weights[entries] * shares[pairs])


def go_round_if_crowded(
    topology: Topology, sources: Integers, targets: Integers, pair_bytes: Floats
) -> Trunks:
    """A share of each pair's traffic on the short ways and the rest on detours, so as to level the links.

    The shares lower the sum over links of (bytes / rate) to the power of ``POWER`` by the method of Frank and
    Wolfe (1956): in round t each pair shifts 2 / (t + 2) of itself to its cheaper way; the round whose
    busiest link is the least busy counts. It stands for adaptive routing that knows the whole network; a
    router that sees only its own queues does no better.

    Raises:
        PlanError: No detours in this topology, or a pair between which no path is left.
    """
    short = split_evenly(topology, sources, targets)
    around = go_round(topology, sources, targets)
    share = best = np.zeros(len(sources))
    least_seconds = np.inf
    for step in range(ROUNDS):
        seconds = np.zeros(topology.num_links)
        for trunks, part in ((short, 1 - share), (around, share)):
            carried = trunks.weights * (part * pair_bytes)[trunks.pairs]
            seconds += sums_by(trunks.links, carried, topology.num_links)
        seconds /= topology.bytes_per_second
        busiest = float(seconds.max(initial=0.0))
        if busiest < least_seconds * (1 - LESS):
            least_seconds, best = busiest, share
        price = (seconds / max(busiest, np.finfo(float).tiny)) ** (POWER - 1)
        price /= topology.bytes_per_second
        costs = [sums_by(t.pairs, t.weights * price[t.links], len(sources)) for t in (short, around)]
        share = share + (2 / (step + 2)) * ((costs[1] < costs[0]) - share)
    share = np.round(best, 6)
    pairs = np.concatenate([short.pairs, around.pairs])
    links = np.concatenate([short.links, around.links])
    weights = np.concatenate([short.weights * (1 - share)[short.pairs], around.weights * share[around.pairs]])
    return merged(topology, len(sources), pairs, links, weights)


def merged(topology: Topology, num_pairs: int, pairs: Integers, links: Integers, weights: Floats) -> Trunks:
    """One entry for each pair and link; entries without weight go."""
    keys, inverse = np.unique(pairs * topology.num_links + links, return_inverse=True)
    sums = sums_by(inverse, weights, len(keys))
    keys, sums = keys[sums > 0], sums[sums > 0]
    return Trunks(num_pairs, keys // topology.num_links, keys % topology.num_links, sums)
