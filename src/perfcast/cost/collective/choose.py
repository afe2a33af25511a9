"""Which algorithms a collective has, and which of them is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcast.cost.collective.algorithms.all_to_all import direct_all_to_all
from perfcast.cost.collective.algorithms.dispatch import dispatch
from perfcast.cost.collective.algorithms.hierarchical import (
    hierarchical_all_reduce,
    hierarchical_half,
    hierarchical_pipeline,
)
from perfcast.cost.collective.algorithms.in_network import in_network_all_reduce
from perfcast.cost.collective.algorithms.point_to_point import rooted, send
from perfcast.cost.collective.algorithms.recursive import recursive_all_reduce, recursive_half
from perfcast.cost.collective.algorithms.ring import ring_all_reduce, ring_half, ring_pipeline
from perfcast.cost.collective.algorithms.tree import double_tree_all_reduce, tree_all_reduce, tree_pipeline
from perfcast.cost.collective.work import Algorithm
from perfcast.errors import UnknownNameError

#: Names of algorithms, in the order in which ties are broken.
ALGORITHMS = ("ring", "double_tree", "in_network", "direct", "tree", "recursive", "hierarchical")
#: ``nccl``: the fastest of those that NCCL has. ``best``: the fastest of all.
CHOICES = ("nccl", "best", *ALGORITHMS)

_HALVES: Mapping[str, Algorithm] = {
    "ring": ring_half,
    "recursive": recursive_half,
    "hierarchical": hierarchical_half,
}
_ALL_REDUCES: Mapping[str, Algorithm] = {
    "ring": ring_all_reduce,
    "double_tree": double_tree_all_reduce,
    "in_network": in_network_all_reduce,
    "tree": tree_all_reduce,
    "recursive": recursive_all_reduce,
    "hierarchical": hierarchical_all_reduce,
}
_PIPELINES: Mapping[str, Algorithm] = {
    "ring": ring_pipeline,
    "tree": tree_pipeline,
    "hierarchical": hierarchical_pipeline,
}
_BY_COLLECTIVE: Mapping[str, Mapping[str, Algorithm]] = {
    "all_gather": _HALVES,
    "all_reduce": _ALL_REDUCES,
    "all_to_all": {"direct": direct_all_to_all},
    "barrier": _ALL_REDUCES,
    "broadcast": _PIPELINES,
    "dispatch": {"direct": dispatch},
    "gather_to_root": {"direct": rooted},
    "receive": {"direct": send},
    "reduce": _PIPELINES,
    "reduce_scatter": _HALVES,
    "scatter_from_root": {"direct": rooted},
    "send": {"direct": send},
}
_OF_NCCL = ("ring", "double_tree", "in_network", "direct")


def algorithms_of(collective: str, choice: str) -> Sequence[tuple[int, Algorithm]]:
    """Candidates as (index into ``ALGORITHMS``, function), in the order of ``ALGORITHMS``.

    Raises:
        UnknownNameError: Not a choice, or the collective has no such algorithm.
    """
    if choice not in CHOICES:
        raise UnknownNameError("algorithm", choice, CHOICES, f"Known: {', '.join(CHOICES)}.")
    known = _BY_COLLECTIVE[collective]
    if choice == "best":
        wanted: Sequence[str] = ALGORITHMS
    elif choice == "nccl":
        wanted = _OF_NCCL
    elif choice in known:
        wanted = (choice,)
    else:
        raise UnknownNameError("algorithm", choice, known, f"Algorithms of {collective}: {', '.join(known)}.")
    return [(ALGORITHMS.index(name), known[name]) for name in ALGORITHMS if name in wanted and name in known]
