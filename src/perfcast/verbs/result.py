"""Results: forecasts that know what they were asked, and show themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfcast.core.forecast.fit import Fit
    from perfcast.report.document import Document
    from perfcast.verbs.question import Question


class Shown(ABC):
    """An answer that shows itself.

    Attributes:
        question: What was asked.
    """

    question: Question

    @abstractmethod
    def document(self) -> Document:
        """The answer as text and page say it."""

    @abstractmethod
    def data(self) -> object:
        """The answer as JSON holds it: a typed answer of ``report.data``."""

    def timeline(self) -> dict[str, Any] | None:
        """Trace events, where what happens when is known."""
        return None

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """What has to fit the devices' memory."""
        return ()


Result = TypeVar("Result", bound=Shown)


def shown(kind: type[Result], answer: object, question: Question, **further: object) -> Result:
    """An answer as the result that shows it: the same fields, and what was asked.

    Args:
        kind: A subclass of ``Shown`` and of the answer's class.
        further: What the result holds beside the answer.
    """
    result = object.__new__(kind)
    vars(result).update(vars(answer), question=question, **further)
    return result
