"""Why no figure of the course report stands beside ours."""

from __future__ import annotations

from pathlib import Path

from perfcast.published.comparison import Comparison, print_comparison

PAPER = 'SoonHo Kim, course report "Main project report", and its class Searcher'


def compare(data: Path | None = None) -> Comparison:
    """No figures: the report's own jobs are not at hand."""
    return Comparison(
        system="searcher_3d",
        paper=PAPER,
        protocol="python -m perfcast.published.searcher_3d CLUSTER.json MODEL.json --output FILE writes the "
        "time of every plan in the original's order and digits.",
        reason="The times of the report's own jobs are not public; the formulas are held by hand-computed "
        "plans in the tests.",
    )


if __name__ == "__main__":
    print_comparison(compare)
