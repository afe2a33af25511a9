"""A mesh as nested boxes: devices inside servers, inside racks, inside the cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from perfcast.core.machine.mesh import DeviceMesh
from perfcast.measure.mesh_discovery.found import DiscoveredMesh
from perfcast.report import palette
from perfcast.report.document import Block, Note, Section
from perfcast.report.figure import Figure, Treemap

#: Devices that are drawn; of more, the first.
MOST_DEVICES = 256
_RANKS_TOLD = 8


@dataclass
class _Boxes:
    """Boxes as they are found, a box before what is inside it."""

    ids: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    hovers: list[str] = field(default_factory=list)
    colours: list[str] = field(default_factory=list)
    devices: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, parent: str, label: str, hover: str, colour: str = "") -> None:
        self.ids.append(name)
        self.parents.append(parent)
        self.labels.append(label)
        self.hovers.append(hover)
        self.colours.append(colour)
        self.devices[name] = 0

    def count(self, name: str) -> None:
        """One device more in a box and all boxes around it."""
        while True:
            self.devices[name] += 1
            if not name:
                return
            name = self.parents[self.ids.index(name)]

    def treemap(self, depth: int) -> Treemap:
        return Treemap(
            ids=tuple(self.ids),
            parents=tuple(self.parents),
            labels=tuple(self.labels),
            values=tuple(float(self.devices[name]) for name in self.ids),
            texts=("",) * len(self.ids),
            hovers=tuple(self.hovers),
            colours=tuple(self.colours),
            depth=depth,
        )


def _figure(boxes: _Boxes, depth: int) -> Figure:
    rows = math.ceil(boxes.devices[""] / 16)
    return Figure(name="mesh", series=(boxes.treemap(depth),), height=120 + 30 * min(rows, 14))


def mesh_section(mesh: DeviceMesh, axes: Sequence[str]) -> Section:
    """Where the ranks of a mesh lie, those of one group along some axes in one colour."""
    drawn = min(mesh.cluster.num_devices, MOST_DEVICES)
    shown = (
        f"The first {drawn} of {mesh.cluster.num_devices} devices"
        if drawn < mesh.cluster.num_devices
        else "Devices"
    )
    note = f"{shown} as they lie in the cluster; those of one colour are a group over {', '.join(axes)}."
    blocks: tuple[Block, ...] = (mesh_figure(mesh, axes), Note(note))
    return Section(title="The mesh", blocks=blocks, only="page")


def mesh_figure(mesh: DeviceMesh, axes: Sequence[str]) -> Figure:
    """Boxes of the cluster's levels; a device is labelled with its rank."""
    boxes = _Boxes()
    boxes.add("", "", mesh.cluster.title, mesh.cluster.title)
    groups: dict[tuple[int, ...], str] = {}
    sizes = [
        math.prod(level.size for level in mesh.cluster.levels[: at + 1])
        for at in range(len(mesh.cluster.levels))
    ]
    places = {rank: at for at, rank in enumerate(mesh.ranks)} if mesh.ranks else {}
    for device in range(min(mesh.cluster.num_devices, MOST_DEVICES)):
        parent = ""
        for level, size in reversed(list(zip(mesh.cluster.levels, sizes, strict=True))[:-1]):
            name = f"{parent}/{level.name} {device // size}"
            if name not in boxes.devices:
                boxes.add(
                    name,
                    parent,
                    f"{level.name} {device // size}",
                    f"{level.name} {device // size}: {size} devices",
                )
            parent = name
        rank = places.get(device, device)
        members = mesh.group(axes, device)
        colour = groups.setdefault(members, palette.TURNS[len(groups) % len(palette.TURNS)])
        name = f"{parent}/{device}"
        boxes.add(name, parent, str(rank), _describe(mesh, device, rank, axes, members), colour)
        boxes.count(name)
    return _figure(boxes, len(mesh.cluster.levels) + 1)


def _describe(mesh: DeviceMesh, device: int, rank: int, axes: Sequence[str], members: tuple[int, ...]) -> str:
    stride, coordinates = math.prod(mesh.sizes), []
    for name, size in zip(mesh.names, mesh.sizes, strict=True):
        stride //= size
        coordinates.append(f"{name} {rank // stride % size}")
    told = ", ".join(map(str, members[:_RANKS_TOLD])) + ", …" * (len(members) > _RANKS_TOLD)
    return f"rank {rank}: {', '.join(coordinates)}\ngroup over {', '.join(axes)}: devices {told}"


def groups_figure(found: DiscoveredMesh) -> Figure:
    """Boxes of discovered groups; ranks without a place stand beside them."""
    boxes = _Boxes()
    boxes.add("", "", f"{found.num_ranks} ranks", f"{found.num_ranks} ranks")
    inner: dict[int, str] = {}
    shown = set(found.ranks[:MOST_DEVICES])
    for level, groups in enumerate(found.groups[1:], 1):
        for at, group in enumerate(groups):
            if not shown.intersection(group):
                continue
            parent = inner.get(group[0], "")
            name = f"{parent}/{level}.{at}"
            told = ", ".join(map(str, group[:_RANKS_TOLD])) + ", …" * (len(group) > _RANKS_TOLD)
            boxes.add(name, parent, f"{found.axes[level - 1].name} {at}", f"{len(group)} ranks: {told}")
            inner |= dict.fromkeys(group, name)
    misfits = {rank for rank in range(found.num_ranks) if rank not in set(found.ranks)}
    for rank in (*found.ranks[:MOST_DEVICES], *sorted(misfits)):
        parent = inner.get(rank, "")
        is_lost = rank in misfits
        colour = palette.RED if is_lost else palette.BLUE
        name = f"{parent}/rank {rank}"
        boxes.add(name, parent, str(rank), f"rank {rank}" + ", without a certain place" * is_lost, colour)
        boxes.count(name)
    return _figure(boxes, len(found.groups) + 1)
