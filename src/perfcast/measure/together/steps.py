"""Whole steps of a parallel program on real processes of this machine, timed by the slowest rank.

The program is built by what builds it for a forecast. One that is not parallel itself is wrapped in
``DistributedDataParallel``, as it is for the forecast (``replicated``). Run as a program with the file of a
job and a rank; see ``collectives.launch``.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from perfcast.cost.profile import load_local_profile
from perfcast.files.reading import read_json
from perfcast.files.writing import write_text_atomically
from perfcast.measure.collectives.launch import run_together
from perfcast.measure.machine import waited_seconds
from perfcast.measure.steps import StepTime, step_of, step_time_of
from perfcast.measure.timer import Samples
from perfcast.measure.together.calibration import environment_of_rank
from perfcast.measure.together.programs import RankedStep, program_of
from perfcast.ranges import LAUNCHED
from perfcast.workload.step import Program

_RESULT = "steps.json"
_WARM_UPS = 3
_LEAST_REPEATS, _MOST_REPEATS = 7, 200


def replicated(program: Program) -> Program:
    """The program with its module's gradients summed over all ranks; as it is where there is one rank."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    if distributed.get_world_size() == 1:
        return program
    device = next((p.device for p in program.module.parameters()), torch.device("cpu"))
    ids = [device.index] if device.type == "cuda" else None
    return replace(program, module=DistributedDataParallel(program.module, device_ids=ids))


@dataclass(frozen=True)
class RankedTime:
    """What ranks took.

    Attributes:
        time: Of the slowest rank of each repeat.
        waited_share: Of that, in which a rank was ready and waited for a processor that another program or
            rank had, the median over repeats of the largest of all ranks; None where the system does not say.
        quiet_seconds: Time less such waits, of the rank that waited most of each repeat, the median: what a
            quiet machine would take; None likewise.
    """

    time: StepTime
    waited_share: float | None = None
    quiet_seconds: float | None = None


def measure_together(step: RankedStep, on_poll: Callable[[], None] | None = None) -> RankedTime:
    """Launch the ranks here and time their steps.

    Raises:
        CalibrationError: A rank died or stalls; the others are stopped.
        InputError: More ranks than one machine runs.
    """
    LAUNCHED.check("--ranks", step.num_ranks)
    with tempfile.TemporaryDirectory(prefix="perfcast-") as name:
        place = Path(name)
        write_text_atomically(place / "job.json", json.dumps(asdict(step)))
        program = [sys.executable, "-m", __name__, str(place / "job.json")]
        commands = [[*program, str(rank)] for rank in range(step.num_ranks)]
        run_together(commands, place, environment_of_rank(step.num_ranks), on_poll)
        found: Any = read_json(place / _RESULT, what="the steps of the ranks")
    samples = Samples()
    repeats: list[list[float]] = found["repeats"]
    for seconds, _, _ in repeats:
        samples.add(float(seconds))
    if not found["knows_waits"]:
        return RankedTime(step_time_of(samples))
    shares = [waited / seconds for seconds, waited, _ in repeats]
    quiet = [own for _, _, own in repeats]
    return RankedTime(step_time_of(samples), statistics.median(shares), statistics.median(quiet))


def main(arguments: list[str]) -> None:
    """One rank: ``JOB.json RANK``."""
    import os

    import torch
    from torch import distributed

    from perfcast.measure.collectives.worker import leave_with_the_parent

    leave_with_the_parent()
    place, rank = Path(arguments[0]), int(arguments[1])
    data: Any = read_json(place, what="the job of a step")
    job = RankedStep(**data)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(job.num_ranks), "LOCAL_RANK": str(rank)}
    is_cuda = job.device == "cuda"
    if is_cuda:
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        "nccl" if is_cuda else "gloo", init_method=place.with_name("rendezvous").as_uri(), rank=rank,
        world_size=job.num_ranks, timeout=timedelta(seconds=job.stall_seconds),
    )  # fmt: skip
    with torch.device(f"cuda:{rank}") if is_cuda else nullcontext():
        repeats = _timed(job)
    if rank == 0:
        said = {"repeats": repeats, "knows_waits": waited_seconds() is not None}
        write_text_atomically(place.with_name(_RESULT), json.dumps(said))
    distributed.barrier()
    distributed.destroy_process_group()


def _nothing() -> None:
    pass


def _timed(job: RankedStep) -> list[list[float]]:
    """Of each repeat: seconds of the slowest rank, longest wait for a processor, least seconds without it.

    All ranks start together and count alike.
    """
    import torch
    from torch import distributed

    torch.manual_seed(0)
    build, options = program_of(job, load_local_profile(job.device, Path(job.profile_folder)))
    program = replicated(build()) if job.is_replicated else build()
    step = step_of(program, job.mode == "train", options.optimizer)
    control = distributed.new_group(backend="gloo")
    synchronize: Callable[[], None] = torch.cuda.synchronize if job.device == "cuda" else _nothing
    found: list[list[float]] = []
    for turn in range(_WARM_UPS + _MOST_REPEATS):
        distributed.barrier(group=control)
        start, before = time.perf_counter(), waited_seconds() or 0.0
        step()
        synchronize()
        seconds, waited = time.perf_counter() - start, (waited_seconds() or 0.0) - before
        together = torch.tensor([seconds, waited, waited - seconds], dtype=torch.float64, device="cpu")
        distributed.all_reduce(together, distributed.ReduceOp.MAX, group=control)
        slowest, longest, least = together.tolist()
        if turn >= _WARM_UPS:
            found.append([slowest, longest, -least])
        if len(found) >= _LEAST_REPEATS and sum(each[0] for each in found) >= job.least_seconds:
            break
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
