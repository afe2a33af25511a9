"""How near to a device the nearest measured ones are: what may be taken over from them, and how sure that is.

    architecture   a device of the same architecture and major compute capability: the very same binaries
    family         one whose matrix units take the same instructions (``core.machine.instructions``)
    vendor         other devices of the vendor alone: the same libraries, other kernels
    elsewhere      the vendor's in other families of kernels alone
    none           nobody's of the vendor, of any kernel

each but the last two of what was measured of an operation in a format. Training leaves devices out in the
same ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from perfcast.core.machine.hardware import Device
from perfcast.core.machine.instructions import find_family, instruction_family

#: (vendor, architecture, compute capability).
Architecture = tuple[str, str, str]
Segment = tuple[str, ...]
Kin = Literal["architecture", "family", "vendor", "elsewhere", "none"]
KINS: tuple[Kin, ...] = get_args(Kin)

#: Arithmetic that runs on ordinary units, for which instruction families say nothing.
_ORDINARY = ("fp32", "fp64")


def architecture_of(device: Device) -> Architecture:
    """(vendor, architecture, compute capability)."""
    return device.vendor, device.architecture, device.compute_capability


def is_alike(one: Architecture, other: Architecture) -> bool:
    """Same architecture and major compute capability: the very same binaries run on both."""
    return one[:2] == other[:2] and one[2].split(".")[0] == other[2].split(".")[0]


def is_kindred(one: Architecture, other: Architecture, on_matrix: bool) -> bool:
    """Alike, or matrix units of both take the same instructions."""
    if is_alike(one, other):
        return True
    return on_matrix and one[0] == other[0] and find_family(*one) == find_family(*other)


def is_on_matrix(segment: Segment) -> bool:
    """Whether a segment's format may run on matrix units."""
    return len(segment) > 1 and not segment[1].startswith(_ORDINARY)


def nearest_kin(one: Architecture, others: Iterable[Architecture], on_matrix: bool) -> Kin:
    """How near the nearest of other architectures is."""
    found: set[Kin] = {"none"}
    for other in others:
        if is_alike(one, other):
            found.add("architecture")
        elif is_kindred(one, other, on_matrix):
            found.add("family")
        elif one[0] == other[0]:
            found.add("vendor")
    return min(found, key=KINS.index)


def nearest_of_family(one: Architecture, others: Sequence[Architecture]) -> Architecture | None:
    """Of the kindred the one whose kernels a library would run on ``one``.

    That of the very architecture; else the newest that is not newer (a library without kernels of its own for
    sm_120 falls back to those of sm_89 before those of sm_80), else the oldest.
    """
    kindred = [other for other in others if is_kindred(one, other, on_matrix=True)]
    if not kindred:
        return None
    alike = [other for other in kindred if is_alike(one, other)]
    if alike:
        return one if one in alike else min(alike, key=_version)
    older = [other for other in kindred if _version(other) <= _version(one)]
    return max(older, key=_version) if older else min(kindred, key=_version)


def describe_kin(device: Device, measured: Sequence[str], architectures: Mapping[str, Architecture]) -> str:
    """What a device's prices rest on, in a sentence without a full stop; '' where it was itself measured.

    Args:
        measured: Names of devices, and in ``architectures`` what each is.
    """
    own, others = architecture_of(device), [architectures[name] for name in measured]
    kindred = [n for n, a in zip(measured, others, strict=True) if is_kindred(own, a, on_matrix=True)]
    if device.name in measured or not measured or device.is_cpu:
        return ""
    if kindred:
        return f"no kernel of {device.name} was measured; {', '.join(kindred)} run the same ones"
    if device.vendor in {vendor for vendor, _, _ in others}:
        return (
            f"no device was ever measured whose matrix units take the instructions of {device.name} "
            f"({instruction_family(device)}): priced from {device.vendor}'s other devices, in a wide interval"
        )
    vendors = " and ".join(sorted({vendor for vendor, _, _ in others}))
    return (
        f"no device of this vendor ({device.vendor}) was ever measured: prices are physics and what devices "
        f"of {vendors} have in common, the interval as wide as one vendor was off when forecast from another"
    )


def _version(architecture: Architecture) -> tuple[int, ...]:
    """Numbers of a compute capability, for order: '8.9' → (8, 9), 'gfx942' → (9, 4, 2)."""
    text = architecture[2]
    if text.startswith("gfx"):
        return tuple(int(digit, 16) for digit in text[3:] if digit in "0123456789abcdef")
    return tuple(int(part) for part in text.split(".") if part.isdigit())
