"""What answers ``perfcast explain-result``: the question of a result, asked again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from perfcast.errors import InputError
from perfcast.report.origin import OriginData
from perfcast.verbs.explain_result.figures import compare_figures
from perfcast.verbs.explain_result.kept import KeptResult, read_result
from perfcast.verbs.origin import origin_of
from perfcast.verbs.question import (
    Question,
    option_of,
    place_texts,
    question_class,
    question_of,
    usual_values,
)
from perfcast.verbs.showing import Showing
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from perfcast.report.data.explained_result import ChangeData, ExplainedResultData, FigureData
    from perfcast.report.document import Document
    from perfcast.verbs.answer import OnProgress
    from perfcast.verbs.result import Shown

#: Differences that are written; all are counted.
_MOST_WRITTEN = 100
#: Fields that say where a sweep is computed, and not what.
_OF_WHERE = ("backend", "address")


class ExplainedResult(Showing):
    """How a result came to be, and what it comes to now.

    Attributes:
        kept: The result as its file holds it.
        again: The answer of now; None: it was not computed.
        reason: Why it was not, in words.
    """

    def __init__(self, kept: KeptResult, again: Shown | None, reason: str) -> None:
        self.kept, self.again, self.reason = kept, again, reason
        self._compared: tuple[int, tuple[FigureData, ...]] = (0, ())
        if again is not None:
            self._compared = compare_figures(kept.plain, json.loads(again.to_json()))

    @property
    def is_equal(self) -> bool:
        """Whether it was computed again and came to the same."""
        return self.again is not None and not self._compared[1]

    @property
    def changes(self) -> tuple[ChangeData, ...]:
        """What decides figures and is not as it was."""
        question = None if self.again is None else self.again.question
        return tuple(_changes(self.kept, origin_of(self.kept.origin.verb, question), question is not None))

    def data(self) -> ExplainedResultData:
        """As JSON holds it."""
        from perfcast.report.data.explained_result import ExplainedResultData

        origin, (num_compared, differences) = self.kept.origin, self._compared
        changes = self.changes
        return ExplainedResultData(
            file=self.kept.file,
            outcome="not computed" if self.again is None else "equal" if self.is_equal else "differs",
            reason=self.reason or ("" if self.is_equal else _why(changes)),
            verb=origin.verb,
            made_by=self.kept.version,
            command=origin.command,
            said=_by_option(origin.verb, origin.question or {}),
            usual=_usual(origin),
            defaults=self.kept.words("defaults"),
            assumptions=self.kept.words("assumptions"),
            catalog_sha256=origin.catalog_sha256,
            weights_sha256=origin.weights_sha256,
            measurements_sha256=origin.measurements_sha256,
            libraries=origin.libraries,
            inputs={one.path: one.sha256 for one in origin.inputs},
            sources=() if self.again is None else self.again.document().provenance.sources,
            changes=changes,
            num_compared=num_compared,
            num_different=len(differences),
            differences=differences[:_MOST_WRITTEN],
        )

    def document(self) -> Document:
        """As text and page say it."""
        from perfcast.report.documents.explained_result import document_of

        return document_of(self.data())


def explain_result(
    file: str | Path, *, allow_code: bool = False, on_progress: OnProgress | None = None
) -> ExplainedResult:
    """How a result that ``--json`` or ``to_json`` wrote came to be, and whether it comes to be again.

    Args:
        allow_code: Whether Python files that the result's question names are run, as the model's own program.
        on_progress: As of ``answer``.

    Returns:
        Its question with what was taken by default, what it was made from and what of that has changed, and
        figure by figure what differs where it is computed again: ``is_equal``, ``changes``, ``data()``.

    Raises:
        InputError: The file cannot be read, or is no result of perfcast.
    """
    from perfcast.verbs.answer import answer

    kept = read_result(file)
    question, reason = _question_of(kept, allow_code=allow_code)
    if question is None:
        return ExplainedResult(kept, None, reason)
    with TemporaryDirectory() as folder:
        try:
            return ExplainedResult(kept, answer(_elsewhere(question, folder), on_progress=on_progress), "")
        except InputError as error:
            return ExplainedResult(kept, None, f"asked now, it is refused: {error}")


def _question_of(kept: KeptResult, *, allow_code: bool) -> tuple[Question | None, str]:
    """The question to be asked again; None with the reason why it is not."""
    origin = kept.origin
    if origin.question is None:
        again = f"'{origin.command}' gives it anew" if origin.command else "it held what has no name"
        return None, f"a result of '{origin.verb}' keeps no question; {again}"
    try:
        question = question_of(origin.verb, origin.question)
    except InputError as error:
        return None, f"this perfcast does not take its question: {error}"
    if question.is_measured:
        return None, f"'{origin.verb}' measures, so that no two results are equal"
    programs = [text for text in place_texts(question) if re.search(r"\.py(:|$)", text)]
    if programs and not allow_code:
        return None, f"it runs the program {programs[0]}: allow that where you trust it (--allow-code)"
    return question, ""


def _elsewhere(question: Question, folder: str) -> Question:
    """The same, computed in this process; what a sweep keeps goes into a folder that goes with it."""
    from perfcast.verbs.question import plain_of

    plain = {key: value for key, value in plain_of(question).items() if key not in _OF_WHERE}
    is_sweep = getattr(question, "is_sweep", False)
    return question_of(question.verb, {**plain, "store": folder} if is_sweep else plain)


def _usual(origin: OriginData) -> dict[str, str]:
    try:
        kind = question_class(origin.verb)
    except InputError:
        return {}
    said = origin.question or {}
    left_out = {key: value for key, value in usual_values(kind).items() if key not in said and value != ""}
    return _by_option(origin.verb, left_out)


def _by_option(verb: str, values: Mapping[str, object]) -> dict[str, str]:
    """Texts by option, those of arguments by their name."""
    try:
        arguments = question_class(verb).arguments
    except InputError:
        arguments = ()
    return {key if key in arguments else option_of(key): _text(value) for key, value in values.items()}


def _changes(kept: KeptResult, now: OriginData, with_inputs: bool) -> Iterator[ChangeData]:
    from perfcast.report.data.explained_result import ChangeData

    then = kept.origin
    pairs: list[tuple[str, str | None, str | None]] = [
        ("perfcast", kept.version, perfcast_version()),
        ("catalog", then.catalog_sha256, now.catalog_sha256),
        ("weights", then.weights_sha256, now.weights_sha256),
        ("measurements", then.measurements_sha256, now.measurements_sha256),
    ]
    pairs += _by_name(then.libraries, now.libraries)
    if with_inputs:
        pairs += _by_name(
            {one.path: one.sha256 for one in then.inputs}, {one.path: one.sha256 for one in now.inputs}
        )
    for what, first, second in pairs:
        if first != second:
            yield ChangeData(what=what, then=first or "", now=second or "")


def _by_name(then: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str | None, str | None]]:
    return [(name, then.get(name), now.get(name)) for name in dict.fromkeys((*then, *now))]


def _why(changes: tuple[ChangeData, ...]) -> str:
    if changes:
        return f"changed since: {', '.join(change.what for change in changes)}"
    return (
        "version, catalog, weights, libraries and files are the same: the program's own code is another (a "
        "checkout), a file that a program of yours imports has changed, or another processor rounds otherwise"
    )


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
