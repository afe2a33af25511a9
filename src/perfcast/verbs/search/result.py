"""What ``perfcast search`` answers: of a training, of batches of inference, of deployments, or of a grid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perfcast.searches.report.compose import SearchReport
from perfcast.searches.serving.batches import ServingReport
from perfcast.searches.serving.result import DeploymentSearchResult
from perfcast.searches.sweep.run import SweepResult
from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.core.forecast.fit import Fit
    from perfcast.report.data.search.deployments import DeploymentSearchData
    from perfcast.report.data.search.serving import ServingSearchData
    from perfcast.report.data.search.sweep import SweepData
    from perfcast.report.data.search.training import SearchData
    from perfcast.report.document import Document


class PlansFound(Shown, SearchReport):
    """The best plans of a training, and why the winner wins."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.search.training import document_of

        return document_of(self)

    def data(self) -> SearchData:
        """As JSON holds it."""
        from perfcast.report.data.search.training import data_of

        return data_of(self)

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of the winner on each cluster."""
        return self.fits


class BatchesFound(Shown, ServingReport):
    """The best plans and batches of inference."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.search.serving import document_of

        return document_of(self)

    def data(self) -> ServingSearchData:
        """As JSON holds it."""
        from perfcast.report.data.search.serving import data_of

        return data_of(self)


class DeploymentsFound(Shown, DeploymentSearchResult):
    """The best deployments for requests as they come."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.search.deployments import document_of

        return document_of(self)

    def data(self) -> DeploymentSearchData:
        """As JSON holds it."""
        from perfcast.report.data.search.deployments import data_of

        return data_of(self)


class CellsFound(Shown, SweepResult):
    """The best plans of every cell of a grid.

    Attributes:
        objective: By which they are the best.
    """

    objective: str

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.search.sweep import document_of

        return document_of(self, self.objective)

    def data(self) -> SweepData:
        """As JSON holds it."""
        from perfcast.report.data.search.sweep import data_of

        return data_of(self, self.objective)
