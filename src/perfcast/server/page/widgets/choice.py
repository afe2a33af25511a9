"""A choice of a few words, read as a planner would say them."""

from __future__ import annotations

from nicegui import ui

from perfcast.server.page.fields import Field, read_entry
from perfcast.server.page.view import Control, Plain
from perfcast.server.page.widgets.base import Changed, Entered, FormControl, add_hint


class ChoiceControl(FormControl):
    """One of the control's choices; another word that the question says is added to them."""

    def __init__(self, control: Control, field: Field, changed: Changed) -> None:
        self.fields = (field.name,)
        self._field = field
        self._choices: dict[str, str] = dict(control.choices)
        with ui.element("div").classes("control") as self.box:
            self._select = ui.select(self._choices, label=control.label or field.label, value="")
            self._select.props("outlined dense options-dense")
            self._entered = Entered(self._select, changed)
            with self._select:
                add_hint(control.hint or field.hint)

    def read(self) -> dict[str, object]:
        """The choice, where it says something."""
        value = read_entry(self._field, self._entered.value)
        return {} if value is None else {self._field.name: value}

    def show(self, plain: Plain) -> None:
        """Choose what a question says."""
        said = plain.get(self._field.name)
        value = ", ".join(map(str, said)) if isinstance(said, (list, tuple)) else str(said or "")
        if value not in self._choices:
            self._choices[value] = value or "–"
            self._select.set_options(self._choices)
        self._entered.set(value)
