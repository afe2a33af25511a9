"""NeuSight's printed multi-node forecasts beside ours, and with data its errors of whole steps."""

from __future__ import annotations

from pathlib import Path

from perfcast.published.comparison import Comparison, print_comparison
from perfcast.published.kernels.study import PAPER, study_figures
from perfcast.published.neusight.multi_node import PROTOCOL, WHY, multi_node_figures

INPUTS = (
    "inputs of its nets: four as in its code; the fifth of its table is the difference of two others, and "
    "nets with it are no better throughout (benchmarks/neusight_inputs.py; docs/published.md)"
)


def compare(data: Path | None = None) -> Comparison:
    """Multi-node forecasts; with ``data`` also the mean errors of whole steps.

    Raises:
        InputError: The folder holds no steps of the study.
    """
    measured = () if data is None else study_figures("neusight", data)
    return Comparison(
        system="neusight",
        paper=PAPER,
        protocol=PROTOCOL,
        figures=(*multi_node_figures(), *measured),
        notes=(*(f"{subject}: {why}" for subject, why in WHY.items()), INPUTS),
        reason="" if data else "Errors of whole steps are compared with --data DIR (neusight/steps.csv).",
    )


if __name__ == "__main__":
    print_comparison(compare)
