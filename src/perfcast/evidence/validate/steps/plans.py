"""The study's steps on several devices of one server: what was run, and what it takes.

They were run by Megatron-LM through Accelerate (see ``megatron_gpt``), whose call of the model is a whole
step: forward, backward, the gradient reduction behind it, clipping and Adam. The events that were timed
lie around it, so the update is inside (accelerate: utils/megatron_lm.py, MegatronEngine.forward).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.catalogs.models import load_model
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.work import StepWork
from perfcast.cost.interval import join_intervals
from perfcast.cost.model import CostModel
from perfcast.cost.prices import price_operations
from perfcast.prediction.step.constants import load_step_constants
from perfcast.prediction.step.timer import Timer

if TYPE_CHECKING:
    from perfcast.core.graph import Graph

_VARIANT = re.compile(r"(?P<key>dp|tp|pp)(?P<degree>\d+)(_(?P<micro_batches>\d+))?")
#: Servers of these devices whose links are NVLink, by the catalog's names.
_SERVERS: Mapping[str, str] = {
    "a100-sxm-40gb": "aws-p4d",
    "a100-sxm-80gb": "dgx-a100",
    "h100-sxm": "dgx-h100",
}


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A plan of a model of the study; steps that differ in the device alone share it."""

    model: str
    sequence_length: int
    plan: Plan


def read_plan(variant: str, batch_size: int) -> Plan | None:
    """The plan of a variant: 'dp4', 'tp4', 'pp4_1' (stages, micro-batches); None for another word.

    ``batch_size`` is the global batch; None as well where it does not divide.
    """
    match = _VARIANT.fullmatch(variant)
    if match is None or (match["micro_batches"] is not None) != (match["key"] == "pp"):
        return None
    degree, micro_batches = int(match["degree"]), int(match["micro_batches"] or 1)
    replicas = degree if match["key"] == "dp" else 1
    if degree < 1 or micro_batches < 1 or batch_size % (replicas * micro_batches):
        return None
    return Plan(
        data_parallel=replicas,
        tensor_parallel=degree if match["key"] == "tp" else 1,
        pipeline_parallel=degree if match["key"] == "pp" else 1,
        micro_batch_size=batch_size // (replicas * micro_batches),
        num_micro_batches=micro_batches,
        overlaps_tensor=True,
        overlaps_gradients=False,
    )


def find_server(device: str, num_devices: int) -> Cluster | None:
    """Devices of one server joined by NVLink; None where the catalog has none of so many."""
    name = _SERVERS.get(device)
    if name is None:
        return None
    entry = load_cluster_entry(name)
    return entry.of_size(num_devices) if num_devices <= entry.levels[0].size else None


def build_plan_work(request: PlanRequest) -> StepWork:
    """The step that was run: captured on symbolic tensors, cut by the plan.

    Raises:
        InputError: The model is no GPT, or cannot be cut.
    """
    from perfcast.workload.shard import MEGATRON_DDP, shard_graph

    return shard_graph(_capture(request), request.plan, reduction=MEGATRON_DDP)


def _capture(request: PlanRequest) -> Graph:
    from perfcast.evidence.validate.steps.megatron_gpt import build_megatron_program
    from perfcast.workload.capture.capture import CaptureOptions, capture
    from perfcast.workload.models.transformer import read_transformer
    from perfcast.workload.step import OptimizerChoice

    entry, plan = load_model(request.model), request.plan
    model = read_transformer(entry.config, entry.architecture)
    graph, _ = capture(
        lambda: build_megatron_program(
            model, plan.micro_batch_size, request.sequence_length, plan.tensor_parallel
        ),
        CaptureOptions(optimizer=OptimizerChoice("adamw", "fused")),
    )
    return graph


@dataclass(frozen=True)
class PlanSeconds:
    """Seconds of a step with a 90 % interval, and what its kernels' prices rest on."""

    seconds: float
    low: float
    high: float
    provenances: frozenset[str]


def simulate_plan(work: StepWork, device: Device, cost_model: CostModel, cluster: Cluster) -> PlanSeconds:
    """Price the step's operations on the device and its links, and simulate it.

    The interval is that of the sum of all kernels, in proportion.

    Raises:
        PlanError: A group that does not lie in the cluster, or a product that the cost model has no price of.
    """
    prices = price_operations(work.operations(), device, cost_model, cluster)
    host_seconds = load_step_constants().launch_seconds["megatron_local"]
    timer = Timer(method="simulated", mode="train", launch_seconds=host_seconds)
    seconds = timer.time(work, prices.seconds).step_seconds
    counts = count_kernels(work)
    kernels = [operation for operation in counts if not operation.is_free]
    estimates = cost_model.estimate(kernels, device)
    runs = np.array([counts[operation] for operation in kernels], dtype=np.int64)
    low, high = join_intervals(estimates, runs, [operation.kind.value for operation in kernels])
    total = float(estimates.seconds @ runs)
    return PlanSeconds(
        seconds, seconds * low / total, seconds * high / total, frozenset(estimates.provenance)
    )


def count_kernels(work: StepWork) -> dict[Operation, int]:
    """How often each kernel runs in a step, over all stages; collectives are left out."""
    counts: Counter[Operation] = Counter()
    for stage in work.stages:
        for run in (run for chunk in stage.chunks for run in chunk):
            layer = work.layers[run.layer]
            for call in (*layer.forward, *layer.backward):
                if not call.is_collective:
                    counts[call.operation] += call.count * run.count * work.plan.num_micro_batches
        counts.update(call.operation for call in stage.optimizer if not call.is_collective)
    return dict(counts)
