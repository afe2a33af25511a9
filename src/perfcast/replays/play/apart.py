"""A replay in a process of its own.

What a step costs on a processor depends on the history of its memory: the allocator gives memory back to
the system, and touching it again costs time, by rules that depend on what was allocated and freed before.
A process that has read a trace has another history than one that trains. A fresh process, which only has
PyTorch and the tensors of the program, behaves as the original does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from perfcast.errors import PerfcastError, TraceError
from perfcast.files.typed_json import read_typed, write_typed
from perfcast.files.writing import write_bytes_atomically
from perfcast.printer.streams import say
from perfcast.replays.play.memory_bound import bound_memory
from perfcast.replays.play.modules import load_module
from perfcast.replays.program.program import ReplayProgram

Result = TypeVar("Result")

_PROGRESS = "repetition "
_SECONDS_TO_END = 60.0


def run_apart(
    function: Callable[..., Result],
    *arguments: object,
    options: Mapping[str, object] | None = None,
    module: str = "",
    on_repetition: Callable[[int], None] | None = None,
) -> Result:
    """Call a function of this package in a fresh process, and return what it returns.

    Args:
        options: Keyword arguments.
        module: A Python file of the user's that registers operators; run there first.
        on_repetition: Told of each repetition that a function with an argument of that name has done.

    Raises:
        TraceError: What the function raises, or the process ends without a result.
    """
    with tempfile.TemporaryDirectory() as folder:
        task, result = Path(folder) / "task", Path(folder) / "result"
        write_bytes_atomically(
            task, write_typed((function, arguments, dict(options or {}), module, on_repetition is not None))
        )
        with subprocess.Popen(
            [sys.executable, "-m", "perfcast.replays.play.apart", str(task), str(result)],
            env=os.environ | {"PYTHONPATH": _search_path()},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            exit_code = _followed(process, on_repetition)
        if not result.exists():
            raise TraceError(f"the process of the replay ended with exit code {exit_code} and no result")
        is_error, value = read_typed(result.read_bytes())
    if is_error:
        raise TraceError(value)
    found: Result = value
    return found


def _search_path() -> str:
    package = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])


def _followed(process: subprocess.Popen[str], on_repetition: Callable[[int], None] | None) -> int:
    """Pass on what the process says until it ends; an interrupt, which it gets too, lets it finish."""
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith(_PROGRESS):
                if on_repetition is not None:
                    on_repetition(int(line.removeprefix(_PROGRESS)))
            else:
                say(line.removesuffix("\n"), is_error=True)
        return process.wait()
    except KeyboardInterrupt:
        try:
            return process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def main(task: str, result: str) -> None:
    """Do a task and write what came of it."""
    function, arguments, options, module, is_followed = read_typed(Path(task).read_bytes())
    if is_followed:
        options["on_repetition"] = lambda number: print(f"{_PROGRESS}{number}", flush=True)
    try:
        if module:
            load_module(module)
        for argument in arguments:
            if isinstance(argument, ReplayProgram):
                bound_memory(argument)
        outcome = (False, function(*arguments, **options))
    except PerfcastError as error:
        outcome = (True, str(error))
    except KeyboardInterrupt:
        outcome = (True, "interrupted before anything was measured")
    write_bytes_atomically(result, write_typed(outcome))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
