"""Habitat's errors of whole steps in NeuSight's study, which are what is public of them."""

from __future__ import annotations

from pathlib import Path

from perfcast.published.comparison import Comparison, print_comparison
from perfcast.published.kernels.study import PAPER, study_figures


def compare(data: Path | None = None) -> Comparison:
    """With ``data`` the mean errors of whole steps that NeuSight's study printed for Habitat.

    Raises:
        InputError: The folder holds no steps of the study.
    """
    return Comparison(
        system="habitat",
        paper='Yu, Gao, Golikov and Pekhimenko, "Habitat", USENIX ATC 2021; errors as printed by ' + PAPER,
        protocol="Mean errors of whole fp32 steps on NVIDIA's devices.",
        figures=() if data is None else study_figures("habitat", data),
        reason="" if data else "Errors of whole steps are compared with --data DIR (neusight/steps.csv).",
    )


if __name__ == "__main__":
    print_comparison(compare)
