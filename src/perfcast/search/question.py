"""What a search is asked, all names resolved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from perfcast.catalog.clusters import load_cluster
from perfcast.core.cluster import Cluster
from perfcast.core.hardware import Device
from perfcast.core.plan import OFFLOAD
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.cost.host_link import has_host_link
from perfcast.cost.model import CostModel
from perfcast.errors import InputError
from perfcast.prediction.model import Model, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.step.constants import StepConstants
from perfcast.search.ranking.constraints import check_limits
from perfcast.search.ranking.objectives import Job, Objective, find_objective
from perfcast.search.space.definition import Space

#: Told of each part of a search: its name, what is done of it, and all of it.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is searched.

    Attributes:
        objective_name: Of ``objective``.
        job: What the objective depends on beside a plan.
        seconds_by_part: Grows as the search goes.
    """

    name: str
    model: Transformer
    cluster: Cluster
    device: Device
    cost_model: CostModel
    training: Training
    sequence_length: int
    global_batch_size: int
    objective: Objective
    objective_name: str
    job: Job
    space: Space
    constants: StepConstants
    max_memory_fraction: float
    min_mfu: float | None
    on_progress: Progress
    num_processes: int
    seconds_by_part: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of the search."""
        began = time.perf_counter()
        yield
        self.seconds_by_part[name] = self.seconds_by_part.get(name, 0.0) + time.perf_counter() - began


def resolve_question(
    model: Model, cluster: str | Cluster, global_batch_size: int, sequence_length: int | None,
    training: Training | None, space: Space, objective: str, tokens: float | None,
    deadline_seconds: float | None, dollars_per_device_hour: float | None, max_memory_fraction: float,
    min_mfu: float | None, cost_model: str | CostModel | None, device: Device | None,
    constants: StepConstants, on_progress: Progress, num_processes: int,
) -> Question:  # fmt: skip
    """Names to data, and what cannot be asked refused; arguments as ``search_plans`` takes them.

    Raises:
        InputError: Unknown names, limits that mean nothing, an objective without what it needs.
    """
    check_limits(max_memory_fraction, min_mfu, dollars_per_device_hour)
    if global_batch_size < 1:
        raise InputError(f"a global batch of {global_batch_size} sequences; it must be at least 1")
    target = load_cluster(cluster) if isinstance(cluster, str) else cluster
    die = device or resolve_device(target.device)
    known = read_model(model)
    sizes, length = known.sizes, known.sequence_length(sequence_length)
    if num_processes < 1:
        raise InputError(f"{num_processes} processes; there must be at least 1")
    if deadline_seconds is not None and tokens is None:
        raise InputError("a deadline needs the tokens of the training (--tokens)")
    cost_model = resolve_cost_model(cost_model, die)
    if not has_host_link(die) and "offload" not in space.fixed:
        space = replace(space, offloads=OFFLOAD[:1])
    job = Job(
        num_devices=target.num_devices, num_tokens=global_batch_size * length, tokens=tokens,
        deadline_seconds=deadline_seconds, dollars_per_device_hour=dollars_per_device_hour,
    )  # fmt: skip
    return Question(
        name=known.name, model=sizes, cluster=target, device=die, cost_model=cost_model,
        training=training or Training(framework="megatron"), sequence_length=length,
        global_batch_size=global_batch_size, objective=find_objective(objective, job, die),
        objective_name=objective, job=job, space=space, constants=constants,
        max_memory_fraction=max_memory_fraction, min_mfu=min_mfu,
        on_progress=on_progress, num_processes=num_processes,
    )  # fmt: skip
