"""What ``perfcast trace forecast`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.traces.forecast.from_traces import TraceForecast
from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.report.data.traces.forecast import TraceForecastData
    from perfcast.report.document import Document


class TraceForecastResult(Shown, TraceForecast):
    """Recorded steps elsewhere, or changed."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.traces.forecast import document_of

        return document_of(self)

    def data(self) -> TraceForecastData:
        """As JSON holds it."""
        from perfcast.report.data.traces.forecast import data_of

        return data_of(self)
