"""How a step is spread: the usual degrees as choices, and the plan's text, which is what counts."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from perfcast.core.plans.text import PLAN_KEYS, PlanValue, format_values, parse_plan
from perfcast.errors import InputError
from perfcast.server.page.fields import Field
from perfcast.server.page.view import Control, Plain
from perfcast.server.page.widgets.base import Changed, Entered, FormControl, add_hint

_DEGREES = ("", "1", "2", "4", "8", "16", "32", "64")
#: Keys of the plan's text that have a choice, how they are read, and their choices.
_CHOICES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("tp", "Tensor", _DEGREES),
    ("pp", "Pipeline", _DEGREES),
    ("cp", "Context", _DEGREES),
    ("ep", "Experts", _DEGREES),
    ("zero", "ZeRO", ("", "0", "1", "2", "3")),
    ("recompute", "Recompute", ("", "none", "selective", "full")),
)


class PlanControl(FormControl):
    """A field that is a plan's text, with a choice for each of the keys that planners turn first."""

    def __init__(self, control: Control, field: Field, changed: Changed) -> None:
        self.fields = (field.name,)
        self._field = field
        self._changed = changed
        self._choices: dict[str, tuple[ui.select, Entered]] = {}
        with ui.element("div").classes("control wide") as self.box:
            with ui.element("div").classes("degrees"):
                for key, label, choices in _CHOICES:
                    self._add_choice(key, label, choices)
            text = ui.input(control.label or field.label, placeholder="such as tp=8,pp=4,zero=1")
            text.props("outlined dense stack-label autocomplete=off spellcheck=false")
            with text:
                add_hint(control.hint or field.hint)
        self._text = Entered(text, self._typed)

    def _add_choice(self, key: str, label: str, choices: tuple[str, ...]) -> None:
        shown = {choice: choice or "auto" for choice in choices}
        select = ui.select(shown, label=label, value="").props("outlined dense options-dense stack-label")
        self._choices[key] = select, Entered(select, partial(self._chosen, key))

    def read(self) -> dict[str, object]:
        """The plan's text."""
        text = str(self._text.value or "").strip()
        return {self._field.name: text} if text else {}

    def show(self, plain: Plain) -> None:
        """Enter a plan's text; the choices follow."""
        self._text.set(str(plain.get(self._field.name) or ""))
        self._follow()

    def _typed(self) -> None:
        self._follow()
        self._changed()

    def _chosen(self, key: str) -> None:
        values = dict(self._values() or {})
        text = str(self._choices[key][0].value or "")
        field = PLAN_KEYS[key].field
        values.pop(field, None)
        if text:
            values[field] = PLAN_KEYS[key].read(text)
        self._text.set(format_values(values))
        self._changed()

    def _follow(self) -> None:
        """The choices say what the text does, where it can be read."""
        values = self._values()
        if values is None:
            return
        for key, (select, entered) in self._choices.items():
            stated = values.get(PLAN_KEYS[key].field)
            text = "" if stated is None else PLAN_KEYS[key].write(stated)
            if text not in select.options:
                assert isinstance(select.options, dict)
                select.set_options(select.options | {text: text})
            entered.set(text)

    def _values(self) -> dict[str, PlanValue] | None:
        try:
            return dict(parse_plan(str(self._text.value or "")))
        except InputError:
            return None
