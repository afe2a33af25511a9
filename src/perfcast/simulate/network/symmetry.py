"""Flows that must behave alike, found by refining colours; one variable then stands for all of a colour.

Flows, segments and links get colours from what they are (bytes, latency, rate), then again and again from the
colours of what they meet, until no colour splits. In such an equitable partition all links of a colour carry
as many flows of each colour, so max-min fair rates are equal within a colour, and so is all that follows.
Source: Weisfeiler, Leman, "The reduction of a graph to canonical form", 1968; for systems of linear
inequalities Grohe, Kersting, Mladenov, Selman, "Dimension reduction via colour refinement", ESA 2014.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.simulate.network.arrays import Incidence, Words, coarse, mix, sums_of_words, words_of
from perfcast.simulate.network.bottlenecks import Contention, find_contention
from perfcast.simulate.network.fair_share import Shares
from perfcast.simulate.network.flows import FlowSet
from perfcast.simulate.network.order import stages_and_depths
from perfcast.simulate.network.routing.routes import Routes

#: Shares of traffic closer than one of so many steps are one.
SHARE_STEPS = 1 << 36


@dataclass(frozen=True, eq=False, slots=True)
class Kinds:
    """A flow set folded: each kind stands for all flows that are alike.

    Attributes:
        flow_kind: Kind of each flow.
        shares: Who contends for what.
        message_bytes, num_messages, start_seconds, latency_seconds: Of each kind.
        waiting, awaited, lag: Dependencies between kinds; of several flows the kind waits for all.
        is_exact: Whether all flows of a kind have the same dependencies; else some wait longer than needed.
    """

    flow_kind: Integers
    shares: Shares
    message_bytes: Floats
    num_messages: Integers
    start_seconds: Floats
    latency_seconds: Floats
    waiting: Integers
    awaited: Integers
    lag: Integers
    is_exact: bool

    @property
    def num_kinds(self) -> int:
        """How many kinds of flows there are."""
        return len(self.message_bytes)


def fold(flows: FlowSet, routes: Routes, bytes_per_second: Floats, most_kinds: int) -> Kinds:
    """Find the kinds of flows.

    Args:
        flows: The flows.
        routes: Their ways.
        bytes_per_second: Of each link of the topology.
        most_kinds: Flows that differ only by what they wait for are told apart until there are so many kinds.
    """
    contention = find_contention(routes, bytes_per_second)
    colours = _Colours(flows, routes, contention)
    is_exact = colours.refine(most_kinds)
    if not is_exact:
        is_exact = colours.separate(*stages_and_depths(flows))
    flow_kind, first_flow = _kinds(colours.flows)
    _, first_link = _kinds(colours.links)
    waits = np.stack([flow_kind[flows.waiting], flow_kind[flows.awaited], flows.lag])
    waits = np.unique(waits, axis=1) if waits.shape[1] else waits
    return Kinds(
        flow_kind=flow_kind,
        shares=_shares(contention, flow_kind, first_flow, first_link),
        message_bytes=flows.message_bytes[first_flow],
        num_messages=flows.num_messages[first_flow],
        start_seconds=flows.start_seconds[first_flow],
        latency_seconds=routes.latency_seconds[first_flow],
        waiting=waits[0],
        awaited=waits[1],
        lag=waits[2],
        is_exact=is_exact,
    )


def _kinds(colours: Words) -> tuple[Integers, Integers]:
    """Number of each colour, and its first place; numbers follow first places, not the values of a hash."""
    _, firsts, numbers = np.unique(colours, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[numbers], firsts[order].astype(np.int64)


class _Sums:
    """Adds up the colours of what each row meets, by its entries' weights."""

    def __init__(self, incidence: Incidence) -> None:
        ordered = incidence.by_row()
        self.bounds, self.columns = ordered.bounds(), ordered.columns
        self.weights = mix(words_of(np.rint(ordered.weights * SHARE_STEPS)))

    def __call__(self, colours: Words) -> Words:
        return sums_of_words(mix(colours[self.columns] ^ self.weights), self.bounds)


class _Colours:
    """Colours of flows, of segments and of links, and how they are refined."""

    def __init__(self, flows: FlowSet, routes: Routes, contention: Contention) -> None:
        columns = (flows.message_bytes, flows.num_messages, flows.start_seconds)
        self.flows = np.zeros(flows.num_flows, dtype=np.uint64)
        for words in (
            *map(words_of, columns),
            coarse(routes.latency_seconds),
            coarse(contention.lone_rates),
        ):
            self.flows = mix(self.flows ^ words)
        self.segments = np.zeros(contention.links.num_rows, dtype=np.uint64)
        self.links = mix(coarse(contention.link_rates))
        self._links_of_segments = _Sums(contention.links)
        self._flows_of_segments = _Sums(contention.segments.turned())
        self._segments_of_links = _Sums(contention.links.turned())
        self._segments_of_flows = _Sums(contention.segments)
        order = np.argsort(flows.waiting, kind="stable")
        self._awaited, self._lag = flows.awaited[order], mix(words_of(flows.lag[order]))
        numbers = np.arange(flows.num_flows + 1)
        self._waits = np.searchsorted(flows.waiting[order], numbers).astype(np.int64)

    def refine(self, most_kinds: int) -> bool:
        """By links to the end, and by dependencies as far as ``most_kinds`` allows; whether that was all."""
        self._refine_by_links()
        count = self._num_flow_kinds()
        while len(self._awaited):
            kept = self.flows, self.segments, self.links
            self.flows = self._split_by_dependencies()
            before, count = count, self._num_flow_kinds()
            if count == before:
                return True
            self._refine_by_links()
            count = self._num_flow_kinds()
            if count > most_kinds:
                self.flows, self.segments, self.links = kept
                return False
        return True

    def separate(self, *columns: Integers) -> bool:
        """Tell flows apart by what is given of each; whether dependencies would split nothing any more."""
        for column in columns:
            self.flows = mix(self.flows ^ mix(words_of(column)))
        self._refine_by_links()
        return len(np.unique(self._split_by_dependencies())) == self._num_flow_kinds()

    def _split_by_dependencies(self) -> Words:
        """Flows that differ, or wait for what differs, differ."""
        words = mix(self.flows[self._awaited] ^ self._lag)
        return mix(self.flows) + sums_of_words(words, self._waits)

    def _refine_by_links(self) -> None:
        if not len(self.links):
            return
        count = -1
        while True:
            links, flows = self._links_of_segments(self.links), self._flows_of_segments(self.flows)
            self.segments = mix(self.segments ^ mix(links) ^ flows)
            self.links = mix(self.links) + self._segments_of_links(self.segments)
            self.flows = mix(self.flows) + self._segments_of_flows(self.segments)
            before, count = count, self._num_flow_kinds() + len(np.unique(self.links))
            if count == before:
                return

    def _num_flow_kinds(self) -> int:
        return len(np.unique(self.flows))


def _shares(
    contention: Contention, flow_kind: Integers, first_flow: Integers, first_link: Integers
) -> Shares:
    """How many flows of each kind pass the first link of each kind; and each kind's lone rate as a link."""
    from scipy.sparse import csr_matrix

    segments, links = contention.segments, contention.links
    num_kinds, num_links = len(first_flow), len(first_link)
    shape = (links.num_columns, links.num_rows)
    by_link = csr_matrix((links.weights, (links.columns, links.rows)), shape=shape)[first_link]
    wanted = np.zeros(segments.num_columns, dtype=np.bool_)
    wanted[by_link.indices] = True
    entries = wanted[segments.columns]
    places = (segments.columns[entries], flow_kind[segments.rows[entries]])
    members = csr_matrix((segments.weights[entries], places), shape=(segments.num_columns, num_kinds))
    table = (by_link @ members).tocoo()
    own = np.arange(num_kinds)
    return Shares(
        links=np.concatenate([table.row.astype(np.int64), own + num_links]),
        flows=np.concatenate([table.col.astype(np.int64), own]),
        weights=np.concatenate([table.data, np.ones(num_kinds)]),
        bytes_per_second=np.concatenate(
            [contention.link_rates[first_link], contention.lone_rates[first_flow]]
        ),
        num_flows=num_kinds,
    )
