"""What a view of the page is: a verb, controls of its question, and what is asked before anyone has asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from perfcast.server.desk import Desk

#: A question as plain data, by field.
Plain = Mapping[str, object]
#: What a control looks like; ``field`` is what its field asks for.
Widget = Literal["field", "name", "steps", "choice", "place", "plan"]
#: Of which names of the catalog a control offers a choice.
Names = Literal["models", "devices", "clusters"]


def always(_: Plain) -> bool:
    """Of a control that every question has a use for."""
    return True


def never(_: Plain) -> bool:
    """Of what no question has."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control that is chosen by hand; every other field of a question has one under 'More options'.

    Attributes:
        fields: That it reads and writes; a place has several.
        label: '' for the field's own name.
        names: Of the widget ``name``.
        steps: Of the widget ``steps``: the values of its slider, in order.
        choices: Of the widget ``choice``: words of the question and how they are read; '' says nothing.
        example: Of what may be written, shown where nothing is.
        hint: Beside it; '' for what the question's docstring says.
        applies: Whether a question has a use for it; else it is hidden and says nothing.
    """

    fields: tuple[str, ...]
    widget: Widget = "field"
    label: str = ""
    names: Names = "models"
    steps: tuple[int, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    example: str = ""
    hint: str = ""
    applies: Callable[[Plain], bool] = always


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Controls under a heading."""

    title: str
    controls: tuple[Control, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view of the page.

    Attributes:
        name: In its address: ``/forecast``.
        icon: Of Material Icons, which NiceGUI brings along.
        lead: What it answers, in a sentence.
        verb: Whose question it asks; '' of a view that asks none.
        start: What is asked where the address says nothing.
        groups: Controls chosen by hand.
        hidden: Fields that the page offers no control of, such as those that name files.
        is_job: Whether its answers take long: asked by a button, with progress and cancel.
        build: Draws a view that asks no question, in place of controls and answer, as an address' query says.
        has_plans: Whether its answer's tables hold plans, each of which can be looked into.
        has_timeline: Whether the answer to a question can be written for Perfetto.
    """

    name: str
    title: str
    icon: str
    lead: str
    verb: str = ""
    start: Plain = field(default_factory=lambda: MappingProxyType({}))
    groups: tuple[Group, ...] = ()
    hidden: tuple[str, ...] = ()
    is_job: bool = False
    build: Callable[[str, Desk], None] | None = None
    has_plans: bool = False
    has_timeline: Callable[[Plain], bool] = never
