"""What ``nvidia-smi topo -m`` prints, and the hierarchy of GPUs that it shows.

The table has a row and a column per GPU (and per network card), and in each cell how two of them meet, from
near to far: NV# (# bonded NVLinks), PIX (one PCIe switch), PXB (several), PHB (a PCIe host bridge), NODE
(host bridges of one NUMA node), SYS or SOC (the link between NUMA nodes). Source: the legend that the
program prints below its table.

All NVLinks count as one level, however many are bonded: a hybrid cube-mesh bonds one or two without making
groups of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import InputError
from perfcast.files.reading import read_text
from perfcast.measure.mesh_discovery.assign import cluster_by_odds, level_of_pairs
from perfcast.measure.mesh_discovery.discover import nested_groups
from perfcast.measure.mesh_discovery.found import DiscoveredMesh, unmeasured_axis
from perfcast.measure.mesh_discovery.rounds import all_pairs

#: Ways to meet, near to far.
KINDS = ("nvlink", "pix", "pxb", "phb", "node", "sys")
_OLD_NAMES = {"soc": "sys"}
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_CELL = re.compile(r"^(X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC)$")


@dataclass(frozen=True, slots=True)
class TopologyMatrix:
    """GPUs, and how each two meet: ``kinds[i][j]``, one of ``KINDS``; '' of a GPU with itself."""

    devices: tuple[str, ...]
    kinds: tuple[tuple[str, ...], ...]


def load_topology(path: str | Path) -> TopologyMatrix:
    """Read what ``nvidia-smi topo -m`` printed.

    Raises:
        InputError: No such file, or not such a table.
    """
    text = read_text(path, what="the topology", errors="replace")
    try:
        return parse_topology(text)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from error


def parse_topology(text: str) -> TopologyMatrix:
    """The table of GPUs; network cards, affinities and the legend are passed over.

    Raises:
        InputError: No table, a row missing or cut off, or two cells that contradict each other.
    """
    lines = [_ESCAPES.sub("", line).split() for line in text.splitlines()]
    header = next((line for line in lines if line[:2] == ["GPU0", "GPU1"]), None)
    if header is None:
        raise InputError("no table of two GPUs or more, as 'nvidia-smi topo -m' prints it")
    devices = tuple(word for word in header if re.fullmatch(r"GPU\d+", word))
    if len(set(devices)) != len(devices):
        raise InputError("the header names a GPU twice")
    rows = {}
    for line in lines[lines.index(header) + 1 :]:
        if line and line[0] in devices:
            if line[0] in rows:
                raise InputError(f"two rows of {line[0]}")
            rows[line[0]] = _row(line, len(devices))
    missing = [device for device in devices if device not in rows]
    if missing:
        raise InputError(f"the row of {missing[0]} is missing: the table is cut off")
    kinds = tuple(rows[device] for device in devices)
    for i, first in enumerate(devices):
        for j, second in enumerate(devices):
            if kinds[i][j] != kinds[j][i] or (kinds[i][j] == "") != (i == j):
                raise InputError(f"the cells of {first} and {second} contradict each other")
    return TopologyMatrix(devices, kinds)


def _row(words: list[str], count: int) -> tuple[str, ...]:
    cells = words[1 : count + 1]
    wrong = [cell for cell in cells if not _CELL.match(cell)]
    if wrong or len(cells) < count:
        what = f"'{wrong[0]}' is no way to meet" if wrong else f"{len(cells)} cells instead of {count}"
        raise InputError(f"the row of {words[0]}: {what}")
    lowered = ["nvlink" if cell.startswith("NV") else cell.lower() for cell in cells]
    return tuple("" if cell == "x" else _OLD_NAMES.get(cell, cell) for cell in lowered)


def mesh_of_topology(matrix: TopologyMatrix) -> DiscoveredMesh:
    """Groups that meet at each way or nearer; the axes bear its name, and no figures.

    The confidence is the share of pairs that meet as their groups do: 1 for a true hierarchy, less for a
    hybrid cube-mesh, some of whose NVLinks cross from one group to the other.
    """
    count = len(matrix.devices)
    pairs = np.sort(all_pairs(range(count)), axis=1)
    distances = np.array([KINDS.index(matrix.kinds[i][j]) for i, j in pairs.tolist()])
    used = np.unique(distances)
    labels = np.zeros((len(used), count), dtype=np.int64)
    for row in range(len(used) - 2, -1, -1):
        inside = labels[row + 1, pairs[:, 0]] == labels[row + 1, pairs[:, 1]]
        odds = np.where(distances[inside] <= used[row], 1.0, -1.0)
        labels[row] = cluster_by_odds(count, pairs[inside], odds)
    met = level_of_pairs(labels, pairs)
    kept = np.unique(met)
    labels = labels[kept]
    agreement = float((used[met] == distances).mean())
    groups, shape = nested_groups(labels)
    names = [KINDS[used[level]] for level in kept][::-1]
    sizes = shape or _most_children(labels)
    axes = tuple(unmeasured_axis(name, size) for name, size in zip(names, sizes, strict=True))
    doubts = () if agreement == 1 else (f"{1 - agreement:.0%} of the pairs meet otherwise than their groups",)
    ranks = tuple(rank for group in groups[-1] for rank in group)
    return DiscoveredMesh(count, shape, ranks, groups, axes, agreement, doubts)


def _most_children(labels: Integers) -> tuple[int, ...]:
    below = np.arange(labels.shape[1])
    most = []
    for row in labels:
        most.append(max(len(np.unique(below[row == label])) for label in np.unique(row)))
        below = row
    return tuple(reversed(most))
