"""The front door of parallel programs: a file of one's own, a cluster → the time of one step.

The program is captured on virtual ranks, those that differ each once; their operations are priced, and the
ranks simulated together, each stream and wait as the program has it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.dtype import DTYPES_BY_LABEL, DType
from perfcast.core.forecast.plan import PlanForecast, StepTime
from perfcast.core.forecast.recommendation import BoundRecommendation
from perfcast.core.graph import Graph
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import MATRIX_KINDS, Operation
from perfcast.core.work import Stream
from perfcast.cost.host.issue import host_of
from perfcast.cost.model import CostModel
from perfcast.cost.prices import Prices, price_operations
from perfcast.memory_use.liveness import estimate_memory
from perfcast.prediction.defaults import complete_request
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.one_device.assumptions import about_prices
from perfcast.prediction.one_device.graph import program_and_options
from perfcast.prediction.program import modules_of
from perfcast.prediction.request.one_device import Request
from perfcast.prediction.request.parallel_program import ParallelProgramRequest
from perfcast.prediction.step.constants import StepConstants, load_step_constants
from perfcast.prediction.step.runs import relative_interval, seconds_by_provenance
from perfcast.units import MEGA, format_bytes

if TYPE_CHECKING:
    from perfcast.workload.parallel_program.calls import RankCalls
    from perfcast.workload.parallel_program.capture import ParallelProgram

#: Programs of more calls than this, over all simulated ranks, are not simulated again for what would help.
_MOST_CALLS_TO_RELAX = 200_000
_RELAXED = {
    Stream.TENSOR: "tensor-parallel communication takes no time",
    Stream.CONTEXT: "context-parallel communication takes no time",
    Stream.EXPERT: "expert-parallel communication takes no time",
    Stream.DATA: "data-parallel communication takes no time",
    Stream.PIPELINE: "sends between stages take no time",
}
#: Savings below this share of the step say nothing.
_LEAST_SHARE = 1e-4


def predict_parallel_program(
    target: str,
    cluster: str | Cluster,
    world_size: int | None = None,
    *,
    cost_model: str | CostModel | None = None,
    captures_all: bool = False,
    with_spans: bool = False,
    recommendations: bool = True,
    constants: StepConstants | None = None,
    **options: Any,
) -> PlanForecast:
    """Forecast one step of a parallel program of one's own.

    Args:
        target: ``FILE.py:FUNCTION`` (see ``workload.models.user_file``).
        cluster: Catalog name with ``:N`` for its devices, or the cluster itself.
        world_size: Ranks of the program; the cluster's devices by default, and no other number.
        options: Of ``Request``: mode, batch_size (of a rank), sequence_length, dtype, optimizer …
        cost_model, captures_all, with_spans, recommendations, constants: See ``ParallelProgramRequest``.

    Raises:
        InputError: Unknown names, a program that cannot be captured, ranks that do not fit the cluster.
    """
    place = load_cluster(cluster) if isinstance(cluster, str) else cluster
    world_size = place.num_devices if world_size is None else world_size
    return forecast_parallel_program(
        ParallelProgramRequest(
            workload=Request(model=target, world_size=world_size, **options),
            cluster=place,
            cost_model=cost_model,
            captures_all=captures_all,
            with_spans=with_spans,
            recommendations=recommendations,
            constants=constants,
        )
    )


def forecast_parallel_program(request: ParallelProgramRequest) -> PlanForecast:
    """Capture the ranks that differ, price what they run, and simulate them together.

    Raises:
        InputError: As ``predict_parallel_program``.
    """
    from perfcast.workload.parallel_program.calls import calls_of
    from perfcast.workload.parallel_program.capture import capture_parallel_program

    device = resolve_device(request.cluster.device)
    cost_model = resolve_cost_model(request.cost_model, device)
    workload, defaults = complete_request(request.workload, device)
    request = replace(request, workload=workload)
    build, capture_options = program_and_options(workload, device)
    world_size = request.cluster.num_devices
    program = capture_parallel_program(build, capture_options, world_size, captures_all=request.captures_all)
    graphs = [_lowered(rank.graph, device, request.workload) for rank in program.ranks]
    calls = [calls_of(program, rank, graph) for rank, graph in zip(program.ranks, graphs, strict=True)]
    constants = request.constants or load_step_constants()
    scene = _Scene(request, program, graphs, calls, device, cost_model, constants)
    return replace(scene.forecast(), defaults=defaults)


def _lowered(graph: Graph, device: Device, request: Request) -> Graph:
    from perfcast.workload.lower import lower

    return lower(graph, device, request.dtype)


@dataclass(frozen=True)
class _Scene:
    """A captured program where it runs."""

    request: ParallelProgramRequest
    program: ParallelProgram
    graphs: Sequence[Graph]
    calls: Sequence[RankCalls]
    device: Device
    cost_model: CostModel
    constants: StepConstants

    @property
    def workload(self) -> Request:
        """What a rank runs."""
        return self.request.workload

    @property
    def cluster(self) -> Cluster:
        """Where the ranks run."""
        return self.request.cluster

    def forecast(self) -> PlanForecast:
        """Price, simulate, and say what it rests on."""
        operations = tuple(dict.fromkeys(c.operation for one in self.calls for c in one.calls))
        prices = price_operations(operations, self.device, self.cost_model, self.cluster)
        time, stages = self._time(prices.seconds, self._launch_seconds, with_spans=self.request.with_spans)
        busiest = self.program.class_of_rank[time.ranks[0].rank]
        runs = Counter((call.operation, call.stream) for call in self.calls[busiest].calls)
        low, high = relative_interval(runs, prices, time.ranks[0], self.constants.interval_widening)
        dtype = self._dtype()
        peak = self.device.peak_flops_per_second(DTYPES_BY_LABEL[dtype], matrix_units=True)
        return PlanForecast(
            model=self.workload.title, cluster=self.cluster.name, device=self.device.name,
            num_devices=self.cluster.num_devices, mode=self.workload.mode, method="simulated", plan=None,
            training=None, dtype=dtype, sequence_length=self._tokens_of_a_sequence(),
            cost_model=self.cost_model.name, time=time,
            step_seconds_low=low * time.step_seconds, step_seconds_high=high * time.step_seconds,
            num_tokens=self._num_tokens(len(stages)),
            flops=self.program.flops, recompute_flops=self.program.recompute_flops,
            peak_flops_per_second=peak,
            parameter_count=sum(self.program.ranks[stage].graph.parameter_count for stage in stages),
            program=modules_of(self.workload, self.device),
            recommendations=self._recommendations(prices, time) if self.request.recommendations else (),
            seconds_by_provenance=seconds_by_provenance(runs, prices),
            assumptions=(*self._assumptions(len(stages)), *self.request.notes),
        )  # fmt: skip

    @property
    def _launch_seconds(self) -> float:
        """Of the host from one kernel to the next, of the rank that it paces most."""
        if self.device.is_cpu:
            return 0.0
        host = host_of(self.device, "eager", self.workload.host)
        return max(host.pace_seconds(graph) for graph in self.graphs)

    def _time(
        self, seconds: Mapping[Operation, float], launch_seconds: float, *, with_spans: bool = False
    ) -> tuple[StepTime, tuple[int, ...]]:
        """The step, and the classes of the stages of one pipeline."""
        from perfcast.prediction.parallel_program.simulation import simulate_ranks_of
        from perfcast.prediction.parallel_program.time import step_time_of

        played = simulate_ranks_of(self.program, self.calls, seconds, launch_seconds=launch_seconds)
        return step_time_of(played, with_spans=with_spans), played.stage_classes

    # ---- what is counted --------------------------------------------------------------------

    def _dtype(self) -> str:
        """Label of the precision of most flops."""
        flops: Counter[DType] = Counter()
        for node in self.graphs[0].nodes:
            operation = self.graphs[0].operations[node.operation]
            if operation.kind in MATRIX_KINDS:
                flops[operation.compute_dtype] += operation.flops
        most = max(flops, key=flops.__getitem__, default=DTYPES_BY_LABEL[self.workload.dtype])
        labels = {dtype: label for label, dtype in DTYPES_BY_LABEL.items()}
        return labels.get(most, self.workload.dtype)

    @property
    def _lookups(self) -> tuple[int, ...]:
        """Tokens of each lookup in rank 0's largest embedding, with a sequence's length as the last."""
        graph = self.graphs[0]
        lookups = [node for node in graph.nodes if graph.operations[node.operation].name == "embedding"]
        words = [graph.operations[node.operation].inputs for node in lookups if not node.recomputed]
        largest = max((table.shape[0] for table, _ in words), default=0)
        indices = [index for table, index in words if table.shape[0] == largest]
        return (*(math.prod(index.shape) for index in indices), *(i.shape[-1] for i in indices[:1]))

    def _tokens_of_a_sequence(self) -> int:
        stated = self.program.ranks[0].program.sequence_length or self.workload.sequence_length
        return stated or (self._lookups[-1] if self._lookups else 1)

    def _num_tokens(self, num_stages: int) -> int:
        """Each replica, of tensor-parallel ranks and stages together, has a batch of its own."""
        batch = self.program.ranks[0].program.batch_size * self.workload.num_micro_batches
        own = sum(self._lookups[:-1]) or batch * self._tokens_of_a_sequence()
        return own * self._num_replicas(num_stages)

    def _num_replicas(self, num_stages: int) -> int:
        return max(self.program.world_size // (self._tensor_size * num_stages), 1)

    @property
    def _tensor_size(self) -> int:
        one = self.calls[0]
        sizes = [
            len(collective.ranks)
            for call, collective in zip(one.calls, one.collectives, strict=True)
            if collective is not None and call.stream is Stream.TENSOR
        ]
        return max(sizes, default=1)

    # ---- what would help, and what is assumed -----------------------------------------------

    def _recommendations(self, prices: Prices, base: StepTime) -> tuple[BoundRecommendation, ...]:
        if base.num_events > _MOST_CALLS_TO_RELAX:
            return ()
        found = []
        for stream, name in _RELAXED.items():
            operations = {call.operation for one in self.calls for call in one.calls if call.stream is stream}
            if operations:
                seconds = {**prices.seconds, **dict.fromkeys(operations, 0.0)}
                found.append((name, self._time(seconds, self._launch_seconds)[0].step_seconds))
        if self._launch_seconds:
            found.append(("the host is never late", self._time(prices.seconds, 0.0)[0].step_seconds))
        before = base.step_seconds
        kept = [BoundRecommendation(n, s, before - s) for n, s in found if before - s > _LEAST_SHARE * before]
        return tuple(sorted(kept, key=lambda recommendation: -recommendation.saved_seconds))

    def _assumptions(self, num_stages: int) -> tuple[str, ...]:
        notes = [*self.program.ranks[0].graph.notes, self._about_captures(), self._about_replicas(num_stages)]
        notes.append(self._about_memory())
        if self._launch_seconds:
            notes.append(
                f"eager execution; the host issues a kernel every {self._launch_seconds * MEGA:.1f} µs"
            )
        notes.append(f"{self.cluster.name}: ranks fill its levels from inside; no other job shares its links")
        notes += about_prices(self.cost_model, self.device)
        notes += [f"{place.name}: {place.note}" for place in (self.device, self.cluster) if place.note]
        return tuple(notes)

    def _about_captures(self) -> str:
        program, differ = self.program, len(self.program.ranks)
        if program.num_captured == program.world_size:
            return f"all {program.world_size} ranks captured, of which {differ} differ"
        sizes = " × ".join(str(axis.size) for axis in program.axes)
        return (
            f"{program.num_captured} of {program.world_size} ranks captured, of which {differ} differ; the "
            f"others are taken to be like those at the ends of their axes, of {sizes} ranks"
        )

    def _about_replicas(self, num_stages: int) -> str:
        return (
            f"each of {self._num_replicas(num_stages)} replicas, of {num_stages} stages and "
            f"{self._tensor_size} tensor-parallel ranks, has a batch of its own"
        )

    def _about_memory(self) -> str:
        peaks = [estimate_memory(graph, self.device.memory_bytes).peak_bytes for graph in self.graphs]
        worst = max(range(len(peaks)), key=peaks.__getitem__)
        held, capacity = peaks[worst], self.device.memory_bytes
        relation = "of the" if held <= capacity else "more than the"
        return (
            f"tensors of rank {self.program.ranks[worst].rank} take {format_bytes(held)} at their peak, "
            f"{relation} {format_bytes(capacity)} of a device"
        )
