"""What each family of kernels contributes: its physics, and the dimensionless features of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.cost.learned.figures import Figures


@dataclass(frozen=True)
class Physics:
    """What can be said of n kernels without a measurement of the device.

    Attributes:
        seconds: Structural estimate, shape [n]; the learned part multiplies it.
        compute_seconds, memory_seconds: Roofline terms: no kernel is faster than either.
        features: Dimensionless quantities that the multiplier depends on, shape [n, f].
    """

    seconds: Floats
    compute_seconds: Floats
    memory_seconds: Floats
    features: Floats


class Family(Protocol):
    """One family; a module of functions with these names satisfies it."""

    @property
    def family(self) -> KernelFamily:
        """Which kernels."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of ``Physics.features``."""
        ...

    def describe(self, kernels: KernelTable, figures: Figures) -> Physics:
        """Physics and features; vectorised, free of loops over kernels."""
        ...
