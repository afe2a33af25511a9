"""Why there are no figures of the cost model of automatic parallelism beside ours."""

from __future__ import annotations

from pathlib import Path

from perfcast.published.comparison import Comparison, print_comparison, unread


def compare(data: Path | None = None) -> Comparison:
    """No figures: the page prints none."""
    return Comparison(
        system="mesh_cost_model",
        paper='"Cost Model", documentation page of an automatic-parallelism project',
        protocol="Kernels, axes of the mesh and whole steps are measured on the machine at hand by perfcast "
        "mesh step, which prints its forecasts and their errors.",
        reason="The page prints no figures, so there are none to compare; perfcast mesh step measures here.",
        notes=unread(data),
    )


if __name__ == "__main__":
    print_comparison(compare)
