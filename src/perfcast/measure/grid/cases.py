"""The designed grid: which operators are timed, on which shapes.

Sizes are spaced evenly in their logarithm over what steps of small models ask for, up to some GFLOP
and 64 MB; shapes of products, of which the space is larger, are a fixed pseudo-random sample of it.
"""

from __future__ import annotations

from itertools import groupby

from perfcast.measure.grid.accelerated import accelerator_cases
from perfcast.measure.grid.products import product_cases
from perfcast.measure.grid.traffic import traffic_cases
from perfcast.measure.kernels import KernelCase

#: Operators that exist for the processor alone.
_CPU_ONLY = ("mkldnn", "attention")


def design(device: str, quick: bool = False) -> list[KernelCase]:
    """All cases; a quick grid is every third of each operator's, the last kept."""
    accelerated = [] if device == "cpu" else accelerator_cases()
    cases = sorted([*product_cases(), *traffic_cases(), *accelerated], key=_operator_of)
    if quick:
        cases = [case for _, mine in groupby(cases, _operator_of) for case in _every_third(list(mine))]
    if device != "cpu":
        cases = [case for case in cases if not case.key.startswith(_CPU_ONLY)]
    return cases


def _operator_of(case: KernelCase) -> str:
    return case.key.partition(" ")[0]


def _every_third(cases: list[KernelCase]) -> list[KernelCase]:
    return [case for i, case in enumerate(cases) if i % 3 == 0 or i == len(cases) - 1]
