"""Tokens to their experts, or back: one copy over the network for each node, one in a node for each rank.

A rank sends a token to its own counterpart in every other node that holds one of its experts; from there the
copies go on to the ranks of that node (DeepSeek-AI: DeepSeek-V3 technical report, 2024, section 3.2.2;
github.com/deepseek-ai/DeepEP: csrc/kernels/internode.cu, intranode.cu). With D different ranks and N
different nodes that a token visits by expectation, on s ranks in each of n nodes, a rank sends N (n - 1) / n
copies of each of its tokens over the network and D (s - 1) / s to others in nodes. Its few multiprocessors
also read its tokens and write what arrives, twice as many rows as tokens, and move no more bytes a second
than ``pace`` says, in a rack that is one node more (HybridEP is for those). Levels work at once. Back, every
copy is added to the others on its way: as many bytes.
"""

from __future__ import annotations

import numpy as np

from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork

#: Rows that a rank reads and writes itself, for each of its tokens.
_OWN_ROWS = 2.0


def dispatch(geometry: Geometry) -> CollectiveWork:
    """Every level at once; the way out is known only when all have said how many rows they send."""
    message, members = geometry.message_bytes, geometry.members
    ranks, nodes, token = geometry.visits.T
    is_network = geometry.is_network
    in_node = (geometry.spans - 1) / geometry.spans
    beyond = (members[:, None] - geometry.below) / members[:, None]
    copies = np.where(is_network, nodes[:, None] * beyond, ranks[:, None] * in_node)
    seconds = np.where(geometry.spans > 1, message[:, None] * copies / geometry.dispatch_rates, 0.0)
    crosses = (is_network & (geometry.spans > 1)).any(axis=1)
    inside = np.where(is_network, 1.0, geometry.spans).prod(axis=1)
    forwarded = ranks * (inside - 1) / inside + _OWN_ROWS * token
    moved = message * forwarded / np.where(crosses, geometry.pace_across_nodes, geometry.pace_in_node)
    hops = np.where(geometry.spans > 1, np.where(is_network, 2 * np.log2(geometry.spans), 1.0), 0.0)
    transfer = np.maximum(seconds.max(axis=1), moved)
    return CollectiveWork(hops, transfer, pattern="dispatch")
