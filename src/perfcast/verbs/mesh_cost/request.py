"""Texts of ``perfcast mesh cost``: meshes, and sizes of messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perfcast.errors import InputError
from perfcast.ranges import BYTES, DEVICES, excerpt, read_number, read_whole
from perfcast.units import GIB, GIGA, KIB, KILO, MEGA, MIB, TERA, TIB

if TYPE_CHECKING:
    from perfcast.core.machine.mesh import DeviceMesh

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)\s*([kmgt]?i?b?)", re.IGNORECASE)
_UNITS = {
    "": 1.0, "b": 1.0, "kb": KILO, "mb": MEGA, "gb": GIGA, "tb": TERA,
    "kib": float(KIB), "mib": float(MIB), "gib": float(GIB), "tib": float(TIB),
    "k": float(KIB), "m": float(MIB), "g": float(GIB), "t": float(TIB),
}  # fmt: skip


def parse_mesh(cluster_name: str, shape: str) -> DeviceMesh:
    """A mesh on a cluster; without a number of devices the cluster is as large as the mesh.

    Raises:
        InputError: An unknown cluster, an axis that is not NAME=SIZE, or a shape that does not fit.
    """
    from perfcast.catalogs.clusters import load_cluster
    from perfcast.core.machine.mesh import DeviceMesh

    axes: list[tuple[str, int]] = []
    for item in filter(None, (part.strip() for part in shape.split(","))):
        name, _, size = item.partition("=")
        if not name or not size.isascii() or not size.isdecimal():
            raise InputError(f"--mesh: {excerpt(item)} is not AXIS=SIZE; write for example dp=8,tp=8")
        axes.append((name, read_whole(f"--mesh: {excerpt(item)}:", size, DEVICES)))
    if axes and ":" not in cluster_name:
        count = 1
        for _, size_of_axis in axes:
            count *= size_of_axis
        cluster_name = f"{cluster_name}:{count}"
    cluster = load_cluster(cluster_name)
    axes = axes or [("world", cluster.num_devices)]
    return DeviceMesh(cluster, tuple(name for name, _ in axes), tuple(size for _, size in axes))


def parse_sizes(text: str) -> list[float]:
    """'1GB' → one size; '1KB..1GB' → from the first, doubling, to the last, which is always one of them.

    Raises:
        InputError: Not a size, or a range that falls.
    """
    first, dots, last = text.partition("..")
    least = parse_bytes(first)
    if not dots:
        return [least]
    most = parse_bytes(last)
    if not 0 < least <= most:
        raise InputError(f"--bytes {text}: a range goes from a size above zero to a larger one")
    sizes = []
    while least < most * (1 - 1e-9):
        sizes.append(least)
        least *= 2
    return [*sizes, most]


def says_decimal(text: str) -> bool:
    """Whether sizes are said in MB and the like, not in MiB or plain numbers.

    >>> says_decimal("1KB..1GB"), says_decimal("1MiB"), says_decimal("4096")
    (True, False, False)
    """
    units = [match.group(2).lower() for match in _SIZE.finditer(text) if match.group(2)]
    return bool(units) and all(unit in ("kb", "mb", "gb", "tb") for unit in units)


def parse_bytes(text: str) -> float:
    """'512MiB' → 536870912.0.

    Raises:
        InputError: Not a number with a unit of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = match.group(2).lower() if match else "?"
    if match is None or unit not in _UNITS:
        raise InputError(f"{excerpt(text)} is not a size; write for example 4096, 64KiB or 1GB")
    found = read_number(f"size {excerpt(text)}:", match.group(1), BYTES) * _UNITS[unit]
    BYTES.check(f"size {excerpt(text)}:", found)
    return found
