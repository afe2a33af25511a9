"""Results: forecasts that know what they were asked, and show themselves."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from perfcast.errors import InputError, QuestionError
from perfcast.verbs.showing import Showing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from perfcast.core.forecast.fit import Fit
    from perfcast.report.answers import Answer
    from perfcast.report.compare import AnswerComparison
    from perfcast.report.document import Document
    from perfcast.verbs.question import Question


class Shown(Showing):
    """An answer that shows itself.

    Attributes:
        question: What was asked.
    """

    #: What to say, or to ask, where there is no timeline.
    why_no_timeline: ClassVar[str] = "nothing in it says what happens when"

    question: Question

    @abstractmethod
    def document(self) -> Document:
        """The answer as text and page say it."""

    @abstractmethod
    def data(self) -> Answer:
        """The answer as JSON holds it: a typed answer of ``report.data``."""

    @property
    def _inputs(self) -> tuple[str, ...]:
        from perfcast.verbs.question import place_texts

        return place_texts(self.question)

    def whole(self, *, is_shared: bool = False) -> Answer:
        """``data``, with what it came from.

        Args:
            is_shared: Whether others read it, who are not told of files of this machine.
        """
        from perfcast.verbs.origin import origin_of

        return replace(self.data(), origin=origin_of(self.question.verb, self.question, is_shared=is_shared))

    def timeline(self) -> dict[str, Any] | None:
        """Trace events, where what happens when is known."""
        return None

    @property
    def fit_verdicts(self) -> Iterable[Fit | None]:
        """What has to fit the devices' memory."""
        return ()

    @property
    def command(self) -> str:
        """The command line that asks the same; '' where it holds objects, which none can name."""
        from perfcast.verbs.spelled import command_line

        try:
            return command_line(self.question)
        except QuestionError:  # it holds objects, which no command line has
            return ""

    def to_perfetto(self, path: str | Path) -> None:
        """Trace events, as ``--timeline`` writes them; https://ui.perfetto.dev opens the file.

        Raises:
            InputError: The answer has no timeline, or the file cannot be written.
        """
        from perfcast.report.answers import write_plain

        events = self.timeline()
        if events is None:
            raise InputError(f"{type(self).__name__} has no timeline: {self.why_no_timeline}")
        self._write(path, write_plain(events, indent=None, is_exact=True))

    def compare(self, other: Shown) -> Comparison:
        """This answer and another of the same kind side by side.

        Raises:
            InputError: The other is of another kind.
        """
        if type(other) is not type(self):
            raise InputError(
                f"{type(self).__name__} and {type(other).__name__} answer different questions, with other "
                "figures; compare answers of one kind"
            )
        return Comparison(self, other)


class Comparison(Showing):
    """Two answers of one kind side by side: their headlines, what these consist of, and whether intervals
    tell them apart.

    Attributes:
        first, second: The answers.
    """

    def __init__(self, first: Shown, second: Shown) -> None:
        self.first, self.second = first, second

    def data(self) -> AnswerComparison:
        """As JSON holds it."""
        from perfcast.report.compare import compare_documents

        return compare_documents(self.first.document(), self.second.document())

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.compared import document_of

        return document_of(self.data())


Result = TypeVar("Result", bound=Shown)


def shown(kind: type[Result], answer: object, question: Question, **further: object) -> Result:
    """An answer as the result that shows it: the same fields, and what was asked.

    Args:
        kind: A subclass of ``Shown`` and of the answer's class.
        further: What the result holds beside the answer.
    """
    result = object.__new__(kind)
    held = {one.name: getattr(answer, one.name) for one in fields(answer)}  # type: ignore[arg-type]
    for name, value in {**held, "question": question, **further}.items():
        object.__setattr__(result, name, value)
    return result
