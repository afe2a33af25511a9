"""Which links can hold flows back at all: most never do, and need not be looked at again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.simulate.network.arrays import Incidence, sums_by
from perfcast.simulate.network.routing.routes import Routes

#: A link may be asked for this part more than it has before it counts: less than rates are rounded by.
SLACK = 1e-9


@dataclass(frozen=True, eq=False, slots=True)
class Contention:
    """What is left of routes when only links are kept that flows can contend for.

    Attributes:
        lone_rates: Of each flow that has the network for itself, in bytes/s.
        segments: Flow × segment; only segments with a link that is kept.
        links: Segment × link; links are numbered anew.
        link_rates: Of each link that is kept, in bytes/s.
    """

    lone_rates: Floats
    segments: Incidence
    links: Incidence
    link_rates: Floats


def find_contention(routes: Routes, bytes_per_second: Floats) -> Contention:
    """Drop every link that could carry all its flows at once, each at the rate that it has alone.

    No flow is ever faster than alone, so such a link is full only if its flows are held back as much
    elsewhere: the lone rates, kept beside the links, say the same.

    Args:
        routes: The ways of the flows; each crosses at least one link.
        bytes_per_second: Of each link of the topology.
    """
    segment_rates = least_by_row(
        routes.links, (bytes_per_second[routes.links.columns] / routes.links.weights)
    )
    lone_rates = least_by_row(routes.segments, segment_rates[routes.segments.columns])
    segments, links = routes.segments, routes.links
    asked = sums_by(segments.columns, lone_rates[segments.rows], segments.num_columns)
    asked = sums_by(links.columns, links.weights * asked[links.rows], links.num_columns)
    is_tight = asked > bytes_per_second * (1 + SLACK)
    kept_links, link_numbers = _numbered(is_tight)
    entries = is_tight[links.columns]
    has_tight = np.zeros(links.num_rows, dtype=np.bool_)
    has_tight[links.rows[entries]] = True
    kept_segments, segment_numbers = _numbered(has_tight)
    crossing = has_tight[segments.columns]
    return Contention(
        lone_rates=lone_rates,
        segments=Incidence(
            segments.num_rows,
            len(kept_segments),
            segments.rows[crossing],
            segment_numbers[segments.columns[crossing]],
            segments.weights[crossing],
        ),
        links=Incidence(
            len(kept_segments),
            len(kept_links),
            segment_numbers[links.rows[entries]],
            link_numbers[links.columns[entries]],
            links.weights[entries],
        ),
        link_rates=bytes_per_second[kept_links],
    )


def least_by_row(incidence: Incidence, values: Floats) -> Floats:
    """The least value of each row's entries; every row has some."""
    least = np.full(incidence.num_rows, np.inf)
    np.minimum.at(least, incidence.rows, values)
    return least


def _numbered(mask: Flags) -> tuple[Integers, Integers]:
    """Where the mask is true; and the number of each of these places among them."""
    return np.flatnonzero(mask), np.cumsum(mask) - 1
