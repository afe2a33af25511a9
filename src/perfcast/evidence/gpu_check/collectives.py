"""Collectives between the devices of this machine: measured, fitted, and beside the catalog's forecast."""

from __future__ import annotations

from typing import Any

import torch

from perfcast.catalogs.clusters import load_cluster_entries
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.cost.collective.sweep import sweep_sizes
from perfcast.errors import CalibrationError
from perfcast.evidence.gpu_check.place import Found, LeftOutError, Place
from perfcast.evidence.gpu_check.result import CheckRow
from perfcast.measure.collectives import store
from perfcast.measure.collectives.plan import make_plan
from perfcast.measure.collectives.profile import profile_here
from perfcast.units import KIB, MIB

_MOST_RANKS = 8
#: The first collective of several GPUs sets up all channels, which takes far longer than any after it.
_STALL_SECONDS = 90.0
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def check_collectives(place: Place) -> Found:
    """All devices here, eight at most; two processes and one collective in a dry run."""
    count = 2 if place.is_dry else min(torch.cuda.device_count(), _MOST_RANKS)
    if count < 2:
        raise LeftOutError("one device: collectives need two")
    names = _COLLECTIVES[:1] if place.is_dry else _COLLECTIVES
    least, most = (16 * KIB, MIB // 4) if place.is_dry else (KIB, 256 * MIB)
    plan = make_plan(
        (), count, "gloo" if place.is_dry else "nccl", names, least, most, stall_seconds=_STALL_SECONDS
    )
    path = place.folder / "mesh.json"
    details: dict[str, Any] = {"num_ranks": count}
    try:
        details["profile"] = profile_here(plan, path).to_json()
    except (
        CalibrationError
    ) as error:  # a rank that died, or a curve that nothing fits: what was measured counts
        details["problem"] = str(error)
    records = store.load_records(store.measurements_path(path), plan.setup())
    if not records:
        raise CalibrationError(details["problem"])
    mesh = None if place.is_dry else _mesh(count, place.catalog_name())
    rows = [_row(record, mesh) for record in sorted(records, key=lambda record: record.key)]
    return Found(tuple(rows), details)


def _mesh(count: int, device: str | None) -> DeviceMesh | None:
    """The first cluster of the catalog whose node holds as many of this device; None where there is none."""
    for entry in load_cluster_entries().values():
        if device is not None and entry.device == device and entry.levels[0].size >= count:
            return DeviceMesh(entry.of_size(count), ("world",), (count,))
    return None


def _row(record: store.Record, mesh: DeviceMesh | None) -> CheckRow:
    what = f"{record.collective} of {record.size_bytes} B"
    if mesh is None:
        return CheckRow(what=what, unit="s", measured=record.seconds)
    times = sweep_sizes(mesh, ("world",), record.collective, [record.size_bytes]).times
    return CheckRow(
        what=what, unit="s", measured=record.seconds, forecast=float(times.seconds[0]),
        low=float(times.low[0]), high=float(times.high[0]), note=mesh.cluster.name,
    )  # fmt: skip
