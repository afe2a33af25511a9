"""What ``perfcast predict`` answers: a step on one device, under a plan, or of a recommendation model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from perfcast.core.forecast.device import Forecast
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.forecast.recommender import RecommenderForecast
from perfcast.report.trace_events import trace_events
from perfcast.verbs.result import Shown

if TYPE_CHECKING:
    from perfcast.core.forecast.fit import Fit
    from perfcast.prediction.run.predict import RunForecast
    from perfcast.report.data.plan_step import PlanStepData
    from perfcast.report.data.recommender import RecommenderData
    from perfcast.report.data.step import StepData
    from perfcast.report.document import Document


class StepResult(Shown, Forecast):
    """A step of the model's own modules on one device."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.step.device import document_of

        return document_of(self)

    def data(self) -> StepData:
        """As JSON holds it."""
        from perfcast.report.data.step import data_of

        return data_of(self)

    def timeline(self) -> dict[str, Any]:
        """Every operation of the step."""
        from perfcast.report.timelines.step import about, events_of

        return trace_events(events_of(self), about(self))

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of the device."""
        return (self.fit,)


class PlanResult(Shown, PlanForecast):
    """A step under a plan, or of a parallel program.

    Attributes:
        run: The whole run, where its tokens were given.
    """

    why_no_timeline: ClassVar[str] = "formulas have none; ask without closed_form"

    run: RunForecast | None

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.step.plan import document_of

        return document_of(self, self.run)

    def data(self) -> PlanStepData:
        """As JSON holds it."""
        from perfcast.report.data.plan_step import data_of

        return data_of(self, self.run)

    def timeline(self) -> dict[str, Any] | None:
        """What every rank does when; None of formulas."""
        if not self.time.spans:
            return None
        from perfcast.report.timelines.plan_step import about, events_of

        return trace_events(events_of(self), about(self))

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of the fullest rank."""
        return (self.fit,)


class RecommenderResult(Shown, RecommenderForecast):
    """A step of a recommendation model whose tables are spread over devices."""

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.tables.recommender import document_of

        return document_of(self)

    def data(self) -> RecommenderData:
        """As JSON holds it."""
        from perfcast.report.data.recommender import data_of

        return data_of(self)

    def timeline(self) -> dict[str, Any]:
        """What every rank does when."""
        from perfcast.report.timelines.recommender import about, events_of

        return trace_events(events_of(self), about(self))

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """Of the fullest rank."""
        return (self.fit,)
