"""What ``perfcast shard`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.searches.sharding.on_cluster import ShardingReport
from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.report.data.shard import ShardData
    from perfcast.report.document import Document


class ShardResult(Shown, ShardingReport):
    """Where tables lie, and what their lookups take."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.tables.shard import document_of

        return document_of(self)

    def data(self) -> ShardData:
        """As JSON holds it."""
        from perfcast.report.data.shard import data_of

        return data_of(self)
