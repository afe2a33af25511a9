"""What JSON holds of a result explained: how it came to be, and what it comes to now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from perfcast.report.answers import Answer

#: Whether it was computed again, and what came of that.
Outcome = Literal["equal", "differs", "not computed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeData:
    """Something that decides figures, and is not as it was.

    Attributes:
        what: Its name.
        then: As the result says.
        now: As it is; empty where there is none any more.
    """

    what: str
    then: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureData:
    """A figure or text that comes out otherwise.

    Attributes:
        path: Of its keys in the result.
        then: As the result says.
        now: As it is computed now.
        relative: now over then, less 1; null of texts, and where the result says 0.
    """

    path: str
    then: str
    now: str
    relative: float | None


@dataclass(frozen=True, kw_only=True)
class ExplainedResultData(Answer):
    """How a result came to be, and whether it comes to be again.

    Attributes:
        file: That holds the result.
        outcome: equal, differs, or not computed.
        reason: Why it is not computed, or may differ, in words; empty where it is equal.
        verb: That answered.
        made_by: Version of perfcast that wrote the result.
        command: The command line that asks the same; empty where none does.
        said: What the question says, by option.
        usual: What was taken of options that the question leaves out, by option.
        defaults: What was chosen where nothing was asked for, in the result's words.
        assumptions: What the result takes for granted.
        catalog_sha256: Of the devices, clusters, models and frameworks that it was made from.
        weights_sha256: Of the weights and constants that it was made from.
        measurements_sha256: Of measurements of the user's own; null: none.
        libraries: Versions that it was made with.
        inputs: Files that it was made from, with their digests.
        sources: Of the figures, as computed now; empty where it is not.
        changes: What decides figures and is not as it was.
        num_compared: Figures and texts that were compared.
        num_different: Of these, those that differ by more than rounding.
        differences: At most a hundred of them, the most different first.
    """

    table: ClassVar[str] = "differences"

    file: str
    outcome: Outcome
    reason: str
    verb: str
    made_by: str
    command: str
    said: dict[str, str]
    usual: dict[str, str]
    defaults: tuple[str, ...]
    assumptions: tuple[str, ...]
    catalog_sha256: str
    weights_sha256: str
    measurements_sha256: str | None
    libraries: dict[str, str]
    inputs: dict[str, str]
    sources: tuple[str, ...]
    changes: tuple[ChangeData, ...]
    num_compared: int
    num_different: int
    differences: tuple[FigureData, ...]
