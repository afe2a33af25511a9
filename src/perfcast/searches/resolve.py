"""A search on one cluster, all its names resolved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import OFFLOAD
from perfcast.core.program import StepProgram
from perfcast.cost.host_link import has_host_link
from perfcast.cost.model import CostModel
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.program import choose_program
from perfcast.prediction.step.constants import StepConstants, load_step_constants
from perfcast.searches.ranking.constraints import check_limits
from perfcast.searches.ranking.objectives import Job, Objective, find_objective
from perfcast.searches.request import SearchRequest
from perfcast.searches.space.definition import Space

#: Told of each part of a search: its name, what is done of it, and all of it (0 of 0: not known).
Progress = Callable[[str, int, int], None]


def ignore_progress(part: str, done: int, total: int) -> None:
    """Tell nobody."""


def cluster_stem(name: str) -> str:
    """A cluster's name without its number of devices."""
    stem, _, count = name.rpartition(":")
    return stem if count.isdecimal() else name


@dataclass(frozen=True, kw_only=True)
class ResolvedSearch:
    """What is searched on one cluster.

    Attributes:
        device: The cluster's, or what stands in its place.
        job: What the objective depends on beside a plan.
        space: The request's, without what framework and device cannot do.
        program: What the steps of all plans run.
        defaults: What was chosen of precision and sequence, in words.
        is_captured: Whether plans that are shown are captured, not built from the model's sizes.
        seconds_by_part: Grows as the search goes.
    """

    request: SearchRequest
    model: NamedModel
    cluster: Cluster
    device: Device
    cost_model: CostModel
    sequence_length: int
    objective: Objective
    job: Job
    space: Space
    constants: StepConstants
    on_progress: Progress
    program: StepProgram
    is_captured: bool
    defaults: tuple[str, ...]
    seconds_by_part: dict[str, float] = field(default_factory=dict)

    @property
    def sizes(self) -> Transformer:
        """Of the model."""
        return self.model.sizes

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of the search."""
        began = time.perf_counter()
        yield
        self.seconds_by_part[name] = self.seconds_by_part.get(name, 0.0) + time.perf_counter() - began


def resolve_search(
    request: SearchRequest,
    cluster: Cluster,
    *,
    asked: str = "",
    device: Device | None = None,
    on_progress: Progress = ignore_progress,
) -> ResolvedSearch:
    """Names to data, and what cannot be asked refused.

    Args:
        cluster: That is searched, of those of the request or of another size.
        asked: What the request calls the cluster, by which its price is found.
        device: In place of the cluster's.

    Raises:
        InputError: Unknown names, limits that mean nothing, an objective without what it needs.
    """
    price = None if request.prices is None else request.prices.of_cluster(cluster, asked)
    check_limits(request.max_memory_fraction, request.min_mfu, price)
    die = device or resolve_device(cluster.device)
    model = read_model(request.model)
    length = model.sequence_length(request.sequence_length)
    training = request.training
    chosen = choose_defaults(
        model, "train", die, dtype=training.dtype, sequence_length=request.sequence_length
    )
    program = choose_program(model, "train", framework=training.framework, compiles=training.compiles)
    space = request.runnable_space
    if not has_host_link(die) and "offload" not in space.fixed:
        space = replace(space, offloads=OFFLOAD[:1])
    job = Job(
        num_devices=cluster.num_devices,
        num_tokens=request.global_batch_size * length,
        tokens=request.tokens,
        deadline_seconds=request.deadline_seconds,
        dollars_per_device_hour=price,
    )
    return ResolvedSearch(
        request=replace(request, model=model),
        model=model,
        cluster=cluster,
        device=die,
        cost_model=resolve_cost_model(request.cost_models.get(cluster.device), die),
        sequence_length=length,
        objective=find_objective(request.objective, job, die),
        job=job,
        space=space,
        constants=request.constants or load_step_constants(),
        on_progress=on_progress,
        program=program,
        is_captured=program.is_captured and device is None,
        defaults=(*request.defaults, *chosen.notes),
    )
