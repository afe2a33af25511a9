"""A control of any field, drawn from what the field takes."""

from __future__ import annotations

from nicegui import ui

from perfcast.server.page.fields import Field, read_entry, write_entry
from perfcast.server.page.view import Control, Plain
from perfcast.server.page.widgets.base import Changed, Entered, FormControl, add_hint


class EntryControl(FormControl):
    """Words, a number, a switch or one of a few words."""

    def __init__(self, field: Field, changed: Changed, control: Control | None = None) -> None:
        """Args: ``control`` says what is chosen by hand; None takes the field's own words."""
        self.fields = (field.name,)
        self._field = field
        with ui.element("div").classes(f"control {field.entry}") as self.box:
            label, example = (control.label, control.example) if control else ("", "")
            drawn = _draw(field, label or field.label, example or field.usual)
            self._entered = Entered(drawn, changed)
            with drawn:
                add_hint((control.hint if control else "") or field.hint)

    def read(self) -> dict[str, object]:
        """What is entered, where it says something."""
        value = read_entry(self._field, self._entered.value)
        return {} if value is None else {self._field.name: value}

    def show(self, plain: Plain) -> None:
        """Enter what a question says."""
        value = plain.get(self._field.name)
        if self._field.entry == "flag":
            self._entered.set(bool(value))
        elif self._field.entry == "choice":
            self._entered.set(value if value in (self._field.kind.words or ()) else None)
        else:
            self._entered.set(write_entry(value))


def _draw(field: Field, label: str, example: str) -> ui.switch | ui.select | ui.input:
    """Numbers are entered as words too: a number's own field takes a comma or a unit for nothing."""
    if field.entry == "flag":
        return ui.switch(label)
    if field.entry == "choice":
        words = list(field.kind.words or ())
        return ui.select(words, label=label, clearable=True).props("outlined dense options-dense")
    drawn = ui.input(label, placeholder=example).props("outlined dense stack-label autocomplete=off")
    return drawn.props("inputmode=decimal") if field.entry == "number" else drawn
