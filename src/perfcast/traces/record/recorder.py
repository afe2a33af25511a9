"""Inside a recorded program: counts steps, and records some of them.

A step ends where the program says so (``trace_step``) or, unless it ever does, where the first optimizer
that steps has stepped. The steps of a run, in this order: some to warm up; a rehearsal; some that are only
timed; some with a timeline; some that are only timed; one with a timeline and an execution trace. Before
each recording, the profiler is readied during a step of its own. The rehearsal is a timeline that is thrown
away: most of what the first one costs is memory that is touched for the first time. Steps that are only
timed stand on both sides of the timeline, so that a machine that grows slower or faster meanwhile is not
taken for what recording costs. The execution trace costs so much that its step would give a wrong picture
of time, which is why it has one to itself.

Everything needed of the outside is an environment variable (``PERFCAST_RECORD``), so that programs that
start others, such as launchers of ranks, need to know nothing.
"""

from __future__ import annotations

import atexit
import gzip
import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, wraps
from pathlib import Path
from typing import Any

from perfcast.traces.record.quiet import quietly

#: Name of the environment variable: a ``Request`` as JSON.
REQUEST_VARIABLE = "PERFCAST_RECORD"
#: Phases whose steps are recorded.
_RECORDED = ("rehearsal", "timeline", "execution trace")


@dataclass(frozen=True)
class Request:
    """What to record: into ``folder``, after ``num_skipped`` steps, ``num_steps`` of them.

    ``has_shapes`` is of the timeline of those steps. Shapes keep small pieces of every tensor alive among
    the program's memory, which then cannot be used again: that costs several times what the timeline
    does. The one step that is recorded with an execution trace always has them.
    """

    folder: str
    num_skipped: int = 5
    num_steps: int = 3
    num_timed: int = 5
    has_shapes: bool = False
    has_execution_trace: bool = True
    stops_after: bool = False

    @property
    def phases(self) -> dict[str, int]:
        """What is done during the steps of a run, in order, with the number of steps of each."""
        return {
            "skipped": self.num_skipped,
            "readied first": 1,
            "rehearsal": self.num_steps,
            "before": self.num_timed,
            "readied": 1,
            "timeline": self.num_steps,
            "after": self.num_timed,
            "readied again": 1 if self.has_execution_trace else 0,
            "execution trace": 1 if self.has_execution_trace else 0,
        }

    @property
    def num_needed(self) -> int:
        """Steps of a whole recording."""
        return sum(self.phases.values())


@dataclass
class _Times:
    """Seconds of each step as the wall and as the process's clock count them."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


class RecordingStopped(SystemExit):
    """Ends a program whose recording is complete, where that was asked for; its exit code is 0."""


class Recorder:
    """The recording of one process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._process = os.getpid()
        self._counts_optimizer = True
        self._is_wrapped = False
        self._num_ended = 0
        self._started: tuple[float, float] | None = None
        self._profiler: Any = None
        self._observer: Any = None
        self._temporary: dict[str, Path] = {}
        self._times = {
            "before": _Times(),
            "timeline": _Times(),
            "execution trace": _Times(),
            "after": _Times(),
        }
        self._problem = ""
        self._is_done = False

    def on_optimizer(self, optimizer: Any, *_: object) -> None:
        """Called at the end of every step of every optimizer, before its own record is closed.

        The first optimizer's ``step`` is wrapped, so that later steps end once that record is closed too.
        """
        if not self._counts_optimizer or self._is_wrapped or os.getpid() != self._process:
            return
        self._is_wrapped = True
        step = optimizer.step

        @wraps(step)
        def counted(*arguments: Any, **options: Any) -> Any:
            result = step(*arguments, **options)
            if self._counts_optimizer and os.getpid() == self._process:
                self._end_step()
            return result

        optimizer.step = counted
        self._end_step()

    def on_step(self) -> None:
        """Called by the program at the end of each step; from then on optimizers do not count."""
        if os.getpid() != self._process:
            return
        if self._counts_optimizer:
            self._counts_optimizer, self._num_ended = False, max(0, self._num_ended - 1)
        self._end_step()

    def _end_step(self) -> None:
        if self._is_done:
            return
        now = (time.perf_counter(), time.process_time())
        phase = self._phase(self._num_ended)
        if self._started is not None and phase in self._times:
            self._times[phase].wall.append(now[0] - self._started[0])
            self._times[phase].processor.append(now[1] - self._started[1])
        self._num_ended += 1
        following = self._phase(self._num_ended)
        if following != phase or phase in _RECORDED:
            self._change(phase, following)
        if self._is_done and self._request.stops_after:
            raise RecordingStopped(0)
        self._started = (time.perf_counter(), time.process_time())

    def _phase(self, step: int) -> str:
        """What is done during a step (counted from 0)."""
        for name, length in self._request.phases.items():
            if step < length:
                return name
            step -= length
        return "done"

    def _change(self, phase: str, following: str) -> None:
        """At a border between steps: start, mark, or end what records."""
        try:
            with quietly():
                self._cross(phase, following)
        except Exception as error:  # the program goes on; what went wrong is reported
            self._problem = f"{type(error).__name__}: {error}"
            self._discard()
            self._finish()

    def _cross(self, phase: str, following: str) -> None:
        if following in _RECORDED and (phase == following or phase.startswith("readied")):
            self._profiler.step()
        elif phase in _RECORDED:
            self._end_profiler({"timeline": "kineto", "execution trace": "linked"}.get(phase))
        if following in ("readied first", "readied"):
            self._start_profiler(self._request.num_steps, None)
        elif following == "readied again":
            self._start_execution_trace()
        elif following == "done":
            self._finish()

    def _start_profiler(self, num_steps: int, observer: Any) -> None:
        """Ready a profiler; it records from the next step on, until it is stopped."""
        import torch
        from torch.profiler import ProfilerActivity, profile, schedule

        from perfcast.torch_internals.eager import ProfilerOptions, is_profiler_enabled

        if is_profiler_enabled():
            raise RuntimeError("the program runs PyTorch's profiler itself; only one can run")
        activities = [ProfilerActivity.CPU]
        has_device = torch.cuda.is_available()
        if has_device:
            torch.cuda.synchronize()
            activities.append(ProfilerActivity.CUDA)
        self._profiler = profile(
            activities=activities,
            record_shapes=self._request.has_shapes or observer is not None,
            execution_trace_observer=observer,
            schedule=schedule(wait=0, warmup=1, active=num_steps + 1),
            experimental_config=ProfilerOptions(enable_cuda_sync_events=has_device),
        )
        self._profiler.start()

    def _start_execution_trace(self) -> None:
        from torch.profiler import ExecutionTraceObserver

        self._observer = ExecutionTraceObserver().register_callback(str(self._place("et")))
        self._start_profiler(1, self._observer)

    def _end_profiler(self, kind: str | None) -> None:
        """Stop, and write what was recorded; of a rehearsal nothing."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        if kind is not None:
            profiler.export_chrome_trace(str(self._place(kind)))
        if self._observer is not None:
            self._observer.unregister_callback()
            self._observer = None

    def _place(self, kind: str) -> Path:
        """A temporary file, renamed when all is whole."""
        place = Path(self._request.folder) / f".perfcast-{self._process}.{kind}.json"
        self._temporary[kind] = place
        return place

    def _finish(self) -> None:
        """Give the files their names, and write down what was done."""
        self._is_done = True
        rank, world_size = _rank()
        folder = Path(self._request.folder)
        stem = f"rank{rank}"
        if (folder / f"{stem}.record.json").exists():
            stem = f"rank{rank}-{self._process}"
        files = {}
        for kind, place in self._temporary.items():
            if place.exists():
                files[kind] = f"{stem}.{kind}.json.gz"
                _compress(place, folder / files[kind])
        self._temporary = {}
        record = {
            "rank": rank,
            "world_size": world_size,
            "process": self._process,
            "files": files,
            "num_steps": len(self._times["timeline"].wall) if "kineto" in files else 0,
            "num_ended": self._num_ended,
            "problem": self._problem,
            "steps_by": "optimizer" if self._counts_optimizer else "trace_step",
            "request": asdict(self._request),
            "seconds": {
                name: {"wall": times.wall, "processor": times.processor}
                for name, times in self._times.items()
            },
        }
        _write(folder / f"{stem}.record.json", json.dumps(record, indent=1))

    def _discard(self) -> None:
        """Stop what records and drop its files."""
        if self._profiler is not None:
            with suppress(Exception), quietly():
                self._profiler.stop()
        if self._observer is not None:
            with suppress(Exception), quietly():
                self._observer.unregister_callback()
        self._profiler = self._observer = None
        for place in self._temporary.values():
            place.unlink(missing_ok=True)
        self._temporary = {}

    def close(self) -> None:
        """The program ends: what was recorded whole is kept, what was under way is dropped."""
        if self._is_done or os.getpid() != self._process or not self._num_ended:
            return
        phase = self._phase(self._num_ended)
        if phase != "after" or self._request.has_execution_trace:
            is_whole = phase in ("after", "readied again", "execution trace")
            kept = {kind: place for kind, place in self._temporary.items() if kind == "kineto" and is_whole}
            self._temporary = {k: v for k, v in self._temporary.items() if k not in kept}
            self._discard()
            self._temporary = kept
            lacking = "the timeline is whole, the execution trace is missing" if kept else "nothing is whole"
            self._problem = (
                f"the program ended after {self._num_ended} of the {self._request.num_needed} steps that a "
                f"recording takes: {lacking}"
            )
        self._finish()


def _rank() -> tuple[int, int]:
    """This process's rank and how many there are."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _compress(source: Path, target: Path) -> None:
    """Pack a file and rename it into its place; the source goes."""
    temporary = source.with_suffix(".gz.tmp")
    with source.open("rb") as plain, gzip.open(temporary, "wb", compresslevel=3) as packed:
        shutil.copyfileobj(plain, packed, 1024 * 1024)
    temporary.replace(target)
    source.unlink()


def _write(target: Path, text: str) -> None:
    temporary = target.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)


@cache
def _recorder() -> Recorder | None:
    """This process's recorder, where recording was asked for."""
    text = os.environ.get(REQUEST_VARIABLE)
    return Recorder(Request(**json.loads(text))) if text else None


def install() -> None:
    """Count the steps of this process's optimizers; called once ``torch.optim`` is there.

    A fork of the process, such as a rank of its own, counts anew.
    """
    if _recorder() is None:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_on_optimizer)
    atexit.register(_close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_recorder.cache_clear)


def _on_optimizer(optimizer: Any, *arguments: object) -> None:
    recorder = _recorder()
    if recorder is not None:
        recorder.on_optimizer(optimizer, *arguments)


def _close() -> None:
    recorder = _recorder()
    if recorder is not None:
        recorder.close()


def trace_step() -> None:
    """Say that a step of the program ends here; does nothing unless the program is being recorded.

    Needed only where no optimizer steps (inference), or where a step is more than one optimizer's.
    """
    recorder = _recorder()
    if recorder is not None:
        recorder.on_step()
