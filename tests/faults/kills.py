"""Kill -9 at random moments inside work, then go on: how a subject is put to it.

A subject is work that goes on where it was stopped. Its process is forked from one that has imported all it
needs, so that a kill costs no more than the work. Two kinds of kills take turns, each proven to have hit
unfinished work:

* by the clock: the process says on a pipe that its work begins, is killed at a moment drawn evenly from the
  time that the whole work takes, and had not said that its work is done;
* in a call: a system call of a file (``CALLS``), drawn from those that the whole work makes, is not carried
  out, or in part, or wholly; the process says so on the pipe and kills itself.

After every kill the subject checks what was left behind; work that came to its end is compared with work that
was never interrupted.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfcast.errors import InputError

#: Calls of the operating system in which a process kills itself.
CALLS = ("write", "fsync", "replace", "link", "ftruncate", "rename")
_BEGUN, _DONE, _REFUSED = b"\x01", b"\x02", b"\x03"
_MOST_SECONDS = 300.0


@dataclass(frozen=True)
class Subject:
    """Work that goes on where it was stopped.

    Attributes:
        work: In a folder of its own; run again after each kill.
        result: Of finished work, to be compared.
        check: After each kill, of what was left behind; raises AssertionError.
        waits: Whether work has begun, where that is not at once (processes that start first).
        victims: Of a process, whom to kill; itself by default.
        in_calls: Whether its own process makes the calls in which it can be killed.
    """

    name: str
    work: Callable[[Path], None]
    result: Callable[[Path], object]
    check: Callable[[Path], None] = lambda folder: None
    waits: Callable[[Path], Callable[[], bool]] | None = None
    victims: Callable[[int], list[int]] = lambda pid: [pid]
    in_calls: bool = True


@dataclass
class Count:
    """What became of a subject."""

    by_clock: int = 0
    in_calls: int = 0
    too_late: int = 0
    compared: int = 0
    where: dict[str, int] = field(default_factory=dict)

    @property
    def hits(self) -> int:
        return self.by_clock + self.in_calls

    def __str__(self) -> str:
        calls = ", ".join(f"{name} {count}" for name, count in sorted(self.where.items()))
        return (
            f"{self.hits} kills inside work ({self.by_clock} by the clock, {self.in_calls} in calls: "
            f"{calls or 'none'}), {self.too_late} too late; {self.compared} finished works equal to one "
            "never interrupted"
        )


@dataclass(frozen=True)
class Fault:
    """A call that does not do what it should.

    Attributes:
        call: Which, counted from 0 over all ``CALLS`` of the work.
        share: How much of it is done, from 0 to 1.
        number: The error that it ends with; 0: it ends the process.
    """

    call: int
    share: float
    number: int = 0


@dataclass
class _Run:
    """One process: how long its work took, what it said, and how it ended."""

    seconds: float
    said: bytes
    was_killed: bool

    @property
    def is_hit(self) -> bool:
        return self.was_killed and self.said.startswith(_BEGUN) and _DONE not in self.said


def put_to_it(
    subject: Subject, folder: Path, kills: int, seed: int, tell: Callable[[Count], None] = lambda count: None
) -> Count:
    """Kill so often inside work, and compare all that came to its end.

    Args:
        tell: Called after each kill.

    Raises:
        AssertionError: Something was lost, doubled, left in pieces, or turned out otherwise.
    """
    rng, count = random.Random(seed), Count()
    reference = folder / "reference"
    whole = _run(subject, reference)
    assert not whole.was_killed, f"{subject.name}: the work does not end by itself: {whole.said!r}"
    calls, wanted = _count_calls(whole.said), subject.result(reference)
    place = folder / "killed"
    while count.hits < kills:
        in_call = subject.in_calls and calls > 0 and count.by_clock > count.in_calls
        if in_call:
            run = _run(subject, place, fault=Fault(rng.randrange(calls), rng.random()))
        else:
            run = _run(subject, place, kill_after=rng.uniform(0.0, whole.seconds))
        if run.is_hit:
            _note(count, run, in_call=in_call)
            subject.check(place)
            tell(count)
        else:
            assert not run.was_killed or _DONE in run.said or not run.said, f"{subject.name}: {run}"
            count.too_late += 1
        if _DONE in run.said:
            _compare(subject, place, wanted, count)
    if place.exists():
        last = _run(subject, place)
        assert _DONE in last.said, f"{subject.name}: the work did not end after the last kill: {last.said!r}"
        _compare(subject, place, wanted, count)
    return count


def _note(count: Count, run: _Run, *, in_call: bool) -> None:
    if not in_call:
        count.by_clock += 1
        return
    count.in_calls += 1
    name = run.said.rpartition(b"!")[2].split(b" ")[0].decode()
    assert name in CALLS, run
    count.where[name] = count.where.get(name, 0) + 1


def _compare(subject: Subject, place: Path, wanted: object, count: Count) -> None:
    found = subject.result(place)
    assert found == wanted, f"{subject.name}: {found!r:.2000} is not {wanted!r:.2000}"
    count.compared += 1
    shutil.rmtree(place)


def _count_calls(said: bytes) -> int:
    return said.count(b".")


def fail_in_turn(subject: Subject, folder: Path, number: int, times: int, seed: int) -> list[str]:
    """Let calls of the work fail, one in each run, then go on and compare; returns what was said of them.

    Raises:
        AssertionError: A failure was no ``InputError`` in one line, or something was lost or doubled.
    """
    rng = random.Random(seed)
    whole = _run(subject, folder / "reference")
    calls, wanted = _count_calls(whole.said), subject.result(folder / "reference")
    said = []
    for _ in range(times):
        place = folder / "failed"
        run = _run(subject, place, fault=Fault(rng.randrange(calls), rng.random(), number))
        if _REFUSED in run.said:
            said.append(run.said.rpartition(_REFUSED)[2].decode())
            assert "\n" not in said[-1], said[-1]
            subject.check(place)
        else:
            assert _DONE in run.said, run
        _run(subject, place)
        _compare(subject, place, wanted, Count())
    return said


def run_two_at_once(subject: Subject, folder: Path) -> list[str]:
    """Two processes on one folder, then a third: nothing lost or doubled; returns what was refused.

    Raises:
        AssertionError: Neither came to its end, or the result is another.
    """
    _run(subject, folder / "reference")
    wanted, place = subject.result(folder / "reference"), folder / "shared"
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: _run(subject, place), range(2)))
    assert any(_DONE in run.said for run in runs), runs
    refused = [run.said.rpartition(_REFUSED)[2].decode() for run in runs if _REFUSED in run.said]
    _run(subject, place)
    _compare(subject, place, wanted, Count())
    return refused


def _run(
    subject: Subject, folder: Path, *, kill_after: float | None = None, fault: Fault | None = None
) -> _Run:
    folder.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    waits = subject.waits(folder) if subject.waits else lambda: True
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _be(subject, folder, writing, fault)
    os.close(writing)
    try:
        said = _listen(pid, reading, kill_after, waits, subject.victims)
    finally:
        os.close(reading)
    status = os.waitpid(pid, 0)[1]
    was_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    began, ended, words = said
    if status and not was_killed and subject.victims(0) == [0]:
        log = (folder.parent / "log.txt").read_text(errors="replace")
        raise AssertionError(f"{subject.name}: ended with {status} after {words!r}:\n{log[-4000:]}")
    return _Run(ended - began, words, was_killed or (bool(status) and _DONE not in words))


def _listen(
    pid: int,
    reading: int,
    kill_after: float | None,
    waits: Callable[[], bool],
    victims: Callable[[int], list[int]],
) -> tuple[float, float, bytes]:
    """What a process says until it has ended, killing it when its time has come."""
    words, began, until = b"", time.monotonic(), time.monotonic() + _MOST_SECONDS
    kill_at: float | None = None
    has_begun = False
    while time.monotonic() < until:
        left = 0.02 if kill_at is None else max(0.0, min(0.02, kill_at - time.monotonic()))
        if select.select([reading], [], [], left)[0]:
            read = os.read(reading, 65536)
            if not read:
                return began, time.monotonic(), words
            words += read
        if not has_begun and words and waits():
            has_begun, began = True, time.monotonic()
            kill_at = None if kill_after is None else began + kill_after
        if kill_at is not None and time.monotonic() >= kill_at:
            for victim in victims(pid):
                os.kill(victim, signal.SIGKILL)
            kill_at = until
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"a process did not end within {_MOST_SECONDS:g} s")


def _be(subject: Subject, folder: Path, writing: int, fault: Fault | None) -> None:
    """The child: work, and say so."""
    code = 1
    log = os.open(folder.parent / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.stdout = sys.stderr = os.fdopen(log, "w", buffering=1)
    try:
        write = os.write
        _hook(lambda text: write(writing, text), fault)
        write(writing, _BEGUN)
        subject.work(folder)
        write(writing, _DONE)
        code = 0
    except InputError as error:
        if (fault is not None and fault.number) or "is being written by" in str(error):
            write(writing, _REFUSED + str(error).encode())
            code = 0
        else:
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _hook(say: Callable[[bytes], object], fault: Fault | None) -> None:
    """Count the calls of ``CALLS``, and fail or die in one of them."""
    counted = 0

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal counted
            mine, counted = counted, counted + 1
            if fault is None or mine != fault.call:
                say(b".")
                return real(*args, **options)
            share = fault.share
            if name == "write":  # a part of it, from nothing to all
                part = bytes(args[1])[: int(share * (len(args[1]) + 1))]
                real(args[0], part)
                say(b"!write %d of %d bytes" % (len(part), len(args[1])))
            elif share < 0.5 or fault.number:
                say(b"!%s before" % name.encode())
            else:
                real(*args, **options)
                say(b"!%s after" % name.encode())
            if fault.number:
                raise OSError(fault.number, os.strerror(fault.number))
            os.kill(os.getpid(), signal.SIGKILL)
            return None

        return call

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))
