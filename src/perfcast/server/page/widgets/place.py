"""Where a step runs: so many of a device, or of a cluster of the catalog."""

from __future__ import annotations

from nicegui import ui

from perfcast.errors import InputError
from perfcast.server.page.fields import number_of
from perfcast.server.page.view import Control, Names, Plain
from perfcast.server.page.widgets.base import Changed, Entered, FormControl
from perfcast.server.page.widgets.name import NameSelect
from perfcast.server.page.widgets.steps import StepsInput

#: Counts of devices that a slider offers.
COUNTS = tuple(2**power for power in range(15))
_DEVICE, _CLUSTER = "device", "cluster"


class PlaceControl(FormControl):
    """``device`` with ``devices``, or ``cluster`` with its number after a colon, as the question has them."""

    def __init__(self, control: Control, changed: Changed) -> None:
        self.fields = control.fields
        self._changed = changed
        self._kept: dict[str, object] = {}
        has_both = {_DEVICE, _CLUSTER} <= set(self.fields)
        kind = _DEVICE if _DEVICE in self.fields else _CLUSTER
        with ui.element("div").classes("control wide place") as self.box:
            toggle = ui.toggle({_DEVICE: "Device", _CLUSTER: "Cluster"}, value=kind)
            toggle.props('unelevated dense no-caps toggle-color=primary aria-label="Runs on"')
            toggle.set_visibility(has_both)
            self._kind = Entered(toggle, self._switched)
            self._name = NameSelect(_names(kind), kind.capitalize(), changed, control.hint)
            self._count = StepsInput(COUNTS, "Devices", changed, usual="1")

    def read(self) -> dict[str, object]:
        """Device and number, or cluster with its number."""
        name, count = self._name.value, number_of(self._count.text)
        if self._kind.value == _CLUSTER:
            found: dict[str, object] = {_CLUSTER: f"{name}:{count}" if name and count else name}
        else:
            found = {_DEVICE: name}
            if "devices" in self.fields and count not in ("", 1):
                found["devices"] = count
        return self._kept | {key: value for key, value in found.items() if value}

    def show(self, plain: Plain) -> None:
        """Enter the place that a question names."""
        self._kept = {}
        cluster, count = plain.get(_CLUSTER), plain.get("devices")
        if cluster:
            name, _, number = str(cluster).partition(":")
            count = number or count
            if _DEVICE in plain:
                self._kept = {_DEVICE: plain[_DEVICE]}
        else:
            name = str(plain.get(_DEVICE) or "")
        kind = _CLUSTER if cluster or _DEVICE not in self.fields else _DEVICE
        self._kind.set(kind)
        self._name.offer(_names(kind), kind.capitalize())
        self._name.set(name)
        self._count.set(str(count or ""))

    def _switched(self) -> None:
        """From so many devices to a cluster of them, and back, where the catalog knows one."""
        kind = _CLUSTER if self._kind.value == _CLUSTER else _DEVICE
        name = _counterpart(self._name.value, kind)
        self._kept = {}
        self._name.offer(_names(kind), kind.capitalize())
        self._name.set(name)
        self._changed()


def _names(kind: str) -> Names:
    return "devices" if kind == _DEVICE else "clusters"


def _counterpart(name: str, kind: str) -> str:
    """The catalog's cluster of a device, or the device of a cluster; '' where it knows none."""
    from perfcast.catalogs.clusters import load_cluster_entries
    from perfcast.prediction.plan.cluster import cluster_of_device

    if kind == _DEVICE:
        entries = load_cluster_entries()
        return entries[name].device if name in entries else ""
    try:
        return cluster_of_device(name, 1).name
    except InputError:
        return ""
