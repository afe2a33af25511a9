"""What is asked of a parallel program of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.errors import PlanError
from perfcast.prediction.request.one_device import Request

if TYPE_CHECKING:
    from perfcast.core.machine.cluster import Cluster
    from perfcast.cost.model import CostModel
    from perfcast.prediction.step.constants import StepConstants


@dataclass(frozen=True, kw_only=True)
class ParallelProgramRequest:
    """One step of a parallel ``FILE.py:FUNCTION`` on a cluster.

    Attributes:
        workload: What a rank runs; its world size is the cluster's devices, its batch that of the rank.
        cost_model: 'learned' (default), 'roofline', or an object that prices operations.
        captures_all: Capture every rank, instead of those that ``parallel_program_classes`` chooses.
        with_spans: Whether to keep the timeline.
        recommendations: Whether to ask what would help.
        constants: Of the step as a whole; None: the shipped ones.
        notes: What was chosen before, for the assumptions.
    """

    workload: Request
    cluster: Cluster
    cost_model: str | CostModel | None = None
    captures_all: bool = False
    with_spans: bool = False
    recommendations: bool = True
    constants: StepConstants | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        asked, cluster = self.workload, self.cluster
        if asked.compile:
            raise PlanError("--compile is of one device; a parallel program runs as it is written")
        if asked.world_size != cluster.num_devices:
            raise PlanError(
                f"--world-size {asked.world_size} on {cluster.name}, of which there are "
                f"{cluster.num_devices} devices: give --cluster "
                f"{cluster.name.partition(':')[0]}:{asked.world_size}"
            )
