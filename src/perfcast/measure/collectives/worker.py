"""One rank of a profile: joins the others, measures, and hands what is found to rank 0.

Along an axis all groups are active at once, as in a training step, so what they share they share here
too. A time is that of the slowest rank of a group, and the median over the groups.

Run as a program with the file of a plan and a rank; see ``launch``.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from perfcast.files.reading import read_json
from perfcast.files.records import RecordFile, open_records
from perfcast.measure.collectives import store
from perfcast.measure.collectives.calls import Group, PreparedCollective, prepare
from perfcast.measure.collectives.plan import Axis, Chunk, ProfilePlan
from perfcast.measure.timer import Samples

_LEAST_SECONDS = 3e-3
_MOST_REPEATS = 300
_WARM_UPS = 2
_MOST_EXTRA_ROUNDS = 3
_ENOUGH = 3
_SECOND_LOOKS = 2

OnChunk = Callable[[int], None]
File = RecordFile[store.Record]
Decide = Callable[[list[store.Record]], list[store.Key]]


class Worker:
    """This process among the others."""

    def __init__(self, plan: ProfilePlan, rank: int, local_rank: int, init_method: str) -> None:
        """Join the others; every rank must do so within the plan's ``stall_seconds``."""
        self.plan, self.rank = plan, rank
        self.device = torch.device("cpu")
        if plan.backend == "nccl":
            self.device = torch.device("cuda", local_rank)
            torch.cuda.set_device(self.device)
        timeout = timedelta(seconds=plan.stall_seconds)
        dist.init_process_group(
            plan.backend, init_method=init_method, rank=rank, world_size=plan.world_size, timeout=timeout
        )
        #: Barriers and figures go through a group of their own, on the host.
        self.control = dist.new_group(backend="gloo", timeout=timeout)
        self.groups = {axis: self._join(axis, timeout) for axis in plan.axes if axis.size > 1}

    def measure(self, path: Path, on_chunk: OnChunk | None = None) -> None:
        """Measure what is not in the file yet, then what looks disturbed again, then what makes no curve.

        Rank 0 says what, since it may be alone in seeing the file, and appends to it after every chunk.

        Raises:
            InputError: On rank 0, where the file cannot be written to.
        """
        with open_records(path, store.KIND) if self.rank == 0 else nullcontext() as file:
            self._measure_keys(file, self._agree(file, self._missing), on_chunk)
            for _ in range(_SECOND_LOOKS):
                self._measure_keys(file, self._agree(file, store.doubtful), None)
            self._measure_keys(file, self._agree(file, store.refused_keys), None, replaces=True)

    def _missing(self, records: list[store.Record]) -> list[store.Key]:
        return sorted(self.plan.keys() - {record.key for record in records})

    def _measure_keys(
        self, file: File | None, keys: list[store.Key], on_chunk: OnChunk | None, *, replaces: bool = False
    ) -> None:
        for chunk in self.plan.chunks():
            sizes = tuple(s for s in chunk.sizes_bytes if (chunk.axis.name, chunk.collective, s) in keys)
            if sizes:
                records = self._measure_chunk(Chunk(chunk.axis, chunk.collective, sizes))
                if file is not None:
                    store.append_records(file, [replace(record, replaces=replaces) for record in records])
                if on_chunk is not None:
                    on_chunk(len(records))

    def close(self) -> None:
        """Wait for the others and leave."""
        dist.barrier(group=self.control)
        dist.destroy_process_group()

    def _join(self, axis: Axis, timeout: timedelta) -> Group:
        """Every rank makes every group of the axis, and keeps its own."""
        mine = None
        for ranks in self.plan.groups(axis):
            handle = dist.new_group(ranks, timeout=timeout)
            if self.rank in ranks:
                mine = Group(handle, tuple(ranks), ranks.index(self.rank))
        assert mine is not None
        return mine

    def _agree(self, file: File | None, decide: Decide) -> list[store.Key]:
        """What rank 0 decides of the plan's records; the others do not touch the file."""
        said: list[list[store.Key]] = [[]]
        if file is not None:
            wanted = self.plan.keys()
            counted = store.that_count(file.records, self.plan.setup())
            said = [decide([record for record in counted if record.key in wanted])]
        dist.broadcast_object_list(said, src=0, group=self.control)
        return said[0]

    def _measure_chunk(self, chunk: Chunk) -> list[store.Record]:
        """Sizes in turns, until enough rounds of each are undisturbed; all ranks decide alike."""
        group = self.groups[chunk.axis]
        calls = [prepare(chunk.collective, size, group, self.device) for size in chunk.sizes_bytes]
        repeats = [self._warm_up(call) for call in calls]
        samples = [Samples() for _ in calls]
        for turn in range(self.plan.rounds * _MOST_EXTRA_ROUNDS):
            wanted = [
                turn < self.plan.rounds or len(mine.quiet) < min(_ENOUGH, self.plan.rounds)
                for mine in samples
            ]
            if not any(wanted):
                break
            pairs = zip(calls, repeats, wanted, strict=True)
            times = [self._time(call, count) if is_wanted else 0.0 for call, count, is_wanted in pairs]
            for mine, seconds, is_wanted in zip(
                samples, self._together(times, chunk.axis), wanted, strict=True
            ):
                if is_wanted:
                    mine.add(seconds)
        return [
            _record(self.plan, chunk, wanted_bytes, call, mine)
            for wanted_bytes, call, mine in zip(chunk.sizes_bytes, calls, samples, strict=True)
        ]

    def _warm_up(self, call: PreparedCollective) -> int:
        """How many runs take long enough to be timed, by the slowest rank's second run."""
        once = max(self._gather([self._time(call, 1) for _ in range(_WARM_UPS)][-1:]))[0]
        return max(1, min(_MOST_REPEATS, round(_LEAST_SECONDS / max(once, 1e-9))))

    def _time(self, call: PreparedCollective, count: int) -> float:
        """Seconds of one message on this rank, the mean of ``count`` runs between barriers."""
        self._synchronize()
        dist.barrier(group=self.control)
        start = time.perf_counter()
        for _ in range(count):
            call.run()
        self._synchronize()
        return (time.perf_counter() - start) / (count * call.num_messages)

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _together(self, times: list[float], axis: Axis) -> list[float]:
        """For each figure the slowest rank of a group, and of these the median over groups."""
        every = self._gather(times)
        slowest = [
            [max(every[rank][i] for rank in group) for group in self.plan.groups(axis)]
            for i in range(len(times))
        ]
        return [statistics.median(groups) for groups in slowest]

    def _gather(self, values: list[float]) -> list[list[float]]:
        """Every rank's figures, on every rank."""
        mine = torch.tensor(values, dtype=torch.float64)
        every = [torch.empty_like(mine) for _ in range(self.plan.world_size)]
        dist.all_gather(every, mine, group=self.control)
        return [[float(value) for value in tensor] for tensor in every]


def _record(
    plan: ProfilePlan, chunk: Chunk, wanted_bytes: int, call: PreparedCollective, samples: Samples
) -> store.Record:
    return store.Record(
        setup=plan.setup(),
        axis=chunk.axis.name,
        collective=chunk.collective,
        wanted_bytes=wanted_bytes,
        axis_size=chunk.axis.size,
        size_bytes=call.size_bytes,
        seconds=samples.median,
        spread=max(samples.quiet) / min(samples.quiet) - 1,
        num_disturbed=samples.num_disturbed,
    )


def main(arguments: Sequence[str]) -> None:
    """A launched rank: ``PLAN.json RANK``."""
    leave_with_the_parent()
    job: Any = read_json(arguments[0], what="the plan of a profile")
    rank = int(arguments[1])
    worker = Worker(ProfilePlan.from_json(job["plan"]), rank, rank, job["init_method"])
    worker.measure(Path(job["measurements"]))
    worker.close()


def leave_with_the_parent() -> None:
    """The parent holds the other end of standard input; when it is gone, so is this process, from now on."""
    threading.Thread(target=_wait_for_the_parent, daemon=True).start()


def _wait_for_the_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
