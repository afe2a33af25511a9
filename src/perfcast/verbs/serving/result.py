"""What ``perfcast serving`` answers: a deployment under a load, or under many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.forecast.serving_sweep import ServingSweep
from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.core.forecast.fit import Fit
    from perfcast.report.data.serving.forecast import ServingData
    from perfcast.report.data.serving.sweep import ServingSweepData
    from perfcast.report.document import Document


class ServingResult(Shown, ServingForecast):
    """One deployment under one load."""

    why_no_timeline: ClassVar[str] = "ask with a window, such as window='0:10', and by events"

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.serving.forecast import document_of

        return document_of(self)

    def data(self) -> ServingData:
        """As JSON holds it."""
        from perfcast.report.data.serving.forecast import data_of

        return data_of(self)

    def timeline(self) -> dict[str, Any] | None:
        """Every step in the window that was asked for; None where none was.

        Raises:
            InputError: Nothing was played, or no step lies in the window.
        """
        from perfcast.report.timelines.serving import about, events_of
        from perfcast.report.trace_events import trace_events

        if self.played is not None and self.played.steps is None:
            return None
        return trace_events(events_of(self), about(self))

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of every pool's engines."""
        return self.fits


class ServingSweepResult(Shown, ServingSweep):
    """A deployment under many loads."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.serving.sweep import document_of

        return document_of(self)

    def data(self) -> ServingSweepData:
        """As JSON holds it."""
        from perfcast.report.data.serving.sweep import sweep_data_of

        return sweep_data_of(self)

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of every point that has a forecast."""
        return self.fits
