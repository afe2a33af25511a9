"""What ``perfcast memory`` answers: of a captured model on one device, or of a plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perfcast.core.forecast.device import Forecast
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.core.forecast.fit import Fit
    from perfcast.core.forecast.largest import Largest
    from perfcast.memory_use.compare import Comparison
    from perfcast.report.data.memory import MemoryData
    from perfcast.report.data.plan_memory import PlanMemoryData
    from perfcast.report.document import Document


class MemoryResult(Shown, Forecast):
    """The memory of a captured step on one device; its times are NaN.

    Attributes:
        largest: What the search for the largest size found, where one was asked for.
        comparison: With the closed form of a plan, where it was asked for.
    """

    largest: Largest | None
    comparison: Comparison | None

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.memory.device import document_of

        return document_of(self, self.largest, self.comparison)

    def data(self) -> MemoryData:
        """As JSON holds it."""
        from perfcast.report.data.memory import data_of

        return data_of(self, self.largest, self.comparison)

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of the device."""
        return (self.fit,)


class PlanMemoryResult(Shown, PlanMemory):
    """The memory of the worst rank of a plan, by the closed form."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.memory.plan import document_of

        return document_of(self)

    def data(self) -> PlanMemoryData:
        """As JSON holds it."""
        from perfcast.report.data.plan_memory import data_of

        return data_of(self)

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of the fullest rank."""
        return (self.fit,)
