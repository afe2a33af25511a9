"""What no datasheet says of collectives: latencies of software, achieved shares of link rates.

The figures are the same for every system; ``constants.toml`` says where each comes from.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, get_args

from perfcast.errors import UnknownNameError

#: Low latency: 4 bytes of data with 4 of flag; the same in lines of 128 bytes, 120 of them data; plain copies
#: that are synchronised by chunk.
PROTOCOLS = ("ll", "ll128", "simple")
#: Ranks that pass data on, ranks that exchange with all others, one sender and one receiver, switches that
#: reduce, tokens on their way to experts.
Pattern = Literal["chain", "all_to_all", "send", "switch", "dispatch"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class LinkConstants:
    """Constants of one group of link kinds.

    Attributes:
        share: Of the link's rate, of a long message's payload.
        hop_seconds: What software adds to the link's latency for each hop, by protocol.
        network_share: Of the link's rate, when its switches reduce.
        dispatch_share: Of the link's rate, of tokens on their way to experts.
    """

    share: float
    hop_seconds: Triple
    network_share: float
    dispatch_share: float


@dataclass(frozen=True)
class PatternConstants:
    """Constants of one pattern of work; by protocol, launch inf where a protocol is not made for it.

    Attributes:
        launch_seconds: Before the first byte.
        ramp_seconds: Filling a pipeline costs sqrt(ramp · transfer).
        share: Of the achieved rate; above 1 where less is in the way.
    """

    launch_seconds: Triple
    ramp_seconds: Triple
    share: float


@dataclass(frozen=True)
class DispatchConstants:
    """Constants of tokens on their way to experts.

    Attributes:
        pace_in_node, pace_across_nodes: Bytes a second that its multiprocessors move, where a group is in
            one node, and where some of them serve the network.
        pace_in_rack: The same in a rack that is one node, for which other kernels are written (HybridEP).
    """

    pace_in_node: float
    pace_across_nodes: float
    pace_in_rack: float


@dataclass(frozen=True)
class Constants:
    """Constants of all links and algorithms.

    Attributes:
        patterns: By name.
        protocol_shares: Of the achieved rate, by protocol.
        copy_shares: By collective: part of the full rate's time for the piece of 1/n that stays on the rank.
        links: By group of kinds.
        kinds: Prefix of a link's kind → group.
        dispatch: Of tokens on their way to experts.
        low, high: 90 % interval as factors of the forecast.
        compute_slowdown, communication_slowdown: Of kernels and collectives that run at once.
    """

    patterns: Mapping[Pattern, PatternConstants]
    protocol_shares: Triple
    copy_shares: Mapping[str, float]
    links: Mapping[str, LinkConstants]
    kinds: Mapping[str, str]
    dispatch: DispatchConstants
    low: float
    high: float
    compute_slowdown: float
    communication_slowdown: float

    def group_of(self, kind: str) -> str:
        """The group of a link's kind, by its longest known prefix.

        Raises:
            UnknownNameError: No group for this kind.
        """
        found = [prefix for prefix in self.kinds if kind.startswith(prefix)]
        if not found:
            known = tuple(self.kinds)
            raise UnknownNameError("kind of link", kind, known, f"Known beginnings: {', '.join(known)}.")
        return self.kinds[max(found, key=len)]

    def of_link(self, kind: str) -> LinkConstants:
        """The constants of a link's kind."""
        return self.links[self.group_of(kind)]


@cache
def load_constants() -> Constants:
    """The shipped figures."""
    text = (resources.files("perfcast.cost.collective") / "constants.toml").read_text(encoding="utf-8")
    return parse_constants(tomllib.loads(text))


def parse_constants(content: Mapping[str, Any]) -> Constants:
    """From the tables of ``constants.toml``."""
    links = {
        name: LinkConstants(
            row["share"],
            _by_protocol(row["hop_seconds"]),
            row["network_share"],
            row.get("dispatch_share", row["share"]),
        )
        for name, row in content["links"].items()
    }
    patterns = {name: _pattern_constants(content["patterns"][name]) for name in PATTERNS}
    return Constants(
        patterns=MappingProxyType(patterns),
        protocol_shares=_by_protocol(content["protocol_shares"]),
        copy_shares=MappingProxyType(dict(content["copy_shares"])),
        links=MappingProxyType(links),
        kinds=MappingProxyType(
            {kind: name for name, row in content["links"].items() for kind in row["kinds"]}
        ),
        dispatch=DispatchConstants(**content["dispatch"]),
        low=content["interval"]["low"],
        high=content["interval"]["high"],
        compute_slowdown=content["overlap"]["compute_slowdown"],
        communication_slowdown=content["overlap"]["communication_slowdown"],
    )


def _pattern_constants(row: Mapping[str, Any]) -> PatternConstants:
    return PatternConstants(
        _by_protocol(row["launch_seconds"]), _by_protocol(row["ramp_seconds"]), row["share"]
    )


def _by_protocol(row: Mapping[str, float]) -> Triple:
    first, second, third = (float(row.get(name, math.inf)) for name in PROTOCOLS)
    return (first, second, third)
