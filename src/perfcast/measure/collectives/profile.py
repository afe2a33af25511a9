"""A cluster profile from real processes: launched here, or started by torchrun or Slurm.

Finished measurements lie in a file beside the profile; a run that was interrupted, or in which a process
died, is continued by running it again.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from perfcast.cost.cluster_profile import AxisProfile, ClusterProfile, fit_axes, save_cluster_profile
from perfcast.errors import CalibrationError, InputError
from perfcast.files.records import count_lines, open_records, read_records
from perfcast.files.writing import write_text_atomically
from perfcast.measure.collectives import store
from perfcast.measure.collectives.environment import Place
from perfcast.measure.collectives.launch import first_sentence, local_environment, run_together
from perfcast.measure.collectives.plan import ProfilePlan
from perfcast.ranges import LAUNCHED


def profile_here(
    plan: ProfilePlan, path: Path, console: Console | None = None, restart: bool = False
) -> ClusterProfile:
    """Launch the plan's ranks on this machine, measure what is missing, fit, and write the profile.

    Args:
        path: Of the profile; measurements lie beside it.
        console: For a progress bar; None shows nothing.
        restart: Begin anew; earlier measurements stay beside, as ``.old``.

    Raises:
        CalibrationError: A rank died, or measurements cannot be fitted; what is finished is kept.
        InputError: NCCL with fewer GPUs than ranks, more ranks than one machine runs, or another process
            measures into the same file.
    """
    LAUNCHED.check("--ranks", plan.world_size)
    _check_devices(plan)
    measurements = store.measurements_path(path)
    with open_records(measurements, store.KIND, restart=restart) as file:  # rank 0 is who writes to it
        records = _of_plan(plan, file.records)
    if {record.key for record in records} != plan.keys() or store.refused_keys(records):
        _launch(plan, measurements, len(records), console)
    return fit_profile(plan, path)


def _launch(plan: ProfilePlan, measurements: Path, num_done: int, console: Console | None) -> None:
    before = count_lines(measurements)
    with tempfile.TemporaryDirectory(prefix="perfcast-") as name, _progress(console) as bar:
        folder = Path(name)
        job = {
            "plan": plan.to_json(),
            "measurements": str(measurements.resolve()),
            "init_method": (folder / "rendezvous").as_uri(),
        }
        write_text_atomically(folder / "plan.json", json.dumps(job))
        program = [sys.executable, "-m", "perfcast.measure.collectives.worker", str(folder / "plan.json")]
        commands = [[*program, str(rank)] for rank in range(plan.world_size)]
        advance = _bar_setter(bar, plan)
        try:
            run_together(
                commands,
                folder,
                local_environment(),
                lambda: advance(num_done + count_lines(measurements) - before),
            )
        except CalibrationError as error:
            raise CalibrationError(f"{error}; the others were stopped; {_kept(measurements, plan)}") from None


def profile_as_rank(
    plan: ProfilePlan, place: Place, path: Path, console: Console | None = None
) -> ClusterProfile | None:
    """Be one rank of those that a launcher started; rank 0 writes the profile and returns it.

    Raises:
        CalibrationError: Another rank stopped answering, or measurements cannot be fitted.
        InputError: The plan is for another number of ranks.
    """
    from perfcast.measure.collectives.worker import Worker

    if place.world_size != plan.world_size:
        raise InputError(
            f"{place.launcher} started {place.world_size} ranks, but the mesh {plan.mesh} has "
            f"{plan.world_size}"
        )
    measurements = store.measurements_path(path)
    shown = console if place.rank == 0 else None
    count = len(store.load_records(measurements, plan.setup())) if place.rank == 0 else 0
    with _progress(shown) as bar:
        advance = _bar_setter(bar, plan)

        def on_chunk(finished: int) -> None:
            nonlocal count
            count += finished
            advance(count)

        try:
            worker = Worker(plan, place.rank, place.local_rank, place.init_method)
            worker.measure(measurements, on_chunk)
            worker.close()
        except (RuntimeError, OSError) as error:
            reason = first_sentence(str(error))
            raise CalibrationError(
                f"rank {place.rank} lost the others ({reason}); {_kept(measurements, plan)}"
            ) from None
    return fit_profile(plan, path) if place.rank == 0 else None


def fit_profile(plan: ProfilePlan, path: Path) -> ClusterProfile:
    """Fit what has been measured of a plan, and write the profile.

    Raises:
        CalibrationError: Measurements are missing or cannot be fitted.
    """
    samples = [record.sample() for record in _load_of_plan(plan, store.measurements_path(path))]
    if not samples:
        raise CalibrationError(f"nothing was measured of the mesh {plan.mesh}; run the profile")
    fits = fit_axes(samples)
    fits.check()
    measured = {axis.name: axis for axis in fits.axes}
    profile = ClusterProfile(
        name=platform.node(),
        backend=plan.backend,
        world_size=plan.world_size,
        axes=tuple(measured.get(axis.name, AxisProfile(axis.name, axis.size, {})) for axis in plan.axes),
        source=f"torch.distributed, {plan.setup()}; all groups of an axis at once",
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        refused=fits.refused,
    )
    save_cluster_profile(profile, path)
    return profile


def _of_plan(plan: ProfilePlan, records: Iterable[store.Record]) -> list[store.Record]:
    wanted = plan.keys()
    return [record for record in store.that_count(records, plan.setup()) if record.key in wanted]


def _load_of_plan(plan: ProfilePlan, measurements: Path) -> list[store.Record]:
    return _of_plan(plan, read_records(measurements, store.KIND).records)


def _kept(measurements: Path, plan: ProfilePlan) -> str:
    count = len(store.load_records(measurements, plan.setup()))
    return f"{count} measurements are kept in {measurements}; run the same command again to go on"


def _check_devices(plan: ProfilePlan) -> None:
    if plan.backend != "nccl":
        return
    import torch

    if torch.cuda.device_count() < plan.world_size:
        raise InputError(
            f"NCCL needs a GPU for each of {plan.world_size} ranks, and PyTorch sees "
            f"{torch.cuda.device_count()}; use --backend gloo, fewer ranks, or torchrun over several machines"
        )


def _progress(console: Console | None) -> AbstractContextManager[Progress | None]:
    if console is None:
        return nullcontext()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console)


def _bar_setter(bar: Progress | None, plan: ProfilePlan) -> Callable[[int], None]:
    if bar is None:
        return lambda completed: None
    task = bar.add_task("measuring", total=len(plan.keys()))
    return lambda completed: bar.update(task, completed=min(completed, len(plan.keys())))
