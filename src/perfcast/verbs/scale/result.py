"""What ``perfcast scale`` answers: curves of a training, of inference, or the limits of scaling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perfcast.prediction.sweep.batches import BatchesForecast
from perfcast.prediction.sweep.scale import ScaleForecast
from perfcast.verbs.result import Shown
from perfcast.verbs.scale.limits import LimitsFound

if TYPE_CHECKING:
    from perfcast.core.forecast.fit import Fit
    from perfcast.report.data.batches import BatchesData
    from perfcast.report.data.limits import LimitsData
    from perfcast.report.data.scale import ScaleData
    from perfcast.report.document import Document


class ScaleResult(Shown, ScaleForecast):
    """A training step on more and more devices."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.scale import document_of

        return document_of(self)

    def data(self) -> ScaleData:
        """As JSON holds it."""
        from perfcast.report.data.scale import data_of

        return data_of(self)

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of every point that has a forecast."""
        return self.fits


class BatchesResult(Shown, BatchesForecast):
    """Inference with more sequences and longer contexts."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.batches import document_of

        return document_of(self)

    def data(self) -> BatchesData:
        """As JSON holds it."""
        from perfcast.report.data.batches import data_of

        return data_of(self)

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of every point that has a forecast."""
        return self.fits


class LimitsResult(Shown, LimitsFound):
    """How large a training run can be before moving data costs its utilization."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.limits import document_of

        return document_of(self.limits, self.assumptions, self.rows, self.curve)

    def data(self) -> LimitsData:
        """As JSON holds it."""
        from perfcast.report.data.limits import data_of

        return data_of(self.limits, self.assumptions, self.rows)
