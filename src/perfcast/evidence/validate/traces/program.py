"""One of ``models`` as a program: ``python -m perfcast.evidence.validate.traces.program NAME BATCH FILE``.

A program with two ranks starts a process for each. Its steps are timed in turns that ``trace_turns`` gives
out, beside probes of what the machine has to spare; what records it, if anything, comes from outside. Steps
that are recorded are neither timed nor probed here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from perfcast.evidence.validate.traces.turns import ask_for_turns
from perfcast.files.writing import write_text_atomically
from perfcast.traces.record.recorder import REQUEST_VARIABLE, Request
from perfcast.units import TIB

NUM_WARM_UPS = 4

#: Name of the environment variable that names where ranks meet.
_MEETING = "PERFCAST_TRACE_PROGRAM_MEETING"
#: glibc keeps what was freed for the next step. By default it gives large pieces back to the system, where
#: much it has to take anew depends on what came to lie behind what: in three runs the same step of the same
#: transformer touched 7,700 to 9,700 pages anew, 2.4 to 3.1 µs each, and none at twice the batch.
_KEPT_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(TIB)}


@dataclass
class _Times:
    """Times of each timed step; of two ranks the slower one's, of probes the geometric mean."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    probes: list[list[float]] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)


def command(model: str, batch_size: int, times: Path) -> list[str]:
    """Words that run a model in turns and write the times of its steps."""
    return [
        sys.executable,
        "-m",
        "perfcast.evidence.validate.traces.program",
        model,
        str(batch_size),
        str(times),
    ]


def program_environment() -> Mapping[str, str]:
    """Variables that programs are started with, beside those of this process."""
    return _KEPT_MEMORY


def main(arguments: Sequence[str]) -> int:
    """Run the ranks of a model, or one of them."""
    from perfcast.evidence.validate.traces.models import TRACE_MODELS

    model = next(m for m in TRACE_MODELS if m.name == arguments[0])
    if model.num_ranks == 1 or _MEETING in os.environ:
        _run(model.name, int(arguments[1]), Path(arguments[2]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return _start_ranks(model.num_ranks, list(arguments), folder)


def _start_ranks(num_ranks: int, arguments: list[str], folder: str) -> int:
    words = [sys.executable, "-m", "perfcast.evidence.validate.traces.program", *arguments]
    shared = os.environ | {_MEETING: f"file://{folder}/meeting", "WORLD_SIZE": str(num_ranks)}
    ranks = [subprocess.Popen(words, env=shared | {"RANK": str(rank)}) for rank in range(num_ranks)]
    try:
        return max(rank.wait() for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()


def plain_steps(request: Request | None) -> Iterator[bool]:
    """For each step in turn, whether nothing records it or stands ready to; the last ones are not.

    Without a request it goes on for ever; see ``traces.recorder`` for the order.
    """
    if request is None:
        yield from (True for _ in count())
        return
    yield from [False] * (request.num_skipped + 1 + request.num_steps)
    yield from [True] * request.num_timed
    yield from [False] * (1 + request.num_steps)
    yield from [True] * request.num_timed
    yield from [False] * (2 if request.has_execution_trace else 0)


def _run(name: str, batch_size: int, place: Path) -> None:
    import torch
    import torch.distributed as dist

    from perfcast.evidence.validate.traces.models import TRACE_MODELS
    from perfcast.traces.record.recorder import trace_step

    model = next(m for m in TRACE_MODELS if m.name == name)
    torch.set_num_threads(1)
    if model.num_ranks > 1:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", init_method=os.environ[_MEETING], rank=rank, world_size=size)
    torch.manual_seed(0)
    step = model.build(batch_size)
    text = os.environ.get(REQUEST_VARIABLE)
    request = Request(**json.loads(text)) if text else None
    warm_ups = NUM_WARM_UPS if request is None else 0
    usual = statistics.median([_timed(step)[0] for _ in range(warm_ups)] or [0.0])
    times = _times_in_turns(step, trace_step, plain_steps(request), place.stem, usual)
    if model.num_ranks > 1:
        times = _of_all_ranks(times, model.num_ranks)
    if not dist.is_initialized() or dist.get_rank() == 0:
        write_text_atomically(place, json.dumps({"batch_size": batch_size} | vars(times)), updates=True)
    if dist.is_initialized():
        dist.destroy_process_group()


def _times_in_turns(
    step: Callable[[], None], then: Callable[[], None], is_plain: Iterator[bool], name: str, usual: float
) -> _Times:
    """Take all turns; steps that are recorded come before the first plain one of a turn."""
    from perfcast.measure.embedding.probes import Probes

    clock = time.thread_time if "RANK" not in os.environ else time.perf_counter
    probes, found, following = Probes(clock), _Times(), is_plain
    with closing(_turns(name, usual)) as turns:
        for turn, num_steps in enumerate(turns):
            if not _skip_recorded(step, then, following):
                break
            before = probes.seconds()
            for index in range(num_steps):
                if index and not next(following, False):
                    raise RuntimeError("a turn ends where a recording begins")
                wall, processor = _timed(step)
                then()
                after = probes.seconds()
                found.wall.append(wall)
                found.processor.append(processor)
                found.probes.append(((before * after) ** 0.5).tolist())
                found.turns.append(turn)
                before = after
    if REQUEST_VARIABLE in os.environ:
        _skip_recorded(step, then, following)
    return found


def _skip_recorded(step: Callable[[], None], then: Callable[[], None], following: Iterator[bool]) -> bool:
    """Run what is recorded before the next plain step; whether there is one."""
    for is_plain in following:
        if is_plain:
            return True
        step()
        then()
    return False


def _turns(name: str, usual: float) -> Generator[int]:
    """How many steps to take, turn by turn, the same on all ranks."""
    import torch.distributed as dist

    if not dist.is_initialized():
        yield from ask_for_turns(name, usual)
        return
    own = ask_for_turns(name, usual) if dist.get_rank() == 0 else iter(())
    while True:
        num_steps = [next(own, 0)]
        dist.broadcast_object_list(num_steps, 0)
        if not num_steps[0]:
            return
        yield num_steps[0]


def _timed(step: Callable[[], None]) -> tuple[float, float]:
    """Seconds of a step on the wall and of this process's processor."""
    start, busy = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - start, time.process_time() - busy


def _of_all_ranks(times: _Times, num_ranks: int) -> _Times:
    """Each step's time on the slower rank, and the geometric mean of the probes."""
    import torch
    import torch.distributed as dist

    def joined(values: Any, how: Any) -> Any:
        shared = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(shared, how)
        return shared

    probes = (joined(times.probes, dist.ReduceOp.PRODUCT) ** (1 / num_ranks)).tolist()
    wall = joined(times.wall, dist.ReduceOp.MAX).tolist()
    return _Times(wall, joined(times.processor, dist.ReduceOp.MAX).tolist(), probes, times.turns)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
