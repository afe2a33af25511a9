"""What becomes of a training step as devices are added: the batch stays (strong scaling) or grows (weak)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfcast.catalogs.clusters import ClusterEntry, load_cluster_entry
from perfcast.core.forecast.fit import Fit
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.core.training import DTYPES, FRAMEWORKS, Training
from perfcast.core.words import known_word
from perfcast.errors import PlanError
from perfcast.frameworks.choice import default_framework
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.plan.filled_cluster import fill_cluster
from perfcast.prediction.plan.smallest import RULE, choose_smallest_plan
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.request.scale import ScaleRequest
from perfcast.prediction.step.predict import predict_step

#: Whose program trains under plans that are chosen here.
_FRAMEWORK_OF_RULE = "megatron"
#: Causes of a step's time that are exposed communication.
COMMUNICATION = ("tensor", "context", "expert", "data", "pipeline")


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """One number of devices.

    Attributes:
        batch_size: Sequences of a step, over all devices.
        forecast: None where there is none; ``skipped`` says why.
        note: How much of the cluster stays empty; '' where nothing does.
        efficiency: Tokens per second and device over those of the cluster's first point.
    """

    num_devices: int
    batch_size: int
    forecast: PlanForecast | None
    skipped: str = ""
    note: str = ""
    efficiency: float | None = None

    @property
    def exposed_share(self) -> float | None:
        """Part of the step that is exposed communication."""
        return self._share(COMMUNICATION)

    @property
    def bubble_share(self) -> float | None:
        """Part of the step that stages wait for one another."""
        return self._share(("bubble",))

    def _share(self, causes: Sequence[str]) -> float | None:
        if self.forecast is None:
            return None
        seconds = self.forecast.time.seconds_by_cause
        return sum(seconds.get(cause, 0.0) for cause in causes) / self.forecast.step_seconds


@dataclass(frozen=True, slots=True)
class ScaleCurve:
    """One cluster over its numbers of devices."""

    cluster: str
    title: str
    device: str
    points: tuple[ScalePoint, ...]


@dataclass(frozen=True, slots=True)
class ScaleForecast:
    """Curves of one model.

    Attributes:
        is_weak: Whether the batch grows with the devices.
        batch_size: Of the smallest number of devices; with strong scaling of all.
    """

    model: str
    training: Training | None
    sequence_length: int
    is_weak: bool
    batch_size: int
    curves: tuple[ScaleCurve, ...]
    assumptions: tuple[str, ...]

    @property
    def fits(self) -> tuple[Fit | None, ...]:
        """Whether the memory holds each point that has a forecast; None where that is not known."""
        found = []
        for curve in self.curves:
            for point in curve.points:
                if point.forecast is None:
                    continue
                fit = point.forecast.fit
                name = f"{point.num_devices:,} devices of {curve.cluster}"
                found.append(None if fit is None else replace(fit, of=name))
        return tuple(found)

    @property
    def programs(self) -> tuple[StepProgram, ...]:
        """What runs at the points, each once."""
        return tuple(dict.fromkeys(forecast.program for forecast in self._forecasts))

    @property
    def defaults(self) -> tuple[str, ...]:
        """What was chosen of precision and sequence, in words."""
        return tuple(dict.fromkeys(note for forecast in self._forecasts for note in forecast.defaults))

    @property
    def _forecasts(self) -> list[PlanForecast]:
        points = [point for curve in self.curves for point in curve.points]
        return [point.forecast for point in points if point.forecast is not None]


def predict_scaling(
    request: ScaleRequest, on_point: Callable[[str, int], None] | None = None
) -> ScaleForecast:
    """A forecast of every cluster at every number of devices; a point without one says why.

    Args:
        on_point: Called with cluster and devices before each.

    Raises:
        InputError: An unknown model or cluster.
    """
    model = read_model(request.model)
    length = model.sequence_length(request.sequence_length)
    request = replace(request, model=model)
    entries = map(load_cluster_entry, request.clusters)
    curves = tuple(_curve(request, model.sizes, entry, on_point) for entry in entries)
    kind = "the batch grows with the devices" if request.is_weak else "the same batch on all devices"
    notes = (kind, *((RULE,) if request.rule is None else ()), *_shared_assumptions(curves))
    return ScaleForecast(
        model.name, request.training, length, request.is_weak, request.batch_size, curves, notes
    )


def _curve(
    request: ScaleRequest,
    sizes: Transformer,
    entry: ClusterEntry,
    on_point: Callable[[str, int], None] | None,
) -> ScaleCurve:
    cost_model = resolve_cost_model(request.cost_model, resolve_device(entry.device))
    request = replace(request, cost_model=cost_model)
    points: list[ScalePoint] = []
    base: PlanForecast | None = None
    for count in sorted(set(request.devices)):
        if on_point is not None:
            on_point(entry.name, count)
        point = _point(request, sizes, entry, count)
        if point.forecast is not None:
            base = base or point.forecast
            share = point.forecast.tokens_per_second_per_device / base.tokens_per_second_per_device
            point = replace(point, efficiency=share)
        points.append(point)
    return ScaleCurve(entry.name, entry.title, entry.device, tuple(points))


def _point(request: ScaleRequest, sizes: Transformer, entry: ClusterEntry, count: int) -> ScalePoint:
    batch = request.batch_size
    if request.is_weak:
        first = min(request.devices)
        if batch * count % first:
            return ScalePoint(count, batch, None, f"{batch} · {count} / {first} is no whole batch")
        batch = batch * count // first
    try:
        cluster, note = fill_cluster(entry, count)
        plan, framework = _plan(request, sizes, cluster, batch)
        forecast = predict_step(
            PlanRequest(
                model=request.model,
                cluster=cluster,
                plan=plan,
                training=_tuned(request, plan, framework, cluster),
                dtype=request.dtype,
                framework=framework,
                compiles=request.compiles,
                recompute_is_open=request.recompute_is_open,
                sequence_length=request.sequence_length,
                cost_model=request.cost_model,
                method=request.method,
                recommendations=False,
            )
        )
    except PlanError as error:
        return ScalePoint(count, batch, None, str(error))
    return ScalePoint(count, batch, forecast, note=note)


def _plan(request: ScaleRequest, sizes: Transformer, cluster: Cluster, batch: int) -> tuple[Plan, str | None]:
    """The plan of a point, and whose program trains where that was not asked for."""
    if request.rule is not None:
        return request.rule(cluster.num_devices, batch), request.framework
    device = resolve_device(cluster.device)
    server = cluster.levels[0].size
    model = read_model(request.model)
    framework = request.framework if request.training is None else request.training.framework
    chosen = choose_defaults(
        model, "train", device, dtype=request.dtype, sequence_length=request.sequence_length
    )
    training = request.training or Training(
        dtype=known_word("dtype", chosen.dtype, DTYPES),
        framework=known_word("framework", framework or _FRAMEWORK_OF_RULE, FRAMEWORKS),
        compiles=request.compiles,
        tuning=request.tuning,
    )
    length = model.sequence_length(chosen.sequence_length)
    plan = choose_smallest_plan(sizes, training, length, cluster.num_devices, batch, device, server)
    return plan, training.framework


def _tuned(request: ScaleRequest, plan: Plan, framework: str | None, cluster: Cluster) -> Training | None:
    """How a part of the model is trained; None leaves a training of all of it to its request."""
    if request.training is not None or request.tuning.is_full:
        return request.training
    chosen = choose_defaults(
        read_model(request.model),
        "train",
        resolve_device(cluster.device),
        dtype=request.dtype,
        sequence_length=request.sequence_length,
    )
    return Training(
        dtype=known_word("dtype", chosen.dtype, DTYPES),
        framework=known_word("framework", framework or default_framework(plan), FRAMEWORKS),
        compiles=request.compiles,
        tuning=request.tuning,
    )


def _shared_assumptions(curves: Sequence[ScaleCurve]) -> tuple[str, ...]:
    """What all points assume, then how much of clusters stays empty."""
    points = [point for curve in curves for point in curve.points]
    each = [point.forecast.assumptions for point in points if point.forecast]
    shared = [note for note in each[0] if all(note in other for other in each)] if each else []
    return (*shared, *dict.fromkeys(point.note for point in points if point.note))
