"""``'fat-tree:radix=64,oversubscription=2'`` → a fabric."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfcast.errors import PlanError, UnknownNameError
from perfcast.ranges import Range, excerpt, read_number, read_whole
from perfcast.simulate.network.fabrics.dragonfly import Dragonfly
from perfcast.simulate.network.fabrics.fat_tree import FatTree
from perfcast.simulate.network.fabrics.interface import Fabric
from perfcast.simulate.network.fabrics.rail_optimised import RailOptimised
from perfcast.simulate.network.fabrics.star import Star
from perfcast.simulate.network.fabrics.torus import Torus
from perfcast.units import MICRO

#: Ports of a switch, routers of a group, sizes of a torus; latencies; devices over links upwards.
_COUNT = Range(1, 65_536, "no switch has more ports, no group more routers")
_MICROSECONDS = Range(0, 1_000_000, "microseconds of one hop")
_RATIO = Range(0, 10_000, "such as 2 for 2:1", is_above=True)
_MOST_DIMS = 8


class _Options:
    """What stands behind the colon; each option is asked for once, and what is left over is wrong."""

    def __init__(self, text: str, given: Mapping[str, str]) -> None:
        self._text, self._left = text, dict(given)

    def take(self, name: str, default: str | None = None) -> str:
        value = self._left.pop(name, default)
        if value is None:
            raise PlanError(f"network '{self._text}' needs {name}=…")
        return value

    def number(self, name: str, default: str | None = None) -> float:
        return self._numbers(name, [self.take(name, default)], _MICROSECONDS)[0]

    def count(self, name: str, default: str | None = None) -> int:
        return read_whole(self._of(name), self.take(name, default), _COUNT, PlanError)

    def numbers(self, name: str) -> tuple[float, ...]:
        value = self.take(name, "")
        return self._numbers(name, value.split("/"), _RATIO) if value else ()

    def shape(self, name: str) -> tuple[int, ...]:
        value = self.take(name)
        parts = value.lower().split("x")
        if len(parts) > _MOST_DIMS or not all(part.isascii() and part.isdecimal() for part in parts):
            raise PlanError(f"{self._of(name)} must be such as 4x4x8, not {excerpt(value)}")
        return tuple(read_whole(self._of(name), part, _COUNT, PlanError) for part in parts)

    def switch(self, name: str) -> bool:
        value = self.take(name, "1")
        if value not in ("0", "1"):
            raise PlanError(f"{self._of(name)} must be 0 or 1, not {excerpt(value)}")
        return value == "1"

    def done(self) -> None:
        if self._left:
            raise PlanError(f"network '{self._text}' has no {', '.join(sorted(self._left))}")

    def _numbers(self, name: str, values: list[str], allowed: Range) -> tuple[float, ...]:
        return tuple(read_number(self._of(name), value, allowed, PlanError) for value in values)

    def _of(self, name: str) -> str:
        return f"network {excerpt(self._text)}: {name}"


def _fat_tree(options: _Options) -> Fabric:
    return FatTree(
        options.count("radix", "64"),
        options.numbers("oversubscription"),
        options.number("hop_us", "0") * MICRO,
    )


def _rail_optimised(options: _Options) -> Fabric:
    return RailOptimised(
        options.count("radix", "64"),
        options.numbers("oversubscription"),
        options.number("hop_us", "0") * MICRO,
        has_spines=options.switch("spines"),
        has_relays=options.switch("relays"),
    )


def _dragonfly(options: _Options) -> Fabric:
    return Dragonfly(
        options.count("devices"),
        options.count("routers"),
        options.count("global"),
        options.number("local_us", "0") * MICRO,
        options.number("global_us", "0") * MICRO,
    )


FABRICS: dict[str, Callable[[_Options], Fabric]] = {
    "star": lambda options: Star(),
    "fat-tree": _fat_tree,
    "rail-optimised": _rail_optimised,
    "dragonfly": _dragonfly,
    "torus": lambda options: Torus(options.shape("shape")),
}


def parse_fabric(text: str) -> Fabric:
    """A fabric from its name and options.

    ``star``; ``fat-tree`` and ``rail-optimised`` with ``radix``, ``oversubscription`` (``2`` or ``2/1``: of
    leaves, then of the tier above) and ``hop_us``, the latter also with ``spines`` and ``relays`` (0 or 1);
    ``dragonfly`` with ``devices`` of a router, ``routers`` of a group, ``global`` links of a router,
    ``local_us`` and ``global_us``; ``torus`` with ``shape`` (``4x4x8``).

    Raises:
        UnknownNameError: Another name.
        PlanError: An option that the fabric does not have, lacks, or cannot read.
    """
    name, _, rest = text.partition(":")
    if name not in FABRICS:
        raise UnknownNameError("network", name, FABRICS, f"Networks: {', '.join(FABRICS)}.")
    pairs = [part.partition("=") for part in rest.split(",") if part]
    options = _Options(text, {key.strip(): value.strip() for key, _, value in pairs})
    fabric = FABRICS[name](options)
    options.done()
    return fabric
