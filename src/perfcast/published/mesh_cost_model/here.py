"""The whole composition on the machine at hand: measured, forecast, and held against the step really run.

    calibrate (beside working neighbours) → lines; capture on virtual ranks → operators, memory, collectives;
    profile along predefined axes, or discover them from pairs → a line for each axis; step; the same step on
    real processes

Everything that was measured is kept in one folder as it is found; a run that was stopped goes on there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcast.core.collective import message_bytes
from perfcast.core.graph import Graph
from perfcast.core.mode import Mode
from perfcast.core.operation import OperationKind
from perfcast.cost.cluster_profile import ClusterProfile, CollectiveSample
from perfcast.cost.linear import LinearCost
from perfcast.cost.profile import DeviceProfile, data_folder, local_device
from perfcast.errors import CalibrationError, InputError
from perfcast.files.reading import read_bytes
from perfcast.files.records import Kind, Plain, open_records
from perfcast.measure.collectives import store
from perfcast.measure.collectives.plan import LEAST_BYTES, MOST_BYTES, PROFILED, Axis, make_plan
from perfcast.measure.collectives.profile import profile_here
from perfcast.measure.mesh_discovery.found import DiscoveredMesh
from perfcast.measure.mesh_discovery.matrix import PairSamples
from perfcast.measure.mesh_discovery.worker import launch_and_discover
from perfcast.measure.steps import StepTime
from perfcast.measure.together.calibration import calibrate_together, crowding_of, threads_of_rank
from perfcast.measure.together.programs import RankedStep, check_devices, program_of, request_of
from perfcast.measure.together.steps import RankedTime, measure_together, replicated
from perfcast.memory_use.first_touch import with_first_touch
from perfcast.prediction.model import read_model
from perfcast.published.comparison import print_part
from perfcast.published.mesh_cost_model.axes import ALL_REDUCE, Mesh, discovered_mesh, profiled_mesh
from perfcast.published.mesh_cost_model.models import MODELS, USUAL_BATCH_SIZE, reference_of
from perfcast.published.mesh_cost_model.step import MeshCost, estimate_step

if TYPE_CHECKING:
    pass

#: Told of the share that is done, None where it is not known, and of what is being done.
OnProgress = Callable[[float | None, str], None]


@dataclass(frozen=True, kw_only=True)
class MeshStepRequest:
    """Which steps, on which mesh of processes of this machine.

    Attributes:
        models: As ``Request.model`` names them, or of ``models.MODELS``; empty takes all of those.
        num_ranks: Processes.
        mesh: Axes, the first varying slowest; empty takes one, 'world'.
        discovers: Whether the mesh is found from pairs of ranks, not given.
        device: 'cpu' (gloo) or 'cuda' (NCCL, a GPU for each rank).
        batch_size: Of each rank.
        measures: Whether the steps are also really run.
        quick: A third of the calibration's measurements.
        restart: Begin anew; what was measured stays beside, as ``.old``.
        folder: Where measurements are kept; None: in the user's data folder.
    """

    models: tuple[str, ...] = ()
    num_ranks: int = 2
    mesh: tuple[Axis, ...] = ()
    discovers: bool = False
    device: str = "cpu"
    mode: Mode = "train"
    batch_size: int | None = None
    sequence_length: int | None = None
    measures: bool = True
    quick: bool = False
    restart: bool = False
    folder: Path | None = None


@dataclass(frozen=True)
class StepOnMesh:
    """A model's step, forecast and measured.

    Attributes:
        model: As it was asked for.
        is_replicated: Whether it was wrapped in ``DistributedDataParallel``.
        measured: None where it was not run.
        reason: Why there is no forecast, or no measurement; '' where there are both.
    """

    model: str
    is_replicated: bool = False
    cost: MeshCost | None = None
    measured: RankedTime | None = None
    reason: str = ""

    @property
    def error(self) -> float | None:
        """Forecast over measured, less one."""
        if self.cost is None or self.measured is None:
            return None
        return self.cost.step_seconds / self.measured.time.seconds - 1

    @property
    def quiet_error(self) -> float | None:
        """The same against the step less its waits for a processor; None where those are not told."""
        if self.cost is None or self.measured is None or self.measured.quiet_seconds is None:
            return None
        return self.cost.step_seconds / self.measured.quiet_seconds - 1

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured step lies in the forecast's interval."""
        return None if self.measured is None else self._holds(self.measured.time.seconds)

    @property
    def is_quiet_inside(self) -> bool | None:
        """The same of the measured step less its waits for a processor."""
        return None if self.measured is None else self._holds(self.measured.quiet_seconds)

    def _holds(self, seconds: float | None) -> bool | None:
        if self.cost is None or seconds is None:
            return None
        return self.cost.step_seconds_low <= seconds <= self.cost.step_seconds_high


@dataclass(frozen=True)
class MeshStepAnswer:
    """All of it.

    Attributes:
        profile: The calibration of a rank.
        mesh: With the line of each axis and collective.
        cluster: What was profiled, with its samples; None of a discovered mesh, or of one rank.
        discovered: None of a predefined mesh; with the pairs that were measured.
    """

    request: MeshStepRequest
    threads: int
    folder: Path
    profile: DeviceProfile
    mesh: Mesh
    steps: tuple[StepOnMesh, ...]
    cluster: ClusterProfile | None = None
    samples: tuple[CollectiveSample, ...] = ()
    discovered: DiscoveredMesh | None = None
    pairs: PairSamples | None = None

    @property
    def crowding(self) -> float:
        """Threads of all ranks for each core, at least 1; 1 where every rank has a GPU."""
        return 1.0 if self.request.device == "cuda" else crowding_of(self.request.num_ranks)

    @property
    def errors(self) -> tuple[float, ...]:
        """Of the steps that were forecast and measured."""
        return tuple(step.error for step in self.steps if step.error is not None)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary, without the memory of each node."""
        return {
            "device": self.request.device,
            "processor": self.profile.processor,
            "num_ranks": self.request.num_ranks,
            "threads_of_rank": self.threads,
            "crowding": self.crowding,
            "mode": self.request.mode,
            "axes": [axis.to_json() for axis in self.mesh.axes],
            "ranks": list(self.mesh.ranks),
            "discovered": None if self.discovered is None else self.discovered.to_json(),
            "steps": [_plain(step) for step in self.steps],
        }


def _plain(step: StepOnMesh) -> dict[str, Any]:
    found: dict[str, Any] = {"model": step.model, "is_replicated": step.is_replicated, "reason": step.reason}
    if step.cost is not None:
        cost = asdict(replace(step.cost, memory=()))
        del cost["memory"]
        found["forecast"] = {"step_seconds": step.cost.step_seconds, **cost}
    if step.measured is not None:
        found["measured"] = asdict(step.measured)
    return {
        **found,
        "relative_error": step.error,
        "is_inside": step.is_inside,
        "quiet_relative_error": step.quiet_error,
    }


def forecast_here(
    request: MeshStepRequest, on_progress: OnProgress = lambda share, what: None
) -> MeshStepAnswer:
    """Measure the machine and its mesh, forecast the steps, and run them.

    A step that cannot be forecast or run says why, and the others go on.

    Raises:
        InputError: A mesh that does not hold the ranks, more ranks than one machine runs, no such model, or
            no step that can be forecast.
        CalibrationError: A process died, or nothing that was measured can be fitted.
    """
    _check(request)
    folder = request.folder or _usual_folder(request)
    profile = calibrate_together(
        request.device, request.num_ranks, folder, quick=request.quick, restart=request.restart,
        on_share=lambda share: on_progress(share, "measuring kernels"),
    )  # fmt: skip
    steps = [_ranked(request, name, folder) for name in request.models or MODELS]
    on_progress(None, "capturing the steps")
    captured = [_captured(step, profile) for step in steps]
    known = [one for one in captured if isinstance(one, _Captured)]
    answer = _with_mesh(
        MeshStepAnswer(request, threads_of_rank(request.num_ranks), folder, profile, Mesh(()), ()),
        _messages(known), on_progress,
    )  # fmt: skip
    found = []
    for name, step, one in zip(request.models or MODELS, steps, captured, strict=True):
        on_progress(None, f"running {name} on {request.num_ranks} ranks")
        found.append(_step(name, step, one, answer))
    if all(step.cost is None for step in found):
        raise InputError(found[0].reason)
    return replace(answer, steps=tuple(found))


def _check(request: MeshStepRequest) -> None:
    """Raises InputError before anything is measured."""
    if request.device == "cuda":
        check_devices(request.num_ranks)
    if request.discovers and request.mesh:
        raise InputError("--discover finds the mesh; it takes no --mesh")
    if request.num_ranks > 1:
        make_plan(request.mesh, request.num_ranks, _backend(request), (ALL_REDUCE,))
    elif request.discovers or math.prod(axis.size for axis in request.mesh) != 1:
        raise InputError("one rank has no mesh: leave out --mesh and --discover, or take more --ranks")
    for name in request.models:
        if name not in MODELS:
            read_model(name)


def _backend(request: MeshStepRequest) -> str:
    return "nccl" if request.device == "cuda" else "gloo"


def _usual_folder(request: MeshStepRequest) -> Path:
    """One for each number of ranks: kernels beside other neighbours take other times."""
    return data_folder() / "mesh_step" / f"{request.device}_{request.num_ranks}"


# ---- programs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Captured:
    """What rank 0 runs."""

    graph: Graph
    is_replicated: bool
    overlaps: bool


def _ranked(request: MeshStepRequest, name: str, folder: Path) -> RankedStep:
    model = read_model(reference_of(name) if name in MODELS else name)
    usual = USUAL_BATCH_SIZE if name in MODELS else 1
    length = model.usual_sequence_length if request.sequence_length is None else request.sequence_length
    return RankedStep(
        model=model.name,
        mode=request.mode,
        batch_size=request.batch_size or usual,
        sequence_length=length,
        num_ranks=request.num_ranks,
        is_replicated=not model.is_program and request.mode == "train",
        profile_folder=str(folder.resolve()),
        device=request.device,
    )


def _captured(step: RankedStep, profile: DeviceProfile) -> _Captured | InputError:
    """The step of rank 0: as written, and replicated where it is a training without a collective."""
    try:
        found = _capture(step, profile)
        has_none = not _collectives(found.graph)
        if has_none and step.num_ranks > 1 and step.mode == "train" and not step.is_replicated:
            return _capture(replace(step, is_replicated=True), profile)
    except InputError as error:
        return error
    return found


def _capture(step: RankedStep, profile: DeviceProfile) -> _Captured:
    from perfcast.workload.lower import lower
    from perfcast.workload.parallel_program.streams import COMPUTE
    from perfcast.workload.parallel_program.virtual_ranks import RankCaptures

    build, options = program_of(step, profile)
    captures = RankCaptures(
        lambda: replicated(build()) if step.is_replicated else build(), options, step.num_ranks
    )
    found = captures.capture(0)
    graph = lower(found.graph, local_device(profile), request_of(step).dtype)
    if step.device == "cpu":
        graph = with_first_touch(graph)
    return _Captured(graph, step.is_replicated, any(name != COMPUTE for name in found.streams.names))


def _collectives(graph: Graph) -> list[tuple[str, int]]:
    """Name and bytes of each collective that is run."""
    return [
        (operation.name, message_bytes(operation))
        for operation in (graph.operations[index] for index in {node.operation for node in graph.nodes})
        if operation.kind is OperationKind.COLLECTIVE
    ]


def _messages(captured: Sequence[_Captured]) -> list[tuple[str, int]]:
    return [message for one in captured for message in _collectives(one.graph)]


# ---- mesh --------------------------------------------------------------------------------------


def _with_mesh(
    answer: MeshStepAnswer, messages: Sequence[tuple[str, int]], on_progress: OnProgress
) -> MeshStepAnswer:
    """The mesh, profiled with the collectives that the steps run and as large as theirs, or discovered."""
    request = answer.request
    if request.num_ranks == 1:
        return answer
    if request.discovers:
        on_progress(None, "measuring pairs of ranks")
        found, pairs = launch_and_discover(request.num_ranks)
        return replace(answer, mesh=discovered_mesh(found), discovered=found, pairs=pairs)
    names = dict.fromkeys([ALL_REDUCE, *(name for name, _ in messages if name in PROFILED)])
    largest = max([MOST_BYTES // 4, *(size for _, size in messages)])
    most = min(2 ** math.ceil(math.log2(largest)), 16 * MOST_BYTES)
    plan = make_plan(request.mesh, request.num_ranks, _backend(request), tuple(names), LEAST_BYTES, most)
    path = answer.folder / f"mesh_{plan.mesh.replace('=', '').replace(',', '_')}.json"
    on_progress(None, f"measuring {', '.join(names)} along {plan.mesh}")
    cluster = profile_here(plan, path, restart=request.restart)
    records = store.load_records(store.measurements_path(path), plan.setup())
    wanted = plan.keys()
    samples = tuple(record.sample() for record in records if record.key in wanted)
    return replace(answer, mesh=profiled_mesh(cluster), cluster=cluster, samples=samples)


# ---- steps -------------------------------------------------------------------------------------


def _step(
    name: str, step: RankedStep, captured: _Captured | InputError, answer: MeshStepAnswer
) -> StepOnMesh:
    if not isinstance(captured, _Captured):
        return StepOnMesh(name, step.is_replicated, reason=f"not forecast: {captured}")
    step = replace(step, is_replicated=captured.is_replicated)
    profile = answer.profile
    try:
        cost = estimate_step(
            captured.graph,
            local_device(profile),
            LinearCost(profile),
            answer.mesh,
            overlaps=captured.overlaps,
            crowding=answer.crowding,
        )
    except InputError as error:
        return StepOnMesh(name, step.is_replicated, reason=f"not forecast: {error}")
    if not answer.request.measures:
        return StepOnMesh(name, step.is_replicated, cost, reason="not run: only the forecast was asked for")
    try:
        measured = _measured(step, answer)
    except CalibrationError as error:
        return StepOnMesh(name, step.is_replicated, cost, reason=f"could not be run here: {error}")
    return StepOnMesh(name, step.is_replicated, cost, measured)


_KIND = Kind("mesh steps", 1, lambda data: _parse_step(data))


def _parse_step(data: Plain) -> tuple[str, RankedTime]:
    time = StepTime(**data["time"])
    if not (isinstance(data["key"], str) and math.isfinite(time.seconds) and time.seconds > 0):
        raise ValueError(f"{data['key']}: measured {time.seconds!r} s")
    return data["key"], RankedTime(time, data["waited_share"], data["quiet_seconds"])


def _measured(step: RankedStep, answer: MeshStepAnswer) -> RankedTime:
    """As it was measured before, or run now and kept."""
    key = _key(step, answer.threads)
    with open_records(answer.folder / "steps.jsonl", _KIND, restart=False) as file:
        known = dict(file.records)
        if key in known and not answer.request.restart:
            return known[key]
    found = measure_together(step)
    with open_records(answer.folder / "steps.jsonl", _KIND) as file:
        file.append({"key": key, **asdict(found)})
    return found


def _key(step: RankedStep, threads: int) -> str:
    """All that decides a step: a program of a file by what the file holds."""
    name, _, function = step.model.rpartition(":")
    is_program = ".py:" in step.model
    digest = hashlib.sha256(read_bytes(name, what="the program")).hexdigest()[:16] if is_program else ""
    asked = (digest, function, step.mode, step.batch_size, step.sequence_length, step.num_ranks)
    how = (step.is_replicated, step.device, threads, version("torch"))
    return " ".join(map(str, (*asked, *how)))


if __name__ == "__main__":
    print_part("mesh_cost_model.here", "mesh_cost_model")
