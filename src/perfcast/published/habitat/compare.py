"""Habitat's errors of whole steps in NeuSight's study, which are what is public of them."""

from __future__ import annotations

from pathlib import Path

from perfcast.published.comparison import Comparison, print_comparison
from perfcast.published.kernels.study import compare_with_study


def compare(data: Path | None = None) -> Comparison:
    """With ``data`` the mean errors of whole steps that NeuSight's study printed for Habitat.

    Raises:
        InputError: The folder holds no steps of the study.
    """
    return compare_with_study("habitat", 'Yu, Gao, Golikov and Pekhimenko, "Habitat", USENIX ATC 2021', data)


if __name__ == "__main__":
    print_comparison(compare)
