"""Which kernels are collectives between ranks, and which of them are parts of one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from perfcast.traces.events import NONE, Trace
from perfcast.traces.marks import GLOO
from perfcast.traces.timeline.program import DeviceWork, RankProgram

#: Beginning of the names of instances that two ranks hand each other.
MESSAGE = "message"
_COMMUNICATION = re.compile(
    r"^gloo:|(?:nccl|rccl|msccl|oneccl|hccl).*(?:kernel|allreduce|allgather)", re.IGNORECASE
)


@lru_cache(maxsize=65536)
def is_communication(name: str) -> bool:
    """Whether a kernel is part of a collective between ranks, by its name."""
    return bool(_COMMUNICATION.search(name))


def name_collectives(traces: Sequence[Trace], programs: Sequence[RankProgram]) -> tuple[RankProgram, ...]:
    """The programs with each collective named by its instance, where all members were recorded.

    Instances are matched by group and place among the group's collectives since the first recorded step;
    where kernels do not tell their group, by stream and place. A send and a receive are matched by sender,
    receiver, tag and place. A collective that not all ranks with its group recorded equally often stays a
    kernel of its own.
    """
    named = [_names(trace, program) for trace, program in zip(traces, programs, strict=True)]
    counts = Counter(name for names in named for name in names if name)
    sizes = {
        name: size
        for trace, program, names in zip(traces, programs, named, strict=True)
        for work, name in zip(program.works, names, strict=True)
        if name and (size := 2 if name.startswith(MESSAGE) else _group_size(trace, work, len(programs)))
    }
    result = []
    for program, names in zip(programs, named, strict=True):
        works = (
            replace(work, collective=name if name and counts[name] == min(sizes[name], len(programs)) else "")
            for work, name in zip(program.works, names, strict=True)
        )
        result.append(replace(program, works=tuple(works)))
    return tuple(result)


def _group_size(trace: Trace, work: DeviceWork, num_recorded: int) -> int:
    collective = trace.collective_by_row.get(work.row)
    return collective.group_size if collective and collective.group_size else num_recorded


def _names(trace: Trace, program: RankProgram) -> list[str]:
    """Of each work, the instance that it is part of; '' for others."""
    places: Counter[tuple[str, ...]] = Counter()
    key: tuple[str, ...]
    order = sorted(range(len(program.works)), key=lambda w: _asked(program.works[w]))
    names = [""] * len(program.works)
    streams: dict[int, int] = {}
    for index in order:
        work = program.works[index]
        collective = trace.collective_by_row.get(work.row)
        if collective is None and not is_communication(work.name):
            continue
        asked = trace.collective_by_row.get(work.operator, collective)
        if asked is not None and asked.is_message:
            message = asked.message(trace.rank)
            if message is not None:
                key = (MESSAGE, *map(str, message))
                names[index] = " ".join((*key, str(places[key])))
                places[key] += 1
            continue
        if work.name.startswith(GLOO):
            key = (work.name, asked.group if asked else "")
        elif collective is not None and collective.group:
            key = ("group", collective.group, ",".join(map(str, collective.ranks)))
        else:
            key = ("stream", str(streams.setdefault(work.stream, len(streams))))
        place = places[key]
        places[key] += 1
        if collective is not None and collective.sequence not in (NONE, 0):
            place = collective.sequence
        names[index] = " ".join((*key, str(place)))
    return names


def _asked(work: DeviceWork) -> int:
    """Where a work stands among the rank's: a kernel itself; what gloo does, where it was asked for."""
    return work.operator if work.name.startswith(GLOO) else work.row
