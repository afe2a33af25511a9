"""One rank of several that play together: what its process does."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcast.core.cluster import Cluster
from perfcast.replay.communication.play import CollectiveRunner
from perfcast.replay.play.memory_bound import bound_memory
from perfcast.replay.play.modules import load_module
from perfcast.replay.play.session import find_gaps, play_program
from perfcast.replay.ranks.context import RankContext
from perfcast.replay.scale.fit_ranks import fit_to_ranks

#: What is done with the host's own time between calls.
OFF, RECORDED, SCALED = "off", "recorded", "scaled"
HOST_GAPS = (OFF, RECORDED, SCALED)


@dataclass(frozen=True)
class RankOptions:
    """How ranks play together; the fields are those of ``fit_to_ranks`` and ``CollectiveRunner``."""

    backend: str = "gloo"
    is_blocking: bool = False
    world_size: int | None = None
    cluster: Cluster | None = None
    is_emulated: bool = False
    is_rebalanced: bool = False
    host_gaps: str = OFF


def play_rank(job: Mapping[str, Any], context: RankContext) -> dict[str, int]:
    """Play a rank's program with the others; the result is written beside the task."""
    task = Path(job["task"])
    with task.open("rb") as file:
        program, gaps, label_seconds, options, ranks, module = pickle.load(file)
    if module:
        load_module(module)
    program = fit_to_ranks(
        program,
        context,
        world_size=ranks.world_size,
        cluster=ranks.cluster,
        is_emulated=ranks.is_emulated,
        is_replicated=job["is_replicated"],
        is_rebalanced=ranks.is_rebalanced,
    )
    bound_memory(program)
    if options.profile_path:
        path = Path(options.profile_path)
        options = replace(options, profile_path=str(path.with_name(f"rank{context.rank}.{path.name}")))
    collective_runner = CollectiveRunner(program, context, is_blocking=ranks.is_blocking)
    if ranks.host_gaps != OFF:
        spins = find_gaps(
            program,
            options,
            source=gaps,
            label_seconds=label_seconds[gaps.is_observed],
            is_scaled=ranks.host_gaps == SCALED,
            collective_runner=collective_runner,
        )
        options = replace(options, gaps_seconds=spins)
    collective_runner.forget()
    context.barrier()
    played = play_program(
        program, options, collective_runner=collective_runner, label_seconds=label_seconds.get(False, 0.0)
    )
    with task.with_name(f"{task.name}.done").open("wb") as file:
        pickle.dump((program, played), file)
    return {"rank": context.rank}
