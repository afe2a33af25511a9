"""What started ranks do in tests; in a module of its own, so that their processes find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from made_up_collectives import ProgramWriter
from perfcast.errors import TraceError
from perfcast.replays.communication.play import CollectiveRunner
from perfcast.replays.ranks.context import RankContext
from perfcast.traces.events import ProcessGroup


def reduce_twice(job: Mapping[str, Any], context: RankContext) -> dict[str, Any]:
    """An all-reduce under way while another, of a group of one, is done; both results."""
    import torch

    writer = ProgramWriter(context.world_size, context.rank)
    writer.groups.append(ProcessGroup("alone é", "", "", (context.rank,)))
    bucket, own = writer.tensor(job["elements"]), writer.tensor(2)
    writer.collective("allreduce", [bucket], is_asynchronous=True)
    writer.collective("allreduce", [own], group="alone é")
    writer.wait(0)
    collective_runner = CollectiveRunner(writer.program(), context, is_blocking=job["is_blocking"])
    plays = collective_runner.prepare(0), collective_runner.prepare(1)
    wait = collective_runner.prepare_wait(2)
    tensors = torch.full((job["elements"],), context.rank + 1.0), torch.full((2,), context.rank + 1.0)
    for play, tensor in zip(plays, tensors, strict=True):
        play([tensor], [tensor])
    wait()
    collective_runner.finish_step()
    latencies = collective_runner.latencies()
    return {
        "sums": [float(tensor[0]) for tensor in tensors],
        "is_asynchronous": [one.is_asynchronous for one in latencies],
        "is_timed": [one.median_seconds > 0 for one in latencies],
    }


def disagree(job: Mapping[str, Any], context: RankContext) -> None:
    """Rank 1 exchanges more than rank 0."""
    writer = ProgramWriter(context.world_size, context.rank)
    bucket = writer.tensor(8)
    for _ in range(1 + context.rank):
        writer.collective("allreduce", [bucket])
    CollectiveRunner(writer.program(), context)


def fail_on_one(job: Mapping[str, Any], context: RankContext) -> None:
    """Rank 1 gives up, rank 0 would wait for it."""
    if context.rank == 1:
        raise TraceError("the trace of this rank is empty")
    context.barrier()
