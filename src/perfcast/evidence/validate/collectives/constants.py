"""Choosing the constants of collectives on measured tables, with whole dies left out if wanted.

The measurements of a sweep are thinned to one per octave of size (the median rate), and one that stands for w
rows counts √w times. Least squares of log(forecast / measured) with Cauchy's loss, so that systems that no
datasheet explains do not decide. Every constant is held near its start (the shipped figure) by a weak prior,
since some are seen by few measurements.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device_entry
from perfcast.core.arrays import Floats
from perfcast.cost.collective.constants import Constants, parse_constants
from perfcast.errors import InputError
from perfcast.evidence.validate.collectives.cases import LEAST_BYTES, MOST_BYTES, CollectiveCases
from perfcast.evidence.validate.collectives.pricers import price_datasheet

Path = tuple[str, ...]

#: Largest values by the last word of a constant's name, and by its whole name.
_MOST = {"share": 0.9, "network_share": 1.0}
_MOST_OF: Mapping[Path, float] = {
    ("protocol_shares", "ll"): 0.5,  # four bytes of flag for four of data
    ("protocol_shares", "ll128"): 0.9375,  # 120 of 128
    ("patterns", "send", "share"): 1.1,  # with 0.9 of the link: nothing beats the datasheet
}
_FIXED = (
    ("interval",), ("overlap",), ("dispatch",), ("patterns", "dispatch"),
    ("protocol_shares", "simple"), ("links", "mesh"),
    ("patterns", "chain", "share"), ("patterns", "all_to_all", "share"), ("patterns", "switch", "share"),
    *((("links", group, "network_share")) for group in ("pcie", "infiniband", "ethernet", "efa")),
    ("links", "infiniband", "dispatch_share"),
    *((("links", group, "hop_seconds", "ll128")) for group in ("pcie", "ethernet", "efa")),
)  # fmt: skip
_PRIOR, _LOSS_SCALE, _EVALUATIONS, _WEIGHT = 0.01, 0.45, 15, 0.5


def folds_without(
    parts: Sequence[CollectiveCases], leave_out: Sequence[str], say: Callable[[str], None]
) -> Iterator[tuple[str | None, Constants | None]]:
    """The dies to score, each with constants chosen without it; (None, None) where nothing is left out.

    Raises:
        UnknownNameError: Not a device.
        InputError: No measurement of its die.
    """
    if not leave_out:
        yield None, None
        return
    present = sorted({die for part in parts for die in part.dies.tolist() if die})
    wanted = present if "each" in leave_out else [load_device_entry(name).device.die for name in leave_out]
    for die in dict.fromkeys(wanted):
        if die not in present:
            raise InputError(f"no measured collective on die {die}; there are {', '.join(present)}")
        say(f"choosing constants without {die}")
        yield die, fit_constants([part.take(np.flatnonzero(part.dies != die)) for part in parts])


def describe_folds(leave_out: Sequence[str]) -> str:
    """One sentence for the protocol."""
    return (
        f"links of the catalog, and constants chosen on the other systems of these tables: left out "
        f"{', '.join(leave_out)}, all devices of one die at a time"
    )


def fit_constants(parts: Sequence[CollectiveCases]) -> Constants:
    """The constants that explain some measurements best, starting at the shipped ones."""
    from scipy.optimize import least_squares

    content = read_content()
    names = free_constants(content)
    start = np.log([_look(content, name) for name in names])
    most = np.array([_most(name, value) for name, value in zip(names, start, strict=True)])
    start = np.minimum(start, most - 1e-6)
    thinned = [thin(part) for part in parts]

    def residuals(values: Floats) -> Floats:
        constants = parse_constants(with_values(content, names, np.exp(values)))
        errors = [
            weights ** (_WEIGHT / 2)
            * _dampened(np.log(price_datasheet(part, constants).seconds / part.cases.seconds))
            for part, weights in thinned
        ]
        prior = _PRIOR * (values - start) * np.sqrt(sum(map(len, errors))) / 3
        return np.concatenate([*errors, prior])

    found = least_squares(
        residuals,
        start,
        bounds=(start - 4, most),
        diff_step=1e-2,
        max_nfev=_EVALUATIONS,
    )
    return parse_constants(with_values(content, names, np.exp(found.x)))


def _dampened(errors: Floats) -> Floats:
    """Whose squares are Cauchy's loss of the errors: beyond the scale they hardly grow any more."""
    damped: Floats = np.sign(errors) * _LOSS_SCALE * np.sqrt(np.log1p((errors / _LOSS_SCALE) ** 2))
    return damped


def thin(part: CollectiveCases) -> tuple[CollectiveCases, Floats]:
    """One case for each octave of every group of a collection, and how many rows it stands for."""
    inside = (part.message_bytes >= LEAST_BYTES) & (part.message_bytes <= MOST_BYTES)
    usable = np.flatnonzero((part.placed >= 0) & (part.cases.seconds > 0) & inside)
    labels = part.labels()
    octave = np.round(np.log2(part.message_bytes[usable])).astype(int)
    keys = np.array(
        [
            "|".join(map(str, words))
            for words in zip(
                labels["collection"][usable],
                labels["group"][usable],
                part.cases.operation[usable],
                part.reducible[usable],
                octave,
                strict=True,
            )
        ]
    )
    pace = part.cases.seconds[usable] / part.message_bytes[usable]
    order = np.lexsort((pace, keys))
    different, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    chosen = usable[order[first + counts // 2]] if len(different) else usable
    return part.take(chosen), counts.astype(np.float64)


def read_content() -> dict[str, Any]:
    """The shipped file, as tables."""
    text = (resources.files("perfcast.cost.collective") / "constants.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def free_constants(content: Mapping[str, Any]) -> list[Path]:
    """Names of the constants that measurements choose: every number above zero that is not fixed."""
    return [name for name, value in _leaves(content, ()) if value > 0 and not _is_fixed(name)]


def with_values(
    content: Mapping[str, Any], names: Sequence[Path], values: Sequence[float] | Floats
) -> dict[str, Any]:
    """The same tables with other numbers under some names."""
    chosen = dict(zip(names, map(float, values), strict=True))
    return _replaced(content, (), chosen)


def _replaced(table: Mapping[str, Any], at: Path, chosen: Mapping[Path, float]) -> dict[str, Any]:
    return {
        key: _replaced(value, (*at, key), chosen)
        if isinstance(value, Mapping)
        else chosen.get((*at, key), value)
        for key, value in table.items()
    }


def _leaves(table: Mapping[str, Any], at: Path) -> Iterator[tuple[Path, float]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*at, key))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (*at, key), float(value)


def _look(content: Mapping[str, Any], name: Path) -> float:
    value: Any = content
    for key in name:
        value = value[key]
    return float(value)


def _is_fixed(name: Path) -> bool:
    return any(name[: len(fixed)] == fixed for fixed in _FIXED)


def _most(name: Path, start: float) -> float:
    most = _MOST_OF.get(name, _MOST.get(name[-1]))
    return float(np.log(most)) if most else start + 3
