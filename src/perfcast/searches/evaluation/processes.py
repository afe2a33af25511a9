"""Work shared among processes of one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from signal import strsignal
from typing import TYPE_CHECKING, TypeVar

from perfcast.errors import InputError, PerfcastError

if TYPE_CHECKING:
    from multiprocessing.context import ForkContext, ForkProcess

T = TypeVar("T")

#: Exit code after a signal that cannot be caught: a system without memory sends it.
_KILLED = -9
#: What a user can do about a process that found no memory.
_FEWER = "take fewer at once, as with --processes 1"


def run_in_processes(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Results of all tasks, in order: the first is run here, each other one in a process of its own.

    Processes are forked, so that tasks may hold anything; only results travel. Where that cannot be done, all
    tasks are run here. None is left running, whatever is raised.

    Raises:
        PerfcastError: As the tasks.
        InputError: A process that was killed, or ran out of memory.
    """
    if len(tasks) < 2 or "fork" not in get_all_start_methods():
        return [task() for task in tasks]
    context = get_context("fork")
    running: list[tuple[ForkProcess, Connection]] = []
    try:
        running.extend(_start(context, task) for task in tasks[1:])
        return [tasks[0](), *(_receive(*one) for one in running)]
    finally:
        for process, receiver in running:
            process.terminate()
            process.join()
            receiver.close()


def _start(context: ForkContext, task: Callable[[], object]) -> tuple[ForkProcess, Connection]:
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, task), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _send(sender: Connection, task: Callable[[], object]) -> None:
    """What a process does; its error is raised by the one that started it."""
    try:
        sender.send(task())
    except PerfcastError as error:
        sender.send(error)
    except MemoryError:
        sender.send(InputError(f"a process of the search found no more memory; {_FEWER}"))
    except KeyboardInterrupt:
        return  # the one that started it says so


def _receive(process: ForkProcess, receiver: Connection) -> T:  # type: ignore[type-var]
    try:
        found = receiver.recv()
    except EOFError:
        process.join()
        raise InputError(describe_end(process.exitcode or 0)) from None
    if isinstance(found, PerfcastError):
        raise found
    result: T = found
    return result


def describe_end(exit_code: int) -> str:
    """How a process without a result ended; below 0 is the signal that killed it, as ``exitcode`` says it."""
    if exit_code >= 0:
        return f"a process of the search ended without a result (exit code {exit_code})"
    why = f", most often for want of memory; {_FEWER}" if exit_code == _KILLED else ""
    return f"a process of the search was killed (signal {-exit_code}: {strsignal(-exit_code)}){why}"
