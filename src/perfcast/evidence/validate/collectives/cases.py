"""Lines of measured collectives as cases: what was exchanged, by which group of which cluster, how long."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from perfcast.catalogs.devices import load_device_entries
from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.collective import COLLECTIVES, bus_factor
from perfcast.core.machine.cluster import Link
from perfcast.errors import InputError
from perfcast.evidence.dataset.table import find_tables, read_frame, stem_of
from perfcast.evidence.dataset.words import decode, encode, join_words, word_column
from perfcast.evidence.validate.collectives.systems import Placed, cluster_name, place
from perfcast.evidence.validate.kernels.cases import Cases
from perfcast.evidence.validate.sampling import hash_rows
from perfcast.units import GIB, GIGA, KILO, MEGA, MICRO

TABLES = ("collectives", "published_sweeps")
_WORDS = ("collective", "dtype", "library_version", "interconnect", "notes")
_MEASURED = ("time_us", "busbw_GBps", "algbw_GBps", "stat")
_NAMES = {
    "alltoall": "all_to_all",
    "send_recv": "send",
    "sendrecv": "send",
    "gather": "gather_to_root",
    "scatter": "scatter_from_root",
}
#: Switches add and compare numbers of these types only; others go around a ring.
_NOT_REDUCIBLE = ("int8", "uint8", "fp8", "nvls off", "nvls_enable=0", "(ring)")
_CUSTOM = re.compile(r"custom all-reduce", re.IGNORECASE)
#: Smallest and largest message that targets speak of.
LEAST_BYTES, MOST_BYTES = KILO, 8.0 * GIB


@dataclass(frozen=True, eq=False)
class CollectiveCases:
    """Cases with what prices them; arrays of shape [n].

    Attributes:
        placed: Index into ``places``; -1 where a case has a reason.
        collectives: Code of the collective, -1 where unknown.
        curves: Number of the sweep over sizes that a case belongs to.
    """

    cases: Cases
    places: tuple[Placed, ...]
    placed: Integers
    collectives: Integers
    message_bytes: Floats
    reducible: Flags
    curves: Integers

    def __len__(self) -> int:
        return len(self.placed)

    def take(self, index: Integers) -> CollectiveCases:
        """The cases that ``index`` selects."""
        return CollectiveCases(
            cases=self.cases.take(index),
            places=self.places,
            placed=self.placed[index],
            collectives=self.collectives[index],
            message_bytes=self.message_bytes[index],
            reducible=self.reducible[index],
            curves=self.curves[index],
        )

    @property
    def dies(self) -> Objects:
        """Die of each case's device; '' where there is no place."""
        entries = load_device_entries()
        names = [entries[place.cluster.device].device.die for place in self.places]
        dies: Objects = np.array([*names, ""], dtype=object)[self.placed]
        return dies

    def quality(self) -> Objects:
        """'above peak' where the time is below what the group's narrowest link takes for the bytes; [n]."""
        verdict = np.full(len(self), "", dtype=object)
        for number, placed in enumerate(self.places):
            rows = np.flatnonzero(self.placed == number)
            links = zip(placed.cluster.levels, placed.span, strict=True)
            rates = [_most(level.link) for level, members in links if members > 1]
            if len(rows) and rates:
                sizes = np.full(len(rows), float(np.prod(placed.span)))
                factors = bus_factors(self.cases.operation[rows], sizes)
                sent = self.message_bytes[rows] * np.minimum(factors, 1.0)
                fastest = sent / max(rates)
                verdict[rows[self.cases.seconds[rows] < fastest]] = "above peak"
        return verdict

    def labels(self) -> dict[str, Objects]:
        """What the summary goes by, beside device and operation: system, group and range of sizes."""
        systems = [f"{p.cluster.name}, {'x'.join(map(str, p.span))}" for p in self.places]
        names = [p.cluster.name for p in self.places]
        known = self.placed >= 0

        def look(words: list[str]) -> Objects:
            values: Objects = np.array([*words, ""], dtype=object)[np.where(known, self.placed, len(words))]
            return values

        inside = (self.message_bytes >= LEAST_BYTES) & (self.message_bytes <= MOST_BYTES)
        return {
            "system": look(names),
            "group": look(systems),
            "sizes": np.where(inside & known, "1 KB to 8 GB", "").astype(object),
            "collection": word_column(
                self.cases.columns, ("source_repo" if self.cases.table == TABLES[0] else "source",)
            ),
            "message": _size_words(self.message_bytes, known),
        }


def _most(link: Link) -> float:
    return max((link.bytes_per_second, link.port_bytes_per_second, *link.ring_bytes_per_second))


def read_collectives(places: Sequence[Path]) -> list[CollectiveCases]:
    """All cases of the tables of collectives in some folders, or in files named themselves.

    Raises:
        InputError: A place that holds no such table, or a file that cannot be read or lacks columns.
    """
    return [_cases_of(stem, path) for place in places for stem, path in _files(Path(place)).items()]


def _files(place: Path) -> dict[str, Path]:
    found = {stem_of(path): path for path in find_tables([place], TABLES)}
    if not found:
        raise InputError(
            f"{place} holds no table of collectives; expected collectives.parquet or {TABLES[1]}.csv"
        )
    return found


def _cases_of(stem: str, path: Path) -> CollectiveCases:
    frame = read_frame(path)
    device_column = "gpu" if "gpu" in frame.columns else "system"
    for column in (device_column, "collective", "num_gpus", "num_nodes", "size_bytes"):
        if column not in frame.columns:
            raise InputError(f"{path}: no column '{column}'")
    columns = frame.select([name for name in frame.columns if name not in _MEASURED])
    words = {name: word_column(frame, (name,)) for name in _WORDS}
    device, operation = word_column(frame, (device_column,)), _operations(words["collective"])
    numbers = {name: _numbers(frame, name) for name in ("num_gpus", "num_nodes", "size_bytes")}
    codes = _codes(operation)
    found, placed = _places(device, words["interconnect"], words["notes"], numbers)
    reason = _reasons(codes, placed, numbers, _custom(words["notes"]))
    reducible = _reducible(device, words["collective"], words["dtype"])
    device = np.array([text.replace(" ", "_") for text in device.tolist()], dtype=object)
    rows = np.arange(frame.height, dtype=np.int64)
    cases = Cases(
        table=stem,
        kind="collective",
        kernels=None,
        rows=rows,
        expands=False,
        device=device,
        catalog_device=_catalog_devices(found, placed),
        operation=operation,
        dtype=words["dtype"],
        framework=words["library_version"],
        seconds=_seconds(frame, operation, numbers),
        reason=reason,
        columns=columns,
        source=stem,
        strata=join_words(stem, device, operation, words["dtype"], words["library_version"]),
        keys=hash_rows(stem, rows, words["library_version"]),
    )
    usable = reason == ""
    return CollectiveCases(
        cases,
        found,
        np.where(usable, placed, -1),
        np.where(usable, codes, -1),
        numbers["size_bytes"],
        reducible,
        _curves(frame, columns),
    )


def _reducible(*columns: Objects) -> Flags:
    """Whether a switch may add up what is sent, as the words of a row say."""
    texts = (" ".join(row).lower() for row in zip(*columns, strict=True))
    return np.array([not any(mark in text for mark in _NOT_REDUCIBLE) for text in texts], dtype=np.bool_)


def _numbers(frame: pl.DataFrame, name: str) -> Floats:
    """NaN where the column is empty or not a number."""
    return frame[name].cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy().astype(np.float64)


def _operations(words: Objects) -> Objects:
    """'alltoall' → 'all_to_all', 'all_reduce (out-of-place)' → 'all_reduce'."""
    different, codes = encode(words)
    plain = [re.sub(r"\s*\(.*\)$", "", word).strip().lower().replace("-", "_") for word in different]
    return np.array([_NAMES.get(word, word) for word in plain], dtype=object)[codes]


def _codes(operations: Objects) -> Integers:
    different, codes = encode(operations)
    known = [COLLECTIVES.index(word) if word in COLLECTIVES else -1 for word in different]
    return np.array(known, dtype=np.int64)[codes]


def _custom(notes: Objects) -> Flags:
    different, codes = encode(notes)
    return np.array([_CUSTOM.search(word) is not None for word in different], dtype=np.bool_)[codes]


def _places(
    device: Objects, interconnect: Objects, notes: Objects, numbers: dict[str, Floats]
) -> tuple[tuple[Placed, ...], Integers]:
    """The different places, and the index of each row's; -1 where the system or the group is not known."""
    likely = np.array([text if "gpu model" in text.lower() else "" for text in notes.tolist()], dtype=object)
    systems, codes = encode(device + " " + interconnect + " " + likely)
    keys = np.stack([codes, np.nan_to_num(numbers["num_gpus"]), np.nan_to_num(numbers["num_nodes"])], axis=1)
    different, index = np.unique(keys.astype(np.int64), axis=0, return_inverse=True)
    found: list[Placed] = []
    number_of = []
    for code, gpus, nodes in different.tolist():
        name = cluster_name(systems[code], nodes)
        placed = place(name, gpus, nodes) if name and gpus and nodes else None
        number_of.append(len(found) if placed else -1)
        if placed:
            found.append(placed)
    return tuple(found), np.array(number_of, dtype=np.int64)[index.ravel()]


def _reasons(
    codes: Integers,
    placed: Integers,
    numbers: dict[str, Floats],
    custom: Flags,
) -> Objects:
    """Why a case has no forecast; the first that applies."""
    reason = np.where(placed < 0, "unknown device", "").astype(object)
    for name, values in numbers.items():
        reason[~(values > 0)] = f"incomplete: {name}"
    reason[(codes < 0) | custom] = "unsupported operation"
    return reason


def _seconds(frame: pl.DataFrame, operations: Objects, numbers: dict[str, Floats]) -> Floats:
    """Measured; from the bus bandwidth where no time is given; NaN without either."""
    seconds = _numbers(frame, "time_us") * MICRO
    if "busbw_GBps" not in frame.columns:
        return seconds
    factor = bus_factors(operations, numbers["num_gpus"])
    with np.errstate(divide="ignore", invalid="ignore"):
        derived = numbers["size_bytes"] * factor / (_numbers(frame, "busbw_GBps") * GIGA)
    return np.where(seconds > 0, seconds, np.where(np.isfinite(derived), derived, np.nan))


def bus_factors(operations: Objects, group_sizes: Floats) -> Floats:
    """Bus bandwidth times seconds over message bytes of each case, shape [n]."""
    factors = np.ones(len(operations))
    for name in set(operations.tolist()):
        rows = operations == name
        factors[rows] = bus_factor(name, group_sizes[rows])
    return factors


def _catalog_devices(places: tuple[Placed, ...], placed: Integers) -> Objects:
    names: Objects = np.array([*(p.cluster.device for p in places), ""], dtype=object)
    return names[placed]


def _curves(frame: pl.DataFrame, columns: pl.DataFrame) -> Integers:
    """Rows that differ in nothing but the size (and the notes on a run's spread) are one sweep."""
    keep = [n for n in columns.columns if n not in ("size_bytes", "id", "notes", "row")]
    joined = frame.select(
        pl.concat_str([pl.col(n).cast(pl.String).fill_null("") for n in keep], separator="|")
    )
    return encode(decode(joined.to_series()))[1]


def _size_words(sizes: Floats, known: Flags) -> Objects:
    """'≤ 32 KB' and so on: where latency, protocols and bandwidth decide."""
    bounds = np.array([32 * KILO, MEGA, 32 * MEGA, GIGA])
    names = np.array(
        ["a) to 32 KB", "b) to 1 MB", "c) to 32 MB", "d) to 1 GB", "e) above 1 GB"], dtype=object
    )
    words = names[np.searchsorted(bounds, np.nan_to_num(sizes))]
    return np.where(known, words, "").astype(object)


def measured_points(
    places: Sequence[Path], cluster: str, span: Sequence[int], collective: str
) -> list[tuple[str, list[float], list[float]]]:
    """Measurements of one collective by equal groups of a cluster, a series for each collection.

    Returns:
        Name, message bytes and bus bytes per second of each series.

    Raises:
        InputError: A place without tables of collectives.
    """
    series = []
    for part in read_collectives(places):
        collection = part.labels()["collection"]
        fits = [p.cluster.name == cluster and p.span == tuple(span) for p in part.places] + [False]
        chosen = np.array(fits)[part.placed] & (part.cases.operation == collective) & (part.cases.seconds > 0)
        for name in dict.fromkeys(collection[chosen].tolist()):
            rows = np.flatnonzero(chosen & (collection == name))
            sizes, seconds = part.message_bytes[rows], part.cases.seconds[rows]
            group = np.full(len(rows), float(np.prod(span)))
            rates = sizes * bus_factor(collective, group) / seconds
            series.append((str(name), sizes.tolist(), rates.tolist()))
    return series
