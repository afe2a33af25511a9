"""What every control keeps to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.value_element import ValueElement

from perfcast.server.page.view import Plain

#: Called when a user has changed a control; what the page sets itself calls nothing.
Changed = Callable[[], None]


class FormControl(ABC):
    """A control, or several that belong together.

    Attributes:
        fields: Of the question that it reads and writes.
        box: That holds everything it draws.
    """

    fields: tuple[str, ...]
    box: ui.element

    @abstractmethod
    def read(self) -> dict[str, object]:
        """What is entered, by field; nothing of a field that nothing is said of."""

    @abstractmethod
    def show(self, plain: Plain) -> None:
        """Enter what a question says, without calling anyone."""


class Entered:
    """One NiceGUI element whose value can be set without its user having changed it."""

    def __init__(self, element: ValueElement[Any], changed: Changed) -> None:
        self.element = element
        self._is_set = False
        self._changed = changed
        element.on_value_change(self._on_change)

    @property
    def value(self) -> Any:
        """As the element holds it."""
        return self.element.value

    def set(self, value: object) -> None:
        """Put a value there, calling nobody."""
        self._is_set = True
        try:
            self.element.set_value(value)
        finally:
            self._is_set = False

    def _on_change(self) -> None:
        if not self._is_set:
            self._changed()


def add_hint(text: str) -> None:
    """A tooltip of the element that is drawn in, where there is something to say."""
    if text:
        ui.tooltip(text).props('delay=400 max-width="320px"')
