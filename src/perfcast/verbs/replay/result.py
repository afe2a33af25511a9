"""What ``perfcast replay`` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.replays.judge.fidelity import Fidelity
    from perfcast.report.data.replay import ReplayData
    from perfcast.report.document import Document


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """Recorded steps that were run again.

    Attributes:
        ranks: How each rank's replay behaves beside its original.
    """

    ranks: tuple[Fidelity, ...]


class ReplayResult(Shown, Replayed):
    """How well replayed steps behave like the original."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.replays.played import document_of

        return document_of(self.ranks)

    def data(self) -> ReplayData:
        """As JSON holds it."""
        from perfcast.report.data.replay import data_of

        return data_of(self.ranks)
