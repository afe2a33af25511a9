"""How groups lie in a cluster's levels, and what of each level a member can use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.machine.cluster import Cluster, Link
from perfcast.core.model.token_routing import TokenRouting
from perfcast.cost.collective.constants import PROTOCOLS, Constants, load_constants
from perfcast.cost.collective.table import CollectiveTable
from perfcast.errors import InputError

#: Groups of links that write 128 bytes in one piece, as LL128 needs: not PCIe between cards, sockets or EFA.
_ORDERED = ("nvlink", "infiniband", "mesh")
#: Devices of the largest server; more on one level are a rack.
_SERVER = 8
#: Groups of links that join nodes.
_NETWORKS = ("infiniband", "ethernet", "efa")
#: Links of chips that pass on what is not for them.
_TORI = ("ici", "neuronlink3")
#: Networks whose plugin brings a tuner of its own (aws-ofi-nccl).
_TUNED = "efa"


@dataclass(frozen=True, eq=False)
class Geometry:
    """n calls against L levels; arrays of shape [n, L] unless said otherwise.

    Attributes:
        message_bytes, members: Shape [n].
        spans: Members below one parent.
        below: Members below one child: the product of the spans of the inner levels.
        rates: Bytes per second of one member in one direction, as achieved by long messages.
        network_rates: The same where the level's switches reduce, 0 where they do not.
        copy_rate: Bytes per second of what a rank copies to itself, shape [n].
        hop_seconds: Of one hop of a level, by protocol; shape [P, L].
        allows_ll128: Whether all links of a group keep the order that LL128 needs, shape [n].
        judges_as_is: Whether a tuner that knows the network chooses algorithms, shape [n].
        is_torus: Which levels pass on what is not for them, shape [L].
        is_network: Which levels lie between nodes, shape [L].
        dispatch_rates: As ``rates``, of tokens on their way to experts.
        visits: As in ``CollectiveTable``, shape [n, 3].
        pace_in_node, pace_across_nodes: Bytes a second that the multiprocessors of a dispatch move at most.
    """

    message_bytes: Floats
    members: Floats
    spans: Floats
    below: Floats
    rates: Floats
    network_rates: Floats
    copy_rate: Floats
    hop_seconds: Floats
    allows_ll128: Flags
    judges_as_is: Flags
    is_torus: Flags
    is_network: Flags
    dispatch_rates: Floats
    visits: Floats
    pace_in_node: float
    pace_across_nodes: float

    @property
    def ring_rate(self) -> Floats:
        """Bytes a second of a ring through all members: the narrowest level it crosses, shape [n].

        The members below one child cross a level together, each with its share.
        """
        with np.errstate(divide="ignore"):
            rate: Floats = np.where(self.spans > 1, self.rates * self.below, np.inf).min(axis=1)
        return rate


def lay_out(cluster: Cluster, table: CollectiveTable, constants: Constants) -> Geometry:
    """The geometry of the calls of a table.

    Raises:
        InputError: Spans of another number of levels, or of more members than a level holds.
    """
    sizes = np.array([level.size for level in cluster.levels], dtype=np.int64)
    if table.spans.shape[1] != len(sizes):
        raise InputError(
            f"spans of {table.spans.shape[1]} levels on cluster '{cluster.name}', which has {len(sizes)}"
        )
    if len(table) and (table.spans > sizes).any():
        span = tuple(table.spans[(table.spans > sizes).any(axis=1)][0].tolist())
        raise InputError(
            f"a group of span {span} does not lie in cluster '{cluster.name}' of {tuple(sizes.tolist())}"
        )
    spans = table.spans.astype(np.float64)
    through: Floats = np.cumprod(spans, axis=1).astype(np.float64)
    links = [level.link for level in cluster.levels]
    figures = [constants.of_link(link.kind) for link in links]
    plain = np.stack([_link_rates(link, table.spans[:, i]) for i, link in enumerate(links)], axis=1)
    plain = np.minimum(plain, _shared_rates(cluster, table, through)) / table.sharing[:, None]
    reduces = np.array([link.reduces_in_network for link in links])
    return Geometry(
        message_bytes=table.message_bytes,
        members=through[:, -1],
        spans=spans,
        below=through / spans,
        rates=plain * np.array([figure.share for figure in figures]),
        network_rates=plain * np.where(reduces, [figure.network_share for figure in figures], 0.0),
        copy_rate=links[0].bytes_per_second * figures[0].share / table.sharing,
        hop_seconds=np.array(
            [
                [
                    link.latency_seconds + figure.hop_seconds[p]
                    for link, figure in zip(links, figures, strict=True)
                ]
                for p in range(len(PROTOCOLS))
            ]
        ),
        allows_ll128=_all_busy(table, [constants.group_of(link.kind) in _ORDERED for link in links]),
        judges_as_is=~_all_busy(table, [not link.kind.startswith(_TUNED) for link in links]),
        is_torus=np.array([link.kind.startswith(_TORI) for link in links]),
        is_network=np.array([constants.group_of(link.kind) in _NETWORKS for link in links]),
        dispatch_rates=plain * np.array([figure.dispatch_share for figure in figures]),
        visits=table.visits,
        pace_in_node=constants.dispatch.pace_in_rack
        if links[0].kind.startswith("nvlink") and cluster.levels[0].size > _SERVER
        else constants.dispatch.pace_in_node,
        pace_across_nodes=constants.dispatch.pace_across_nodes,
    )


def dispatch_visits(
    cluster: Cluster, routings: Sequence[TokenRouting | None], spans: Sequence[Sequence[int]]
) -> Floats:
    """What ``CollectiveTable.visits`` holds, shape [n, 3]; ones without a routing."""
    constants, visits = load_constants(), np.ones((len(routings), 3))
    is_network = [constants.group_of(level.link.kind) in _NETWORKS for level in cluster.levels]
    for row, (routing, span) in enumerate(zip(routings, spans, strict=True)):
        if routing is not None:
            nodes = math.prod(n for n, outer in zip(span, is_network, strict=True) if outer)
            places = (routing.expected_places(math.prod(span)), routing.expected_places(nodes), 1.0)
            visits[row] = np.array(places) / routing.experts_per_token
    return visits


def _link_rates(link: Link, spans: np.ndarray) -> Floats:
    """Bytes a second of one member on one level that has its parent's links for itself, shape [n]."""
    alone = max(link.bytes_per_second, link.port_bytes_per_second)
    rates = np.full(len(spans), alone)
    if link.ring_bytes_per_second:
        by_size = np.array([alone, alone, *link.ring_bytes_per_second])
        rates = by_size[np.minimum(spans, len(by_size) - 1)]
    return rates if link.is_duplex else rates / 2


def _shared_rates(cluster: Cluster, table: CollectiveTable, through: Floats) -> Floats:
    """What contention leaves to one member, shape [n, L].

    The members below one child, and those of other active groups there, share the child's ports: each has its
    share of what all devices have together. An oversubscription of o lets 1 / o of all devices' traffic pass;
    as long as fewer are active, each has its full rate.
    """
    links = [level.link for level in cluster.levels]
    sizes = np.array([level.size for level in cluster.levels], dtype=np.float64)
    capacity = np.cumprod(sizes) / sizes
    below = through / table.spans
    groups = table.concurrent_groups[:, None]
    neighbours = np.minimum(below * np.minimum(groups, np.maximum(capacity / below, 1.0)), capacity)
    active = np.minimum(groups * through[:, -1:] / cluster.num_devices, 1.0)
    ratios = np.array([link.oversubscription for link in links])
    duplex = np.array([1.0 if link.is_duplex else 0.5 for link in links])
    rates = np.array([link.bytes_per_second for link in links]) * duplex
    shared: Floats = rates * capacity / neighbours / np.maximum(ratios * active, 1.0)
    return shared


def _all_busy(table: CollectiveTable, holds: list[bool]) -> Flags:
    """Whether something holds of every level on which a group has more than one member, shape [n]."""
    busy: Flags = np.where(table.spans > 1, np.array(holds), True)
    flags: Flags = np.logical_and.reduce(busy, axis=1)
    return flags
