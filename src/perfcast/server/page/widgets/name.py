"""A name of the catalog: chosen from the list, found by typing, or written out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from nicegui import ui

from perfcast.server.page.fields import Field
from perfcast.server.page.view import Control, Names, Plain
from perfcast.server.page.widgets.base import Changed, Entered, FormControl, add_hint


@cache
def names_of(kind: Names) -> tuple[str, ...]:
    """All names that the catalog has of a kind, in its order."""
    from perfcast.catalogs.clusters import load_cluster_entries
    from perfcast.catalogs.devices import load_device_entries
    from perfcast.catalogs.models import load_models

    load: Callable[[], object] = {
        "models": load_models,
        "devices": load_device_entries,
        "clusters": load_cluster_entries,
    }[kind]
    names = load()
    assert hasattr(names, "keys")
    return tuple(sorted(names.keys()))


class NameSelect:
    """The list itself; what is typed and not in it is taken as it stands."""

    def __init__(self, names: Names, label: str, changed: Changed, hint: str = "") -> None:
        self._names = list(names_of(names))
        self._select = ui.select(self._names, label=label, with_input=True, new_value_mode="add-unique")
        self._select.props("outlined dense options-dense input-debounce=0 autocomplete=off spellcheck=false")
        self._entered = Entered(self._select, changed)
        with self._select:
            add_hint(hint)

    @property
    def value(self) -> str:
        """What is chosen; '' for nothing."""
        return str(self._entered.value or "").strip()

    def set(self, name: str) -> None:
        """Choose a name, known or not."""
        if name and name not in self._names:
            self._names = [*self._names, name]
            self._select.set_options(self._names)
        self._entered.set(name or None)

    def offer(self, names: Names, label: str) -> None:
        """Offer names of another kind."""
        self._names = list(names_of(names))
        self._select.set_options(self._names)
        self._select.props(f'label="{label}"')


class NameControl(FormControl):
    """One name, or several where the field is a list."""

    def __init__(self, control: Control, field: Field, changed: Changed) -> None:
        self.fields = (field.name,)
        self._field = field
        with ui.element("div").classes("control wide") as self.box:
            self._name = NameSelect(control.names, control.label or field.label, changed, control.hint)

    def read(self) -> dict[str, object]:
        """The name, or the names between commas."""
        text = self._name.value
        if not text:
            return {}
        if self._field.kind.is_list:
            return {self._field.name: tuple(part.strip() for part in text.split(",") if part.strip())}
        return {self._field.name: text}

    def show(self, plain: Plain) -> None:
        """Choose what a question names."""
        said = plain.get(self._field.name)
        self._name.set(", ".join(map(str, said)) if isinstance(said, (list, tuple)) else str(said or ""))
