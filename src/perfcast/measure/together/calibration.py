"""A calibration beside working neighbours: rank 0 measures, the others run the same kernels meanwhile.

Ranks of one machine share its memory and its clocks, so kernels measured alone are faster than in a step that
all ranks run at once. On GPUs each rank has a device of its own, and none needs neighbours.

Run as a program with the file of a job and a rank; see ``collectives.launch``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from perfcast.cost.profile import DeviceProfile, load_local_profile, profile_path
from perfcast.files.looking import path_exists
from perfcast.files.reading import read_json
from perfcast.files.records import count_lines, read_records
from perfcast.files.writing import make_folder, write_text_atomically
from perfcast.measure.collectives.launch import local_environment, run_together
from perfcast.measure.store import calibration_kind, measurements_path
from perfcast.ranges import LAUNCHED

#: Told of the share that is done.
OnShare = Callable[[float], None]

_DONE = "done"


def threads_of_rank(num_ranks: int) -> int:
    """Threads that each of so many ranks may run on this machine's cores, unless the user says else."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() and int(said) else max(1, (os.cpu_count() or 1) // num_ranks)


def crowding_of(num_ranks: int) -> float:
    """Threads of so many ranks for each core of this machine, at least 1."""
    return max(1.0, num_ranks * threads_of_rank(num_ranks) / (os.cpu_count() or 1))


def environment_of_rank(num_ranks: int) -> dict[str, str]:
    """Of the processes of one machine that work side by side."""
    return {**local_environment(), "OMP_NUM_THREADS": str(threads_of_rank(num_ranks))}


def calibrate_together(
    device: str,
    num_ranks: int,
    folder: Path,
    *,
    quick: bool = False,
    restart: bool = False,
    on_share: OnShare = lambda share: None,
) -> DeviceProfile:
    """Measure what is missing, fit, and write the profile, while the other ranks keep the machine busy.

    Args:
        device: 'cpu' or 'cuda'.
        folder: Where measurements and profile lie; what is there already is not measured again, but for
            kernels that looked disturbed in a calibration that was not finished.

    Raises:
        CalibrationError: A process died, or measurements cannot be fitted; what is finished is kept.
    """
    LAUNCHED.check("--ranks", num_ranks)
    known = None if restart else _known(device, num_ranks, folder, quick)
    if known is not None:
        return known
    make_folder(folder)
    count = num_ranks if device == "cpu" else 1
    with tempfile.TemporaryDirectory(prefix="perfcast-") as name:
        place = Path(name)
        job = {"device": device, "quick": quick, "restart": restart, "folder": str(folder.resolve())}
        write_text_atomically(place / "job.json", json.dumps(job))
        commands = [
            [sys.executable, "-m", __name__, str(place / "job.json"), str(rank)] for rank in range(count)
        ]
        total, path = _num_cases(device, quick), measurements_path(device, folder)
        run_together(
            commands,
            place,
            environment_of_rank(num_ranks),
            lambda: on_share(min(1.0, (count_lines(path) if path_exists(path) else 0) / total)),
        )
    return load_local_profile(device, folder)


def _known(device: str, num_ranks: int, folder: Path, quick: bool) -> DeviceProfile | None:
    """The profile of before, where all was measured with this PyTorch and as many threads."""
    if not path_exists(profile_path(device, folder)):
        return None
    profile = load_local_profile(device, folder)
    is_of_this_setup = profile.torch_version == version("torch") and (
        device != "cpu" or profile.num_threads == threads_of_rank(num_ranks)
    )
    records = read_records(measurements_path(device, folder), calibration_kind(device)).records
    is_whole = len({record["key"] for record in records}) >= _num_cases(device, quick)
    return profile if is_of_this_setup and is_whole else None


def _num_cases(device: str, quick: bool) -> int:
    from perfcast.measure.calibrate import num_cases

    return max(1, num_cases(device, quick))


def main(arguments: list[str]) -> None:
    """One process: ``JOB.json RANK``."""
    from perfcast.measure.calibrate import calibrate
    from perfcast.measure.collectives.worker import leave_with_the_parent

    leave_with_the_parent()
    place = Path(arguments[0])
    job: Any = read_json(place, what="the job of a calibration")
    if int(arguments[1]):
        _keep_busy(job["device"], place.with_name(_DONE))
        return
    try:
        calibrate(job["device"], Path(job["folder"]), quick=job["quick"], restart=job["restart"])
    finally:
        write_text_atomically(place.with_name(_DONE), "")


def _keep_busy(device: str, done: Path) -> None:
    """Run the kernels of a quick calibration round and round until rank 0 has finished."""
    import torch

    from perfcast.measure.grid.cases import design
    from perfcast.measure.kernels import prepare

    cases = design(device, True)
    while True:
        for case in cases:
            if path_exists(done):
                return
            call = prepare(case, device)
            with torch.no_grad():
                for _ in range(3):
                    call()


if __name__ == "__main__":
    main(sys.argv[1:])
