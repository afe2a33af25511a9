"""What was measured of a cluster's communication: for each axis of a mesh, one curve per collective.

A profile prices a collective on one axis by its curve, and on several axes by composing the axes as a
hierarchical algorithm would (``price_collective``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perfcast.core.arrays import Floats
from perfcast.core.collective import COLLECTIVES
from perfcast.cost.collective_fit import Curve, fit_curve
from perfcast.errors import CalibrationError, UnknownNameError
from perfcast.files.reading import read_json
from perfcast.files.writing import write_text_atomically

SCHEMA = 1


@dataclass(frozen=True)
class AxisProfile:
    """One axis of a mesh, or one level of a cluster.

    Attributes:
        name: For example 'tp', or 'ranks8' of a log.
        size: Ranks of a group along it.
        curves: Seconds over message bytes (the full buffer, see ``core.collective``), by collective.
    """

    name: str
    size: int
    curves: Mapping[str, Curve]


@dataclass(frozen=True, slots=True)
class RefusedCurve:
    """A collective along an axis whose measurements make no curve.

    Attributes:
        reason: Why, as a part of a sentence.
    """

    axis: str
    collective: str
    reason: str


@dataclass(frozen=True)
class ClusterProfile:
    """A cluster as measured.

    Attributes:
        name: Of the cluster, as the one who measured calls it.
        backend: 'gloo', 'nccl', or 'log' where logs were read.
        world_size: Ranks measured together.
        axes: In the mesh's order, the first varying slowest.
        source: How the times came to be, in words.
        measured_at: ISO 8601, UTC; empty where a log does not say.
        refused: What was measured and has no curve.
    """

    name: str
    backend: str
    world_size: int
    axes: tuple[AxisProfile, ...]
    source: str = ""
    measured_at: str = ""
    refused: tuple[RefusedCurve, ...] = ()

    def axis(self, name: str) -> AxisProfile:
        """An axis by its name.

        Raises:
            UnknownNameError: The profile has no such axis.
        """
        for axis in self.axes:
            if axis.name == name:
                return axis
        names = [axis.name for axis in self.axes]
        raise UnknownNameError("profiled axis", name, names, f"Axes: {', '.join(names)}.")

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        axes = [
            {"name": a.name, "size": a.size, "curves": {k: c.to_json() for k, c in a.curves.items()}}
            for a in self.axes
        ]
        rest = {k: getattr(self, k) for k in ("name", "backend", "world_size", "source", "measured_at")}
        return {"schema": SCHEMA, **rest, "axes": axes, "refused": [asdict(each) for each in self.refused]}

    @classmethod
    def from_json(cls, data: Any, where: str = "cluster profile") -> ClusterProfile:
        """Read back what ``to_json`` made.

        Raises:
            CalibrationError: A key is missing, of the wrong type or impossible; says which.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or "axes" not in data:
            raise CalibrationError(
                f"{where}: not a cluster profile of schema {SCHEMA}; `perfcast mesh profile` writes one"
            )
        texts = {key: _take(data, key, str, where) for key in ("name", "backend", "source", "measured_at")}
        axes = tuple(
            _axis(axis, f"{where}: axes[{i}]") for i, axis in enumerate(_take(data, "axes", list, where))
        )
        refused = tuple(
            _refused(each, f"{where}: refused[{i}]")
            for i, each in enumerate(_take({"refused": [], **data}, "refused", list, where))
        )
        return cls(world_size=_count(data, "world_size", where), axes=axes, refused=refused, **texts)


def save_cluster_profile(profile: ClusterProfile, path: str | Path) -> None:
    """Write it as JSON, whole or not at all.

    Raises:
        InputError: The place cannot be written.
    """
    write_text_atomically(path, json.dumps(profile.to_json(), indent=1, allow_nan=False) + "\n")


def load_cluster_profile(path: str | Path) -> ClusterProfile:
    """Read a profile back.

    Raises:
        CalibrationError: There is no such file, or it is broken; says what is wrong.
    """
    data = read_json(path, what="the profile of `perfcast mesh profile`", error=CalibrationError)
    return ClusterProfile.from_json(data, str(path))


@dataclass(frozen=True, slots=True)
class CollectiveSample:
    """One measured time.

    Attributes:
        axis, axis_size: Where: the axis's name, and the ranks of a group along it.
        size_bytes: Of the full buffer.
    """

    axis: str
    axis_size: int
    collective: str
    size_bytes: int
    seconds: float


@dataclass(frozen=True)
class AxisFits:
    """What measurements give: a curve of each collective of each axis, or why there is none."""

    axes: tuple[AxisProfile, ...]
    refused: tuple[RefusedCurve, ...] = ()

    def check(self) -> None:
        """Raises CalibrationError where not one curve was found; says why."""
        if not any(axis.curves for axis in self.axes):
            raise CalibrationError(f"no curve can be fitted: {name_refused(self.refused)}")


def name_refused(refused: Sequence[RefusedCurve]) -> str:
    """'all_reduce along 'tp' (time falls …)', one after the other."""
    return "; ".join(f"{each.collective} along '{each.axis}' ({each.reason})" for each in refused)


def fit_axes(samples: Iterable[CollectiveSample]) -> AxisFits:
    """A curve for every collective of every axis, in the order in which they first come.

    One of too few sizes, whose times fall, or which says nothing of sizes left out of it (``Curve.quality``)
    is refused.
    """
    axes: dict[tuple[str, int], dict[str, list[CollectiveSample]]] = {}
    for sample in samples:
        curves = axes.setdefault((sample.axis, sample.axis_size), {})
        curves.setdefault(sample.collective, []).append(sample)
    found: list[AxisProfile] = []
    refused: list[RefusedCurve] = []
    for (name, size), collectives in axes.items():
        fitted: dict[str, Curve] = {}
        for collective, some in collectives.items():
            try:
                fitted[collective] = fit_curve([s.size_bytes for s in some], [s.seconds for s in some])
            except CalibrationError as error:
                refused.append(RefusedCurve(name, collective, str(error)))
        found.append(AxisProfile(name, size, fitted))
    return AxisFits(tuple(found), tuple(refused))


# ---- prices ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A collective on one axis, of the share 1 / ``divisor`` of the message."""

    axis: AxisProfile
    collective: str
    divisor: int = field(default=1)


def price_collective(
    profile: ClusterProfile, collective: str, axes: Sequence[str], sizes_bytes: ArrayLike
) -> Floats:
    """Seconds of a collective over the joint group of the axes, one for each message size.

    On one axis: its curve. On several, axis by axis, the first of ``axes`` being the outermost (slowest):

    * all-reduce of S: reduce-scatter S inside, all-reduce S / n outside, all-gather S inside;
    * all-gather of S: all-gather S / n outside, then S inside; reduce-scatter: the other way round;
    * all-to-all of S: an all-to-all of S along every axis, one after the other;
    * broadcast, reduce: along every axis, one after the other;

    where n is the number of ranks of the inner axes. An axis of one rank costs nothing.

    Raises:
        UnknownNameError: An axis or a collective that was not measured.
        CalibrationError: Several axes for a collective between two ranks or with a root's split buffer.
    """
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    wanted = [axis for axis in map(profile.axis, axes) if axis.size > 1]
    total = np.zeros_like(sizes)
    for step in _compose(collective, wanted):
        total = total + _curve(step.axis, step.collective).seconds(sizes / step.divisor)
    return total


def price_doubt(profile: ClusterProfile, collective: str, axes: Sequence[str]) -> str:
    """Of what ``price_collective`` takes, how good the worst curve is that is doubtful; '' where none is."""
    wanted = [axis for axis in map(profile.axis, axes) if axis.size > 1]
    curves = [_curve(step.axis, step.collective) for step in _compose(collective, wanted)]
    doubtful = [curve for curve in curves if curve.quality != "good"]
    return max(doubtful, key=lambda curve: curve.held_out_mape).described_quality if doubtful else ""


def _compose(collective: str, axes: Sequence[AxisProfile]) -> list[_Step]:
    """Steps of one collective on axes from the outermost to the innermost."""
    if len(axes) <= 1:
        return [_Step(axis, collective) for axis in axes]
    divisors = [int(np.prod([inner.size for inner in axes[i + 1 :]])) for i in range(len(axes))]
    if collective == "all_reduce":
        inner = list(zip(axes[1:], divisors[1:], strict=True))
        return [
            *(_Step(axis, "reduce_scatter", divisor) for axis, divisor in reversed(inner)),
            _Step(axes[0], "all_reduce", divisors[0]),
            *(_Step(axis, "all_gather", divisor) for axis, divisor in inner),
        ]
    if collective in ("all_gather", "reduce_scatter"):
        return [_Step(axis, collective, divisor) for axis, divisor in zip(axes, divisors, strict=True)]
    if collective in ("all_to_all", "broadcast", "reduce"):
        return [_Step(axis, collective) for axis in axes]
    raise CalibrationError(f"{collective} cannot be composed of several axes; profile them as one axis")


def _curve(axis: AxisProfile, collective: str) -> Curve:
    if collective not in axis.curves:
        measured = ", ".join(axis.curves)
        raise UnknownNameError(
            f"collective measured along '{axis.name}'", collective, axis.curves, f"Measured: {measured}."
        )
    return axis.curves[collective]


# ---- reading -----------------------------------------------------------------------------------


def _axis(data: Any, where: str) -> AxisProfile:
    if not isinstance(data, dict):
        raise CalibrationError(f"{where}: expected an object, found {type(data).__name__}")
    curves = _take(data, "curves", dict, where)
    for collective in curves:
        if collective not in COLLECTIVES:
            raise UnknownNameError(f"collective in {where}", collective, COLLECTIVES)
    return AxisProfile(
        name=_take(data, "name", str, where),
        size=_count(data, "size", where),
        curves={k: Curve.from_json(v, f"{where}: {k}") for k, v in curves.items()},
    )


def _take(data: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if not isinstance(data.get(key), kind):
        raise CalibrationError(f"{where}: '{key}' must be a {kind.__name__}, found {data.get(key)!r:.40}")
    return data[key]


def _refused(data: Any, where: str) -> RefusedCurve:
    if not isinstance(data, dict):
        raise CalibrationError(f"{where}: expected an object, found {type(data).__name__}")
    return RefusedCurve(*(_take(data, key, str, where) for key in ("axis", "collective", "reason")))


def _count(data: Mapping[str, Any], key: str, where: str) -> int:
    value = _take(data, key, int, where)
    if isinstance(value, bool) or value < 1:
        raise CalibrationError(f"{where}: '{key}' is {value}; expected a count")
    return int(value)
