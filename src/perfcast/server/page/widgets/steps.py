"""A whole number with a slider over the usual ones: what is dragged answers while it moves."""

from __future__ import annotations

from bisect import bisect_left

from nicegui import ui

from perfcast.server.page.fields import Field, number_of, read_entry, write_entry
from perfcast.server.page.view import Control, Plain
from perfcast.server.page.widgets.base import Changed, Entered, FormControl, add_hint


class StepsInput:
    """A slider and the number beside it; either changes the other."""

    def __init__(
        self, steps: tuple[int, ...], label: str, changed: Changed, *, hint: str = "", usual: str = ""
    ) -> None:
        self._steps = steps
        self._changed = changed
        with ui.element("div").classes("steps"):
            number = ui.input(label, placeholder=usual or "auto")
            number.props("outlined dense stack-label inputmode=numeric autocomplete=off")
            with number:
                add_hint(hint)
            slider = ui.slider(min=0, max=len(steps) - 1, step=1, value=0)
            slider.props(f'aria-label="{label}, slider"')
        self._number = Entered(number, self._typed)
        self._slider = Entered(slider, self._dragged)

    @property
    def text(self) -> str:
        """What stands there; '' for nothing."""
        return str(self._number.value or "").strip()

    def set(self, text: str) -> None:
        """Put a number there, calling nobody."""
        self._number.set(text)
        self._follow(text)

    def _typed(self) -> None:
        self._follow(self.text)
        self._changed()

    def _dragged(self) -> None:
        self._number.set(str(self._steps[int(self._slider.value)]))
        self._changed()

    def _follow(self, text: str) -> None:
        number = number_of(text)
        if isinstance(number, (int, float)):
            self._slider.set(min(bisect_left(self._steps, number), len(self._steps) - 1))


class StepsControl(FormControl):
    """A field of one whole number."""

    def __init__(self, control: Control, field: Field, changed: Changed) -> None:
        self.fields = (field.name,)
        self._field = field
        with ui.element("div").classes("control wide") as self.box:
            self._input = StepsInput(
                control.steps,
                control.label or field.label,
                changed,
                hint=control.hint or field.hint,
                usual=field.usual,
            )

    def read(self) -> dict[str, object]:
        """The number, where one is entered."""
        value = read_entry(self._field, self._input.text)
        return {} if value is None else {self._field.name: value}

    def show(self, plain: Plain) -> None:
        """Enter a question's number; the slider follows."""
        self._input.set(write_entry(plain.get(self._field.name)))
