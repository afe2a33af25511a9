"""What ``validate traces`` measures: recordings and real runs of small models, in processes of their own.

All programs of a model run at the same time and take short turns, each step beside probes, so that all can be
stated for one speed of the machine. A model's folder appears when it is whole, so that an interrupted
measurement goes on where it was.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.errors import TraceError
from perfcast.evidence.validate.traces.models import TraceModel
from perfcast.evidence.validate.traces.program import command, program_environment
from perfcast.evidence.validate.traces.turns import Turns
from perfcast.files.reading import read_json
from perfcast.traces.record.launch import Recording, record
from perfcast.traces.record.recorder import Request

#: Batches that are recorded, and that are really run, as multiples of the model's.
RECORDED = (1.0, 3.0)
RUN = (0.5, 1.0, 2.0, 4.0)
#: Steps of a recording with a timeline; turns of each program, half of a recording's before its timeline.
NUM_STEPS, NUM_TURNS = 5, 20
#: A turn is at least this long, and of at least this many steps.
TURN_SECONDS, LEAST_STEPS = 0.15, 1


@dataclass(frozen=True)
class SuitePart:
    """A recording, or a real run, of a model at a batch size.

    ``name`` is of the file with its steps; a recording has a folder of that name as well.
    """

    model: TraceModel
    batch_size: int
    is_recording: bool
    home: Path

    @property
    def name(self) -> str:
        """Within the model's folder."""
        return f"{'recorded' if self.is_recording else 'run'}-{self.batch_size}"

    @property
    def times(self) -> Path:
        """The file with its steps."""
        return self.home / f"{self.name}.json"

    @property
    def folder(self) -> Path:
        """A recording's folder."""
        return self.home / self.name


def parts_of(model: TraceModel, home: Path) -> tuple[SuitePart, ...]:
    """Real runs, then recordings, both from small to large."""
    return (
        *(SuitePart(model, round(model.batch_size * factor), False, home) for factor in RUN),
        *(SuitePart(model, round(model.batch_size * factor), True, home) for factor in RECORDED),
    )


def measure(model: TraceModel, folder: Path, say: Callable[[str], None] = lambda text: None) -> None:
    """Record and run a model; nothing where that was done before.

    Raises:
        TraceError: A program failed.
    """
    home = folder / model.name
    if home.exists():
        return
    say(f"{model.name}: running and recording")
    unfinished = home.with_name(home.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    _take_turns(parts_of(model, unfinished))
    unfinished.rename(home)


def turn_steps(usual_seconds: float) -> int:
    """Steps of a turn, by what one usually takes."""
    return max(LEAST_STEPS, round(TURN_SECONDS / usual_seconds))


def _take_turns(parts: Sequence[SuitePart]) -> None:
    runs = [part for part in parts if not part.is_recording]
    recordings = [part for part in parts if part.is_recording]
    turns = Turns()
    with (
        _variables({**program_environment(), **turns.environment}),
        _running(runs) as programs,
        ThreadPoolExecutor(len(recordings)) as pool,
        turns,
    ):
        turns.await_programs(len(runs))
        lengths = {part.name: turn_steps(turns.usual_seconds[part.name]) for part in runs}
        usual = turns.usual_seconds[_of_batch(runs, runs[0].model.batch_size).name]
        futures = []
        for part in recordings:
            lengths[part.name] = turn_steps(usual * part.batch_size / part.model.batch_size)
            futures.append(pool.submit(_record, part, lengths[part.name]))
        turns.await_programs(len(parts))
        for _ in range(NUM_TURNS):
            for part in parts:
                turns.give(part.name, lengths[part.name])
        for part in parts:
            turns.end(part.name)
        _check_ended(runs, programs, recordings, futures)


def _of_batch(parts: Sequence[SuitePart], batch_size: int) -> SuitePart:
    return next(part for part in parts if part.batch_size == batch_size)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Variables for programs that start meanwhile."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _running(parts: Sequence[SuitePart]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Started programs; those that still run afterwards are ended."""
    programs = [subprocess.Popen(command(p.model.name, p.batch_size, p.times)) for p in parts]
    try:
        yield programs
    finally:
        for program in programs:
            program.terminate()


def _record(part: SuitePart, num_steps: int) -> Recording:
    """With as many plain steps as there are in its turns, half of them before the timeline."""
    request = Request(
        str(part.folder), num_steps=NUM_STEPS, num_timed=NUM_TURNS // 2 * num_steps, num_skipped=5
    )
    return record(command(part.model.name, part.batch_size, part.times), request)


def _check_ended(runs: Sequence[SuitePart], programs: Sequence[subprocess.Popen[bytes]],
                 recordings: Sequence[SuitePart], futures: Sequence[Future[Recording]]) -> None:  # fmt: skip
    for part, program in zip(runs, programs, strict=True):
        if program.wait():
            raise TraceError(f"{part.model.name} failed at a batch of {part.batch_size}")
    for part, future in zip(recordings, futures, strict=True):
        found = future.result()
        problems = [rank.problem for rank in found.ranks if rank.problem]
        if found.exit_code or problems or len(found.ranks) != part.model.num_ranks:
            raise TraceError(
                f"{part.model.name} was not recorded at a batch of {part.batch_size}: {problems}"
            )


@dataclass(frozen=True)
class StepTimes:
    """Steps that one program timed, as its file holds them: seconds, and the turn of each."""

    batch_size: int
    wall: list[float]
    processor: list[float]
    probes: list[list[float]]
    turns: list[int]


def read_times(part: SuitePart) -> StepTimes:
    """The steps of a part that is done."""
    found: Any = read_json(part.times, what="the times of a part")
    return StepTimes(**found)
