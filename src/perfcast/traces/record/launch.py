"""Recording a program from outside: start it, wait for it, and say what was recorded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perfcast.errors import TraceError
from perfcast.files.reading import read_json
from perfcast.files.writing import make_folder
from perfcast.traces.record.recorder import REQUEST_VARIABLE, Request

_SECONDS_TO_END = 30.0
#: The number of standard error.
_ERRORS = 2
#: Ending of an empty file that names the process of a program that is being recorded.
_RUNNING = ".running"


@dataclass(frozen=True)
class RankRecording:
    """What one process recorded.

    ``files`` by kind: ``kineto`` (the timeline of all steps), ``linked`` and ``et`` (timeline and execution
    trace of one more step). Seconds are medians of steps as the process's clock counts them, or the wall's;
    ``None`` where there was no such step. Of plain steps, those without a timeline, the medians before and
    after the timeline count the same; ``plain_steps_wall_seconds`` are all but the first of each side,
    which begins with what the recorder did. ``num_ended`` are all steps of the program, recorded or not.
    """

    rank: int
    world_size: int
    files: dict[str, Path]
    num_steps: int
    step_seconds: float | None
    step_wall_seconds: float | None
    plain_step_seconds: float | None
    plain_step_wall_seconds: float | None
    execution_trace_step_seconds: float | None
    steps_by: str
    problem: str
    num_ended: int = 0
    plain_steps_wall_seconds: tuple[float, ...] = ()

    @property
    def slow_down(self) -> float | None:
        """How much longer a step with a timeline took, by the process's clock: 0.05 is 5 %."""
        return _longer(self.step_seconds, self.plain_step_seconds)

    @property
    def wall_slow_down(self) -> float | None:
        """The same by the wall's clock."""
        return _longer(self.step_wall_seconds, self.plain_step_wall_seconds)


def _longer(seconds: float | None, than: float | None) -> float | None:
    return seconds / than - 1 if seconds and than else None


@dataclass(frozen=True)
class Recording:
    """All ranks, and how the program ended."""

    ranks: tuple[RankRecording, ...]
    exit_code: int
    is_interrupted: bool = False


def record(command: Sequence[str], request: Request, *, prints_apart: bool = False) -> Recording:
    """Run a command and record its steps.

    Args:
        command: Its words; a lone Python file is run by this Python.
        prints_apart: Whether what it prints goes to standard error.

    Where no rank has a timeline when the program ends, the folder is left as it was.

    Raises:
        TraceError: The command cannot be started, the folder holds a recording or one is being made, or
            nothing was recorded.
    """
    folder = Path(request.folder)
    _prepare(folder)
    process = _start(_words(command), request, prints_apart=prints_apart)
    (folder / f".perfcast-{process.pid}{_RUNNING}").touch()
    exit_code, is_interrupted = _wait(process)
    for left in folder.glob(".perfcast-*"):
        left.unlink(missing_ok=True)
    ranks = ranks_in(folder)
    if any(rank.files for rank in ranks):
        return Recording(ranks, exit_code, is_interrupted)
    for left in folder.glob("*.record.json"):
        left.unlink()
    if not is_interrupted:
        raise TraceError(why_nothing(ranks, request, exit_code))
    return Recording((), exit_code, is_interrupted)


def why_nothing(ranks: Sequence[RankRecording], request: Request, exit_code: int) -> str:
    """Why nothing was recorded, and what to do instead, in one line.

    Args:
        ranks: Of which steps ended, but no timeline was whole.
    """
    ended = f"the command {_ended(exit_code)}"
    if not ranks and exit_code < 0:
        return f"no step was recorded: {ended} and could write nothing down"
    if not ranks:
        return (
            f"no step was recorded: {ended} before any step did. Steps are counted by optimizers; a program "
            "without one calls perfcast.trace_step() at the end of each"
        )
    faults = [rank.problem for rank in ranks if rank.problem and "the program ended" not in rank.problem]
    if faults:
        return f"nothing was recorded: {faults[0]}"
    counted = min(rank.num_ended for rank in ranks)
    steps = f"{counted} step{'s' if counted > 1 else ''}"
    return (
        f"nothing was recorded: {ended} after {steps}, and a recording takes {request.num_needed}: "
        f"{_instead(request, counted)}"
    )


def _ended(exit_code: int) -> str:
    if exit_code < 0:
        names = {int(one): one.name for one in signal.Signals}
        return f"was ended by {names.get(-exit_code, f'signal {-exit_code}')}"
    return f"ended with exit code {exit_code}" if exit_code else "ended"


def _instead(request: Request, num_steps: int) -> str:
    """What to pass so that so many steps are enough, changing as little as possible."""
    least = Request(request.folder, 1, 1, 0, has_execution_trace=False).num_needed
    fitting = request
    while fitting.num_needed > num_steps and fitting.num_needed > least:
        fitting = _shorter(fitting)
    words = f"--skip {fitting.num_skipped} --steps {fitting.num_steps} --timed {fitting.num_timed}"
    words += " --no-execution-trace" if not fitting.has_execution_trace else ""
    if fitting.num_needed > num_steps:
        return f"let it run longer, at least {least} steps with {words}"
    return f"let it run longer, or pass {words}"


def _shorter(request: Request) -> Request:
    """One step less of what is most easily done without; the execution trace last."""
    if request.num_timed > 1:
        return replace(request, num_timed=request.num_timed - 1)
    if request.num_skipped > 2:
        return replace(request, num_skipped=request.num_skipped - 1)
    if request.num_steps > 1:
        return replace(request, num_steps=request.num_steps - 1)
    if request.num_timed or request.num_skipped > 1:
        return replace(request, num_timed=0, num_skipped=1)
    return replace(request, has_execution_trace=False)


def _prepare(folder: Path) -> None:
    make_folder(folder)
    for running in folder.glob(f".perfcast-*{_RUNNING}"):
        pid = running.name.removeprefix(".perfcast-").removesuffix(_RUNNING)
        if _is_running(pid):
            raise TraceError(
                f"process {pid} is still being recorded into '{folder}', though what started it was ended: "
                f"wait for it, end it (kill {pid}), or name another folder (--out)"
            )
    for left in folder.glob(".perfcast-*"):
        left.unlink(missing_ok=True)
    if any(folder.glob("*.record.json")):
        raise TraceError(f"'{folder}' holds a recording already: name another folder (--out)")


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:  # another user's
        return True
    return True


def _words(command: Sequence[str]) -> list[str]:
    words = list(command)
    if words and words[0].endswith(".py"):
        words.insert(0, sys.executable)
    if not words or shutil.which(words[0]) is None:
        raise TraceError(f"no such command: {words[0] if words else '(none)'}")
    return words


def _start(words: Sequence[str], request: Request, *, prints_apart: bool) -> subprocess.Popen[bytes]:
    folder = Path(__file__).resolve().parent
    paths = [str(folder / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PERFCAST_RECORD_PACKAGE": str(folder.parents[2]),
        REQUEST_VARIABLE: json.dumps(asdict(request) | {"folder": str(Path(request.folder).resolve())}),
    }
    try:
        return subprocess.Popen(words, env=environment, stdout=_ERRORS if prints_apart else None)
    except OSError as error:
        raise TraceError(f"cannot start {words[0]}: {error.strerror}") from error


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, bool]:
    """Exit code, and whether it was interrupted; an interrupt reaches the program too, which then ends."""
    try:
        return process.wait(), False
    except KeyboardInterrupt:
        for patience, send in ((_SECONDS_TO_END, signal.SIGTERM), (_SECONDS_TO_END, signal.SIGKILL)):
            try:
                return process.wait(patience), True
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.send_signal(send)
        return process.wait(), True


def ranks_in(folder: str | Path) -> tuple[RankRecording, ...]:
    """What the processes of a recorded program wrote into its folder, in the order of their ranks."""
    records = sorted(Path(folder).glob("*.record.json"))
    return tuple(sorted(map(_rank_of, records), key=lambda one: one.rank))


def _rank_of(path: Path) -> RankRecording:
    found: Any = read_json(path, what="the record of a rank", error=TraceError)
    seconds = found["seconds"]
    return RankRecording(
        rank=found["rank"],
        world_size=found["world_size"],
        files={kind: path.parent / name for kind, name in found["files"].items()},
        num_steps=found["num_steps"],
        step_seconds=_median(seconds["timeline"]["processor"]),
        step_wall_seconds=_median(seconds["timeline"]["wall"]),
        plain_step_seconds=_plain(seconds, "processor"),
        plain_step_wall_seconds=_plain(seconds, "wall"),
        execution_trace_step_seconds=_median(seconds["execution trace"]["processor"]),
        steps_by=found["steps_by"],
        problem=found["problem"],
        num_ended=found.get("num_ended", 0),
        plain_steps_wall_seconds=(*seconds["before"]["wall"][1:], *seconds["after"]["wall"][1:]),
    )


def _plain(seconds: dict[str, Any], clock: str) -> float | None:
    """Mean of the medians of both sides: what a machine drifts from one to the other cancels."""
    sides = [_median(seconds[side][clock]) for side in ("before", "after")]
    known = [side for side in sides if side is not None]
    return statistics.fmean(known) if known else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
