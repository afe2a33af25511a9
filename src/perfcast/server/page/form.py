"""The controls of a view: those chosen by hand, then one for every other field of its question."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui

from perfcast.server.page.fields import Field, fields_of
from perfcast.server.page.view import Control, Plain, View
from perfcast.server.page.widgets.base import Changed, FormControl
from perfcast.server.page.widgets.choice import ChoiceControl
from perfcast.server.page.widgets.entry import EntryControl
from perfcast.server.page.widgets.name import NameControl
from perfcast.server.page.widgets.place import PlaceControl
from perfcast.server.page.widgets.plan import PlanControl
from perfcast.server.page.widgets.steps import StepsControl


class Form:
    """Controls of one client's view, and the question that they say together.

    Attributes:
        plain: What they say.
    """

    def __init__(self, view: View, changed: Changed) -> None:
        """Draw the controls where the caller stands."""
        self._view = view
        self._fields = fields_of(view.verb)
        self._controls: list[tuple[Control | None, FormControl]] = []
        self._groups: list[tuple[ui.element, list[FormControl]]] = []
        self._on_change = changed
        with ui.element("div").classes("controls").props('role=form aria-label="Question"'):
            for group in view.groups:
                with ui.element("fieldset") as box:
                    ui.element("legend").props["innerHTML"] = group.title
                    with ui.element("div").classes("fields"):
                        drawn = [self._add(control) for control in group.controls]
                self._groups.append((box, drawn))
            self._draw_others()
            self._error = ui.label().classes("problem").props("role=alert")
        self._error.set_visibility(False)

    @property
    def plain(self) -> dict[str, object]:
        """What is said by the controls that the question has a use for."""
        said: dict[str, object] = {}
        for _, drawn in self._controls:
            said |= drawn.read()
        for control, drawn in self._controls:
            if control is not None and not control.applies(said):
                for name in drawn.fields:
                    said.pop(name, None)
        return {name: said[name] for name in self._fields if name in said}

    def show(self, plain: Plain) -> None:
        """Enter what a question says."""
        for _, drawn in self._controls:
            drawn.show(plain)
        self._apply()

    def show_error(self, text: str) -> None:
        """Say beside the controls what is wrong with what they say; '' for nothing."""
        self._error.set_text(text)
        self._error.set_visibility(bool(text))

    def _add(self, control: Control) -> FormControl:
        drawn = draw_control(control, self._fields, self._changed)
        self._controls.append((control, drawn))
        return drawn

    def _draw_others(self) -> None:
        taken = {name for _, drawn in self._controls for name in drawn.fields} | set(self._view.hidden)
        others = [field for name, field in self._fields.items() if name not in taken]
        if not others:
            return
        with ui.expansion("More options").classes("more").props("dense"), ui.element("div").classes("fields"):
            for field in others:
                self._controls.append((None, EntryControl(field, self._changed)))

    def _changed(self) -> None:
        self._apply()
        self._on_change()

    def _apply(self) -> None:
        """Hide what the question has no use for."""
        plain: dict[str, object] = {}
        for _, drawn in self._controls:
            plain |= drawn.read()
        for control, drawn in self._controls:
            if control is not None:
                drawn.box.set_visibility(control.applies(plain))
        for box, inside in self._groups:
            box.set_visibility(any(drawn.box.visible for drawn in inside))


def draw_control(control: Control, fields: Mapping[str, Field], changed: Changed) -> FormControl:
    """The control that a view names, where the caller stands."""
    if control.widget == "place":
        return PlaceControl(control, changed)
    field = fields[control.fields[0]]
    match control.widget:
        case "name":
            return NameControl(control, field, changed)
        case "steps":
            return StepsControl(control, field, changed)
        case "choice":
            return ChoiceControl(control, field, changed)
        case "plan":
            return PlanControl(control, field, changed)
        case "field":
            return EntryControl(field, changed, control)
