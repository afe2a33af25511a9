"""Inference: the plan and batch of the highest throughput within limits on a token's time.

Every cut of the model that the devices allow is tried with growing batches. A larger batch never answers
sooner, so that a plan's batches end with the first that breaks a limit or overfills the memory; between that
and the one before it is bisected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import CONTEXT_COMMUNICATION, ORDERS, Plan
from perfcast.core.plans.text import EVEN, PlanValue
from perfcast.core.precision import Precision
from perfcast.core.program import StepProgram
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.frameworks.precision import serving_precision
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.program import DEFAULT_SERVING, choose_program
from perfcast.prediction.request.batches import BatchesRequest
from perfcast.prediction.request.command import name_of_cost_model, predict_command
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.sweep.batches import BatchPoint, held_bytes, split_batch, sweep_batches
from perfcast.searches.resolve import Progress, cluster_stem, ignore_progress
from perfcast.searches.serving.batches_request import ServingObjective, ServingSearchRequest
from perfcast.searches.space.definition import Space
from perfcast.searches.space.fixed import write_fixed
from perfcast.searches.space.impossible import Job, explain_none
from perfcast.searches.space.listing import list_cores, map_plans
from perfcast.units import HOUR, format_bytes, format_seconds

#: Sequences of one replica beyond which no batch is tried.
_LARGEST_SHARE = 4096
#: Bisection ends when a batch is known to this part of itself.
_PRECISION = 1 / 8
#: What a user may fix of inference, and what other keys of a plan are there.
_DEGREES = ("dp", "tp", "pp", "ep", "etp", "sp")
_OF_INFERENCE: Mapping[str, PlanValue] = {
    "cp": 1, "vp": 1, "mbs": 1, "zero": 0, "recompute": "none", "recompute_layers": 0, "schedule": "1f1b",
    "offload": "none", "order": ORDERS[0], "cp_type": CONTEXT_COMMUNICATION[0], "reshard": 1,
    "overlap_tensor": 0, "overlap_gradients": 1, "overlap_weights": 1, "overlap_experts": 0, "stages": EVEN,
}  # fmt: skip


@dataclass(frozen=True)
class ServingChoice:
    """A plan with the batch that serves it best."""

    plan: Plan
    point: BatchPoint
    tokens_per_second: float


@dataclass(frozen=True)
class ServingResult:
    """Plans by throughput, the highest first, each with its best batch.

    Attributes:
        program: What answers.
        defaults: What was chosen of precision and context, in words.
        points: All that was forecast.
        num_plans: Cuts of the model.
        asked_cluster, asked_cost_model: As a command line names them; None: the usual one.
        dollars_per_device_hour: None without a price.
    """

    request: ServingSearchRequest
    program: StepProgram
    defaults: tuple[str, ...]
    model: str
    cluster: str
    device: str
    num_devices: int
    capacity_bytes: int
    context_length: int
    cost_model: str
    ranked: tuple[ServingChoice, ...]
    points: tuple[ServingChoice, ...]
    num_plans: int
    dollars_per_device_hour: float | None
    assumptions: tuple[str, ...]
    asked_cluster: str = ""
    asked_cost_model: str | None = None

    def command(self, choice: ServingChoice) -> str:
        """The ``perfcast predict`` that forecasts a plan and its batch with the same time and memory."""
        asked = PlanRequest(
            model=self.model,
            cluster=self.asked_cluster,
            plan=split_batch(choice.plan, choice.point.batch_size),
            mode=self.request.mode,
            dtype=self.request.dtype,
            kv_cache_dtype=self.request.kv_cache_dtype,
            framework=self.request.framework,
            sequence_length=self.context_length,
            cost_model=self.asked_cost_model,
        )
        return predict_command(asked, self.model, self.asked_cluster)

    def dollars_per_token(self, choice: ServingChoice) -> float | None:
        """Of all devices; None without a price."""
        if self.dollars_per_device_hour is None:
            return None
        return self.dollars_per_device_hour * self.num_devices / HOUR / choice.tokens_per_second


def search_serving(
    request: ServingSearchRequest,
    cluster: Cluster,
    *,
    asked: str = "",
    on_plan: Callable[[int, int], None] = lambda done, total: None,
) -> ServingResult:
    """The best plans and batches on one cluster.

    Args:
        asked: What the request calls the cluster, by which its price is found.
        on_plan: Told how many plans of how many are done.

    Raises:
        PlanError: None keeps the limits; says which limit, and how close the closest comes.
        InputError: Unknown names.
    """
    device = resolve_device(cluster.device)
    asked_cost = request.cost_models.get(cluster.device)
    price = None if request.prices is None else request.prices.of_cluster(cluster, asked)
    model = read_model(request.model)
    program = choose_program(model, request.mode, framework=request.framework, is_local=device.is_cpu)
    chosen = choose_defaults(
        model, request.mode, device, dtype=request.dtype, sequence_length=request.context_length
    )
    request = replace(request, dtype=chosen.dtype, framework=program.framework)
    cost_model = resolve_cost_model(asked_cost, device, program.framework)
    context = model.sequence_length(request.context_length)
    plans = list_serving_plans(model.sizes, cluster.num_devices, context, request.fixed)
    memory_bytes = round(request.max_memory_fraction * device.memory_bytes)
    precision = serving_precision(chosen.dtype, program.framework, request.kv_cache_dtype)
    setting = _Setting(request, cluster, device, model, context, cost_model, memory_bytes, precision)
    tried: list[ServingChoice] = []
    kept: list[ServingChoice] = []
    for done, plan in enumerate(plans):
        on_plan(done, len(plans))
        choices = _try_batches(setting, plan)
        tried += choices
        within = [choice for choice in choices if _is_within(setting, choice.point)]
        kept += [max(within, key=lambda choice: choice.tokens_per_second)] if within else []
    on_plan(len(plans), len(plans))
    if not kept:
        raise PlanError(_explain_none(setting, plans, tried))
    kept.sort(key=lambda choice: -choice.tokens_per_second)
    return ServingResult(
        request, program, chosen.notes, model.name, cluster.name, device.name, cluster.num_devices,
        device.memory_bytes, context, cost_model.name, tuple(kept[: request.top]), tuple(tried), len(plans),
        price, _assumptions(kept[0]), f"{cluster_stem(asked or cluster.name)}:{cluster.num_devices}",
        None if asked_cost is None else name_of_cost_model(asked_cost),
    )  # fmt: skip


@dataclass(frozen=True)
class ServingReport:
    """Inference over clusters.

    Attributes:
        objective: 'tokens-per-second' (of a device) or 'dollars-per-token'.
        results: Best cluster first.
        failed: Clusters without a plan, as asked for, and why.
    """

    objective: str
    results: tuple[ServingResult, ...]
    failed: tuple[tuple[str, str], ...] = ()


def report_serving(request: ServingSearchRequest, on_progress: Progress = ignore_progress) -> ServingReport:
    """Search every cluster of a request and order them.

    Raises:
        PlanError: No cluster has a plan; says why, of each.
        InputError: Unknown names, no price of a cluster.
    """
    request = replace(request, model=read_model(request.model))
    targets = {name: load_cluster(name) for name in request.clusters}
    if request.prices is not None:
        for name, target in targets.items():
            request.prices.of_cluster(target, name)  # what has no price is said before the search

    def search(name: str) -> ServingResult:
        return search_serving(
            request,
            targets[name],
            asked=name,
            on_plan=lambda done, total: on_progress(f"{name}: plans", done, total),
        )

    return compare_serving(request.clusters, search, request.objective)


def compare_serving(
    clusters: Sequence[str],
    search: Callable[[str], ServingResult],
    objective: ServingObjective = "tokens-per-second",
) -> ServingReport:
    """Search every cluster and order them.

    Args:
        search: One cluster's; a ``PlanError`` says that it has no plan.

    Raises:
        PlanError: No cluster has a plan; says why, of each.
    """
    results, failed = [], []
    for name in clusters:
        try:
            results.append(search(name))
        except PlanError as error:
            failed.append((name, str(error)))
    if not results:
        if len(failed) == 1:
            raise PlanError(failed[0][1])
        raise PlanError("no cluster has a plan; " + "; ".join(f"{name}: {why}" for name, why in failed))
    results.sort(key=lambda result: _cost(result, objective))
    return ServingReport(objective, tuple(results), tuple(failed))


def _cost(result: ServingResult, objective: ServingObjective) -> float:
    rate = result.ranked[0].tokens_per_second / result.num_devices
    if objective == "tokens-per-second":
        return -rate
    dollars = result.dollars_per_device_hour
    return math.inf if dollars is None else dollars / rate


def list_serving_plans(
    model: Transformer, num_devices: int, context_length: int, fixed: Mapping[str, PlanValue]
) -> list[Plan]:
    """Every dp · tp · pp · ep of the devices, without what only training has.

    Raises:
        PlanError: The fixed degrees leave none, or what is fixed is of a training.
    """
    for key, value in fixed.items():
        if key not in _DEGREES and value != _OF_INFERENCE.get(key, value):
            usual = write_fixed({key: _OF_INFERENCE[key]})
            raise PlanError(f"{write_fixed({key: value})}: it is of a training; inference has {usual}")
    space = Space(
        zero_stages=(0,), recomputes=("none",), schedules=("1f1b",), offloads=("none",), orders=ORDERS[:1],
        context_communications=CONTEXT_COMMUNICATION[:1], largest_context_parallel=1,
        largest_virtual_stages=1,
        largest_micro_batch=1, recompute_layers=(0,), stage_splits=(EVEN,), overlaps_gradients=(1,),
        fixed={"sp": 0, **fixed},
    )  # fmt: skip
    job = Job(model, num_devices, None, context_length, implied={"sp"} - fixed.keys())
    cores = list_cores(model, num_devices, job.least_batch, context_length, space)
    table, _ = map_plans(cores, model, space)
    if not len(table):
        raise PlanError(explain_none(job, space))
    return [table.plan(at) for at in range(len(table))]


@dataclass(frozen=True, slots=True)
class _Setting:
    """What all plans share."""

    request: ServingSearchRequest
    cluster: Cluster
    device: Device
    model: NamedModel
    context: int
    cost_model: CostModel
    memory_bytes: int
    precision: Precision


def _try_batches(setting: _Setting, plan: Plan) -> list[ServingChoice]:
    """Forecasts of one plan with the batch asked for, or with growing ones; none where not even one fits."""
    choices: list[ServingChoice] = []

    def keeps(share: int) -> bool:
        batch = share * plan.data_parallel
        if _least_bytes(setting, plan, batch) > setting.memory_bytes:
            return False
        choice = _forecast(setting, plan, batch)
        if choice is None:
            return False
        choices.append(choice)
        return _is_within(setting, choice.point)

    asked = setting.request.batch_size
    if asked is not None:
        if asked % plan.data_parallel == 0:
            keeps(asked // plan.data_parallel)
        return choices
    low, high = 0, 1
    while high <= _LARGEST_SHARE and keeps(high):
        low, high = high, 2 * high
    while low and high <= _LARGEST_SHARE and high - low > max(1, _PRECISION * low):
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return choices


def _forecast(setting: _Setting, plan: Plan, batch: int) -> ServingChoice | None:
    """One batch; None where the model cannot be cut so."""
    request = setting.request
    found = sweep_batches(
        BatchesRequest(
            model=setting.model,
            cluster=setting.cluster,
            plan=plan,
            batch_sizes=(batch,),
            context_lengths=(setting.context,),
            modes=request.phases,
            dtype=request.dtype,
            kv_cache_dtype=request.kv_cache_dtype,
            framework=request.framework,
            cost_model=setting.cost_model,
        )
    )
    point = found.points[0]
    phase = point.prefill if request.mode == "prefill" else point.decode
    return None if phase is None else ServingChoice(plan, point, phase.tokens_per_second)


def _least_bytes(setting: _Setting, plan: Plan, batch: int) -> float:
    """Of the device that needs most; infinite where the model cannot be cut so."""
    try:
        split = split_batch(plan, batch)
        return held_bytes(
            setting.model.sizes,
            split,
            setting.precision,
            setting.context,
            setting.request.phases,
            setting.device,
            setting.request.framework or DEFAULT_SERVING,
        )
    except PlanError:
        return math.inf


def _is_within(setting: _Setting, point: BatchPoint) -> bool:
    return point.memory_bytes <= setting.memory_bytes and not broken_limits(setting.request, point)


def broken_limits(request: ServingSearchRequest, point: BatchPoint) -> tuple[str, ...]:
    """Limits that a forecast exceeds, as options."""
    rows = (
        ("--max-ttft", request.max_first_seconds, point.prefill),
        ("--max-tpot", request.max_token_seconds, point.decode),
    )
    return tuple(
        option
        for option, limit, phase in rows
        if limit is not None and phase is not None and phase.seconds > limit
    )


def _explain_none(setting: _Setting, plans: Sequence[Plan], tried: Sequence[ServingChoice]) -> str:
    """Which demand excludes every plan, and how close the closest comes."""
    request = setting.request
    if not tried:
        if request.batch_size is not None:
            plans = [plan for plan in plans if request.batch_size % plan.data_parallel == 0]
        if not plans:
            return f"--global-batch-size {request.batch_size}: no plan's dp divides it"
        batches = [request.batch_size or plan.data_parallel for plan in plans]
        pairs = zip(plans, batches, strict=True)
        least = min(_least_bytes(setting, plan, batch) for plan, batch in pairs)
        if not math.isfinite(least):
            return f"none of {len(plans)} plans can cut the model"
        return (
            f"none of {len(plans)} plans fits the memory of {format_bytes(setting.memory_bytes)}; "
            f"the smallest takes {format_bytes(least)} per device"
        )
    firsts = [c.point.prefill.seconds for c in tried if c.point.prefill is not None]
    tokens = [c.point.decode.seconds for c in tried if c.point.decode is not None]
    for option, limit, seconds in (
        ("--max-ttft", request.max_first_seconds, firsts),
        ("--max-tpot", request.max_token_seconds, tokens),
    ):
        if limit is not None and seconds and min(seconds) > limit:
            return (
                f"{option} {format_seconds(limit)} excludes all of {len(plans)} plans; "
                f"the fastest takes {format_seconds(min(seconds))}"
            )
    return f"no plan of {len(plans)} keeps --max-ttft and --max-tpot at once, though each alone can be kept"


def _assumptions(best: ServingChoice) -> tuple[str, ...]:
    phases = [phase for phase in (best.point.prefill, best.point.decode) if phase is not None]
    notes = dict.fromkeys(note for phase in phases for note in phase.forecast.assumptions)
    return (
        "all prompts of a batch arrive at once; nothing queues",
        "a token's time is at the full context",
        *notes,
    )
