"""``perfcast mesh profile``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.options.numbers import Number, Whole
from perfcast.cli.options.places import OUTPUT_FILE
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.ranges import DEVICES, MESSAGE_BYTES, STALL
from perfcast.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfcast.cost.cluster_profile import ClusterProfile, CollectiveSample
    from perfcast.measure.collectives.environment import Place
    from perfcast.measure.collectives.plan import Axis, ProfilePlan


@click.command(name="profile")
@click.option(
    "--ranks", type=Whole(DEVICES), help="Processes to launch here; left out under torchrun or Slurm."
)
@click.option(
    "--mesh", default="", help="Axes, the slowest first, as in dp=2,tp=2; default: one axis, world."
)
@click.option("--backend", help="gloo or nccl; default: nccl where PyTorch sees a GPU.")
@click.option("--collective", "collectives", multiple=True, help="Measure or read this one; may be repeated.")
@click.option(
    "--least-bytes", type=Whole(MESSAGE_BYTES), default=KIB, show_default=True, help="Smallest message."
)
@click.option(
    "--most-bytes", type=Whole(MESSAGE_BYTES), default=64 * MIB, show_default=True, help="Largest message."
)
@click.option(
    "--stall-seconds", type=Number(STALL), default=25.0, show_default=True, help="Longest wait for a rank."
)
@click.option("--restart", is_flag=True, help="Begin anew; what was measured stays beside (.old).")
@click.option("--from-log", "logs", multiple=True, metavar="FILE", help="Fit a log of nccl-tests instead.")
@click.option(
    "--output", type=OUTPUT_FILE, metavar="FILE", help="The profile; default: in perfcast's data folder."
)
@output_options(html=True)
def profile(
    ranks: int | None,
    mesh: str,
    backend: str | None,
    collectives: tuple[str, ...],
    least_bytes: int,
    most_bytes: int,
    stall_seconds: float,
    restart: bool,
    logs: tuple[str, ...],
    output: str | None,
    outputs: Outputs,
) -> None:
    """Measure collectives along each axis of a mesh on real processes, and fit a profile of the cluster.

    Whatever ends it loses nothing: the next run measures what is missing, and what made no curve. Under
    torchrun or Slurm every rank runs this command and rank 0 writes the profile. With --from-log nothing is
    run: the logs of nccl-tests or rccl-tests are read and fitted.
    """

    if logs:
        found, samples, path = _from_logs(logs, mesh, collectives, ranks, output)
    else:
        sizes = (least_bytes, most_bytes)
        measured = _measure(ranks, mesh, backend, collectives, sizes, stall_seconds, restart, output)
        if measured is None:
            return
        found, samples, path = measured
    _show(found, samples, path, outputs)


def _measure(
    ranks: int | None,
    mesh: str,
    backend: str | None,
    collectives: Sequence[str],
    sizes: tuple[int, int],
    stall_seconds: float,
    restart: bool,
    output: str | None,
) -> tuple[ClusterProfile, list[CollectiveSample], Path] | None:
    """None on ranks other than the first, which have nothing to show."""
    import os

    from perfcast.files.records import set_aside
    from perfcast.measure.collectives.environment import find_place
    from perfcast.measure.collectives.plan import make_plan, parse_mesh
    from perfcast.measure.collectives.profile import profile_as_rank, profile_here
    from perfcast.measure.collectives.store import measurements_path
    from perfcast.printer.boxes import visible_console

    place = None if ranks is not None else find_place(os.environ)
    axes = parse_mesh(mesh)
    count, backend = _count_ranks(ranks, place, axes), backend or _default_backend()
    plan = make_plan(axes, count, backend, collectives, *sizes, stall_seconds=stall_seconds)
    path = _output_path(output, f"cluster_{plan.backend}_{plan.mesh.replace('=', '').replace(',', '_')}.json")
    console = visible_console(is_error=True)
    if place is None:
        return profile_here(plan, path, console, restart), _samples(path, plan), path
    if restart and place.rank == 0:
        set_aside(measurements_path(path))
    found = profile_as_rank(plan, place, path, console)
    return (found, _samples(path, plan), path) if found is not None else None


def _samples(path: Path, plan: ProfilePlan) -> list[CollectiveSample]:
    """What was measured, from the file beside the profile."""
    from perfcast.cost.cluster_profile import CollectiveSample
    from perfcast.measure.collectives.store import load_records, measurements_path

    records = load_records(measurements_path(path), plan.setup())
    return [CollectiveSample(r.axis, r.axis_size, r.collective, r.size_bytes, r.seconds) for r in records]


def _count_ranks(ranks: int | None, place: Place | None, axes: Sequence[Axis]) -> int:
    """As said by --ranks, the launcher or the mesh.

    Raises:
        InputError: None of them says.
    """
    import math

    from perfcast.errors import InputError

    if ranks is not None:
        return ranks
    if place is not None:
        return place.world_size
    if axes:
        return math.prod(axis.size for axis in axes)
    raise InputError("how many ranks? Say --ranks N to launch them here, or run under torchrun or Slurm")


def _default_backend() -> str:
    import torch

    return "nccl" if torch.cuda.is_available() else "gloo"


def _from_logs(
    logs: Sequence[str], mesh: str, collectives: Sequence[str], ranks: int | None, output: str | None
) -> tuple[ClusterProfile, list[CollectiveSample], Path]:
    """Rows of all logs by number of ranks; an axis of --mesh of that size names them.

    Raises:
        InputError: A log that cannot be read, or ranks that no axis or several axes of the mesh have.
    """
    from perfcast.cost.cluster_profile import (
        ClusterProfile,
        CollectiveSample,
        fit_axes,
        save_cluster_profile,
    )
    from perfcast.errors import InputError
    from perfcast.measure.collectives.nccl_tests import load_nccl_log
    from perfcast.measure.collectives.plan import parse_mesh

    if len(collectives) > 1:
        raise InputError("--from-log: one --collective at most, for logs that do not name theirs")
    names: dict[int, list[str]] = {}
    for axis in parse_mesh(mesh):
        names.setdefault(axis.size, []).append(axis.name)
    collective = collectives[0] if collectives else None
    rows = [row for log in logs for row in load_nccl_log(log, collective, ranks)]
    samples = []
    for row in rows:
        found = names.get(row.num_ranks, [] if mesh else [f"ranks{row.num_ranks}"])
        if len(found) != 1:
            raise InputError(f"a log of {row.num_ranks} ranks belongs to {len(found)} axes of --mesh {mesh}; "
                             f"give one axis that size")  # fmt: skip
        samples.append(CollectiveSample(found[0], row.num_ranks, row.collective, row.size_bytes, row.seconds))
    world_size = max(row.num_ranks for row in rows)
    source = f"logs of nccl-tests: {', '.join(logs)}"
    fits = fit_axes(samples)
    fits.check()
    profile = ClusterProfile("log", "log", world_size, fits.axes, source, refused=fits.refused)
    path = _output_path(output, "cluster_log.json")
    save_cluster_profile(profile, path)
    return profile, samples, path


def _output_path(output: str | None, name: str) -> Path:
    from pathlib import Path

    from perfcast.cost.profile import data_folder
    from perfcast.files.writing import check_writable, make_folder

    if output is None:
        make_folder(data_folder())
    path = Path(output) if output else data_folder() / name
    check_writable(str(path))
    return path


def _show(profile: ClusterProfile, samples: Sequence[CollectiveSample], path: Path, outputs: Outputs) -> None:
    from perfcast.report.documents.calibration import profile_document

    write_answer(
        outputs,
        lambda: profile_document(profile, samples),
        profile.to_json,
        written=[str(path)],
        is_exact=True,
    )
