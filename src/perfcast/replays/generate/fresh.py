"""A generated benchmark played once, as others will: fresh processes, PyTorch alone, no NumPy.

Each rank is a process that is started as a launcher starts it. Nothing of this package can be seen there
(Python's isolated mode), and NumPy cannot be imported, installed or not.
"""

from __future__ import annotations

import re
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

from perfcast.errors import CalibrationError, TraceError
from perfcast.files.plain import parse_json
from perfcast.files.reading import read_text
from perfcast.measure.collectives.launch import local_environment, run_together
from perfcast.replays.generate.generate import Generated

#: What starts a program where NumPy is not, as one rank of several if its first words say so.
_STARTER = (
    "import os, runpy, sys; sys.modules['numpy'] = None; rank, size, port = sys.argv[1:4]; "
    "sys.argv = sys.argv[4:]; own = {'RANK': rank, 'LOCAL_RANK': rank, 'WORLD_SIZE': size, "
    "'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port}; os.environ.update(own if size != '1' else {}); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
#: Variables of launchers and of Python, which say where this process is.
_OWN_PLACE = re.compile(r"(PYTHON.*|RANK|WORLD_SIZE|LOCAL_.*|GROUP_.*|ROLE_.*|MASTER_.*|TORCHELASTIC_.*)")
#: Where a line of the steps failed, as the benchmark says it.
_FAILED_AT = re.compile(r"^failed at (\S+\.py):(\d{1,7}): .*$", re.MULTILINE)

State = Literal["ran", "failed", "not played"]


@dataclass(frozen=True, kw_only=True)
class FreshPlay:
    """What came of a benchmark's first play.

    Attributes:
        reason: Why it failed or was not played; '' where it ran.
        num_ranks: Processes that played.
        is_alone: One rank, its collectives left out.
        seconds: A step, the slowest rank's; ``None`` where it did not run.
        processor_seconds: Each rank's, of a step; empty where it did not run.
        place: File and line of the steps that failed, where one did.
    """

    state: State
    reason: str = ""
    num_ranks: int = 1
    is_alone: bool = False
    seconds: float | None = None
    processor_seconds: tuple[float, ...] = ()
    place: tuple[str, int] | None = None


def play_fresh(
    made: Generated, num_ranks: int, arguments: Sequence[str] = (), *, max_seconds: float = 900.0
) -> FreshPlay:
    """Play a benchmark with ``num_ranks`` processes, its collectives left out where it is of more.

    Args:
        arguments: Of the benchmark.
        max_seconds: After which it is stopped.
    """
    is_alone = num_ranks < int(made.manifest["world_size"]) and bool(made.manifest["has_collectives"])
    words = [*arguments, *(["--alone"] if is_alone else [])]
    failure = ""
    with tempfile.TemporaryDirectory(prefix="perfcast-generated-") as place:
        commands = _commands(made.folder, num_ranks, words)
        try:
            run_together(commands, Path(place), _environment(), _limit(max_seconds))
        except CalibrationError as error:
            failure = str(error)
        logs = [_log(Path(place) / f"rank{rank}.log") for rank in range(num_ranks)]
    if failure:
        told = next((match for log in logs if (match := _FAILED_AT.search(log))), None)
        return FreshPlay(
            state="failed",
            reason=told[0][:500] if told else failure,
            num_ranks=num_ranks,
            is_alone=is_alone,
            place=(told[1], int(told[2])) if told else None,
        )
    results = [_result(log) for log in logs]
    return FreshPlay(
        state="ran",
        num_ranks=num_ranks,
        is_alone=is_alone,
        seconds=max(wall for wall, _ in results),
        processor_seconds=tuple(processor for _, processor in results),
    )


def _result(log: str) -> tuple[float, float]:
    """The seconds of a step by the clock and of the processor, by the JSON that a benchmark prints last."""
    found = parse_json(log.splitlines()[-1], "the output of a benchmark", error=TraceError)
    assert isinstance(found, dict)
    return float(found["median_step_seconds"]), float(found["median_step_processor_seconds"])


def _commands(folder: Path, num_ranks: int, arguments: Sequence[str]) -> list[list[str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = str(folder.resolve() / "benchmark.py")
    return [
        [sys.executable, "-I", "-c", _STARTER, str(rank), str(num_ranks), str(port), program, *arguments]
        for rank in range(num_ranks)
    ]


def _environment() -> dict[str, str]:
    return {name: text for name, text in local_environment().items() if not _OWN_PLACE.fullmatch(name)}


def _limit(max_seconds: float) -> Callable[[], None]:
    """Ends what takes longer."""
    end = monotonic() + max_seconds

    def check() -> None:
        if monotonic() > end:
            raise CalibrationError(f"it was stopped after {max_seconds:.0f} s")

    return check


def _log(path: Path) -> str:
    return read_text(path, what="the log of a rank", errors="replace") if path.exists() else ""
