"""Times that the original's formulas give for one job, beside ours.

The course report's own jobs are not public. ``ORIGINAL_MILLISECONDS`` are what the estimators of the public
class ``Searcher`` give, evaluated apart from this package over all degrees by brute force, for a job of ours:
24 equal layers on four nodes of eight devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perfcast.published.comparison import Comparison, Figure, print_comparison, unread
from perfcast.published.searcher_3d.files import SearcherCluster, SearcherModel
from perfcast.published.searcher_3d.search import Plan, search

PAPER = 'SoonHo Kim, course report "Main project report", and its class Searcher'

CLUSTER = SearcherCluster(
    num_nodes=4, devices_per_node=8, gpu_gigaflops_per_second=312_000,
    node_link_gigabytes_per_second=300, network_gigabytes_per_second=25,
)  # fmt: skip
MODEL = SearcherModel(
    num_layers=24, layer_teraflops=(52.8,) * 24, tensor_traffic_megabytes=98_304, gradient_megabytes=2600,
    layer_activation_megabytes=(2048,) * 24,
)  # fmt: skip

#: (data, tensor, pipeline) → milliseconds of an iteration, in the order of the original's file.
ORIGINAL_MILLISECONDS: Mapping[Plan, float] = {
    (1, 2, 16): 40250.1099, (1, 4, 8): 33213.3333, (1, 8, 4): 34016.5934, (1, 16, 2): 43114.0201,
    (1, 32, 1): 39048.2212, (2, 1, 16): 38502.9690, (2, 2, 8): 22020.0386, (2, 4, 4): 18445.3866,
    (2, 8, 2): 19239.0496, (2, 16, 1): 14928.6009, (4, 1, 8): 30277.4572, (4, 2, 4): 17619.2887,
    (4, 4, 2): 10299.8748, (4, 8, 1): 6784.2338, (8, 1, 4): 29646.0200, (8, 2, 2): 17594.7379,
    (8, 4, 1): 6531.7343, (16, 1, 2): 36467.4993, (16, 2, 1): 13405.3747, (32, 1, 1): 32311.9422,
}  # fmt: skip
ORIGINAL_WINNER: Plan = (8, 4, 1)
_DECIMALS = 4  # of the original's file
_DIGITS = 9


def compare(data: Path | None = None) -> Comparison:
    """Every plan of one job."""
    winner, times = search(CLUSTER, MODEL)
    ours = {one.plan: round(one.total_milliseconds, _DECIMALS) for one in times}
    plans = dict.fromkeys((*ORIGINAL_MILLISECONDS, *ours))
    figures = [
        Figure(
            what="plan data {}, tensor {}, pipeline {}".format(*plan), unit="ms", digits=_DIGITS,
            published=ORIGINAL_MILLISECONDS.get(plan), ours=ours.get(plan), where="class Searcher",
        )
        for plan in plans
    ]  # fmt: skip
    return Comparison(
        system="searcher_3d",
        paper=PAPER,
        protocol="The public class's estimators, evaluated apart from ours for a job of ours (24 layers, "
        "four nodes of eight devices), beside perfcast.published.searcher_3d on the same job.",
        figures=tuple(figures),
        notes=(
            f"The fastest plan (data, tensor, pipeline): published {ORIGINAL_WINNER}, ours {winner}.",
            *unread(data),
        ),
        reason="Times of the report's own jobs are not public.",
    )


if __name__ == "__main__":
    print_comparison(compare)
