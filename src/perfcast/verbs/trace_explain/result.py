"""What ``perfcast trace explain`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfcast.traces.explain.recordings import Explanation
from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.report.data.traces.explained import ExplanationData
    from perfcast.report.document import Document
    from perfcast.traces.events import Trace
    from perfcast.traces.explain.compare import Comparison


class ExplanationResult(Shown, Explanation):
    """Where the time of recorded steps went.

    Attributes:
        comparison: With another run, where one was given.
        recorded: What was read.
    """

    comparison: Comparison | None
    recorded: tuple[Trace, ...]

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.traces.explained import document_of

        return document_of(self, self.comparison)

    def data(self) -> ExplanationData:
        """As JSON holds it."""
        from perfcast.report.data.traces.explained import data_of

        return data_of(self, self.comparison)

    def timeline(self) -> dict[str, Any]:
        """The recorded steps, with what their time went to."""
        from perfcast.report.timelines.explained import events_of
        from perfcast.report.trace_events import trace_events

        return trace_events(events_of(self, self.recorded))
