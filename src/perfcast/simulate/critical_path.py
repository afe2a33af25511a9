"""The chain of tasks that decides how long a program takes."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.simulate.engine import Played
from perfcast.simulate.program import Program


def critical_path(program: Program, played: Played, last: int | None = None) -> list[int]:
    """Tasks from the first to ``last`` (None: what ends last), each starting when the one before it ends.

    Walked from the last task to what it waited for longest: the task before it on its stream, a dependency,
    or those of another member of its collective. Of several that ended together, its own stream's, then the
    first.
    """
    if not program.num_tasks:
        return []
    starts, ends = played.starts.tolist(), played.ends.tolist()
    before = _before_on_stream(program, played).tolist()
    bounds, awaited = _dependencies(program)
    members = _members(program)
    task = int(played.ends.argmax()) if last is None else last
    path = [task]
    while starts[task] > 0:
        found: tuple[float, bool, int] | None = None
        for member in members.get(program.collectives[task], [task]) if members else [task]:
            own = [before[member]] if before[member] >= 0 else []
            for other in (*own, *awaited[bounds[member] : bounds[member + 1]]):
                key = (ends[other], other == before[task], -other)
                if found is None or key > found:
                    found = key
        if found is None:
            break
        task = -found[2]
        path.append(task)
    return path[::-1]


def _before_on_stream(program: Program, played: Played) -> Integers:
    """[tasks]: the task that ran before each on its stream, or -1."""
    streams = np.asarray(program.streams, dtype=np.int64)
    order = np.lexsort((np.arange(len(streams)), played.ends, played.starts, streams))
    is_pool = np.array([lane.is_pool for lane in program.lanes])
    issued = np.argsort(streams, kind="stable")
    order = np.where(is_pool[streams[order]], order, issued)
    before = np.full(len(streams), -1, dtype=np.int64)
    same = streams[order][1:] == streams[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def _dependencies(program: Program) -> tuple[list[int], list[int]]:
    """What task i awaits stands at ``awaited[bounds[i] : bounds[i + 1]]``."""
    waiting = np.asarray(program.waiting, dtype=np.int64)
    order = np.argsort(waiting, kind="stable")
    bounds = np.searchsorted(waiting[order], np.arange(program.num_tasks + 1))
    return bounds.tolist(), np.asarray(program.awaited, dtype=np.int64)[order].tolist()


def _members(program: Program) -> dict[int, list[int]]:
    """Tasks of each collective; empty where there are none."""
    found: dict[int, list[int]] = {}
    for task, collective in enumerate(program.collectives):
        if collective >= 0:
            found.setdefault(collective, []).append(task)
    return found
