"""What ``perfcast trace info`` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.report.data.traces.recordings import TraceFilesData
    from perfcast.report.document import Document
    from perfcast.traces.summary import TraceSummary


@dataclass(frozen=True, kw_only=True)
class TraceFiles:
    """Trace files, by rank.

    Attributes:
        files: One for each rank.
    """

    files: tuple[TraceSummary, ...]


class TraceInfoResult(Shown, TraceFiles):
    """What trace files are and hold."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.traces.recordings import files_document

        return files_document(self.files)

    def data(self) -> TraceFilesData:
        """As JSON holds it."""
        from perfcast.report.data.traces.recordings import files_data

        return files_data(self.files)
