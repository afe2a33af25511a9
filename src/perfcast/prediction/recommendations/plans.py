"""What would make a plan fit: recomputation, ZeRO, smaller micro-batches, tensor parallelism, offload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf

from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import RECOMPUTE, Offload, Plan, Recompute
from perfcast.core.plans.idle import without_idle
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.frameworks.choice import framework_instead
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint import device_bytes_of_plans, estimate_footprint
from perfcast.prediction.recommendations.plan_times import PlanTime, time_plans

_LARGEST_TENSOR_PARALLEL = 8
_MOST_CHANGES = 3
_MOST_COMBINED = 5


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A changed plan, and what it needs of a device."""

    changes: tuple[str, ...]
    plan: Plan
    training: Training
    device_bytes: int


def find_plan_recommendations(
    model: Transformer,
    plan: Plan,
    training: Training,
    sequence_length: int,
    device: Device,
    *,
    cluster: Cluster | None,
    cost_model: CostModel | None = None,
) -> tuple[float | None, tuple[PlanRecommendation, ...]]:
    """Seconds of a step, every single change that lowers what a device needs, and combinations that fit.

    The batch of a step and the number of devices stay as they are. Single changes come first, those that
    fit before those that do not, the cheaper first; then the cheapest combinations that fit, unless one
    change does.

    Args:
        cluster, cost_model: What steps are timed on, and by which prices; None: no time is known.
    """
    needed = estimate_footprint(model, plan, training, sequence_length, device=device).device_bytes
    candidates = list(_candidates(model, plan, training, sequence_length, device, needed))
    plans = [(plan, training), *((one.plan, one.training) for one in candidates)]
    times: Sequence[PlanTime | PlanError | None] = [None] * len(plans)
    if cluster is not None and cost_model is not None:
        times = time_plans(model, plans, sequence_length, device, cluster, cost_model)
    before = times[0]
    found = [
        PlanRecommendation(
            changes=one.changes,
            plan=one.plan,
            device_bytes=one.device_bytes,
            fits=one.device_bytes <= device.memory_bytes,
            extra_seconds=_extra_seconds(before, time),
            reasons=_reasons(before, time),
            training=one.training,
            sequence_length=sequence_length,
            tokens_per_second=one.plan.global_batch_size * sequence_length / time.step_seconds
            if isinstance(time, PlanTime)
            else None,
        )
        for one, time in zip(candidates, times[1:], strict=True)
    ]
    return before.step_seconds if isinstance(before, PlanTime) else None, tuple(_best(found))


def _best(recommendations: Sequence[PlanRecommendation]) -> list[PlanRecommendation]:
    """Single changes, and the cheapest combinations that are worth more than one."""
    singles = sorted(
        (r for r in recommendations if len(r.changes) == 1), key=lambda r: (not r.fits, _cost(r))
    )
    combined = [r for r in recommendations if len(r.changes) > 1 and r.fits]
    combined.sort(key=lambda r: (_cost(r), len(r.changes)))
    if any(recommendation.fits for recommendation in singles):
        cheapest = min(_cost(r) for r in singles if r.fits)
        combined = [r for r in combined if _cost(r) < cheapest]
    return [*singles, *combined[:_MOST_COMBINED]]


def _cost(recommendation: PlanRecommendation) -> float:
    """What it is ranked by; one whose time is not known stands behind those whose is."""
    return inf if recommendation.extra_seconds is None else recommendation.extra_seconds


def _candidates(
    model: Transformer, plan: Plan, training: Training, sequence_length: int, device: Device, needed: int
) -> Iterator[_Candidate]:
    """Changed plans that need less."""
    run_by: dict[Training, list[tuple[tuple[str, ...], Plan]]] = {}
    order: list[tuple[Training, int]] = []
    for changes, changed in _variants(plan, training):
        framework = framework_instead(training.framework, changed)
        if framework != training.framework:
            changes = (*changes[:-1], f"{changes[-1]} ({framework})")
        alike = run_by.setdefault(replace(training, framework=framework), [])
        order.append((replace(training, framework=framework), len(alike)))
        alike.append((changes, changed))
    held = {
        run: device_bytes_of_plans(
            model, [changed for _, changed in rows], run, sequence_length, device=device
        )
        for run, rows in run_by.items()
    }
    for run, at in order:
        changes, changed = run_by[run][at]
        needs = held[run][at]
        if needs is not None and needs < needed:
            yield _Candidate(changes, changed, run, needs)


def _variants(plan: Plan, training: Training) -> Iterator[tuple[tuple[str, ...], Plan]]:
    """Plans that differ in one to three keys, with what differs in words.

    Selective recomputation of the core is left out with flash attention, which keeps nothing of the scores.
    """
    profile = load_training_profile(training.framework)
    by_operators = profile.selective == "operators" and "selective" in profile.support.recomputes
    recompute: list[Recompute] = [
        kind
        for kind in RECOMPUTE[RECOMPUTE.index(plan.recompute) :]
        if kind in (plan.recompute, "full") or training.attention != "flash" or by_operators
    ]
    known = profile.support.recommended_zero_stages
    stages = known if plan.num_dense_replicas > 1 else ()
    zero = sorted({plan.zero_stage, *(stage for stage in stages if stage > plan.zero_stage)})
    halvings = [n for n in range(10) if plan.micro_batch_size % 2**n == 0]
    widenings = [
        n
        for n in range(4)
        if plan.data_parallel % 2**n == 0
        and (n == 0 or plan.tensor_parallel * 2**n <= _LARGEST_TENSOR_PARALLEL)
    ]
    offloads: list[Offload] = [plan.offload] if plan.offload != "none" else ["none", "optimizer"]
    for kind, stage, halving, widening, offload in product(recompute, zero, halvings, widenings, offloads):
        changes = []
        if kind != plan.recompute:
            changes.append(f"recompute={kind}")
        if stage != plan.zero_stage:
            changes.append(f"zero={stage}")
        if halving:
            changes.append(f"micro-batch size {plan.micro_batch_size // 2**halving}")
        if widening:
            changes.append(f"tp={plan.tensor_parallel * 2**widening}, sp=1")
        if offload != plan.offload:
            changes.append(f"offload={offload}")
        if not 1 <= len(changes) <= _MOST_CHANGES:
            continue
        changed = _change(plan, kind, stage, 2**halving, 2**widening, offload)
        if changed is not None:
            yield tuple(changes), changed


def _change(
    plan: Plan, kind: Recompute, stage: int, halving: int, widening: int, offload: Offload
) -> Plan | None:
    """The plan with as many devices and as large a batch; None where its groups do not divide."""
    try:
        changed = replace(
            plan,
            recompute=kind,
            zero_stage=stage,
            micro_batch_size=plan.micro_batch_size // halving,
            num_micro_batches=plan.num_micro_batches * halving * widening,
            tensor_parallel=plan.tensor_parallel * widening,
            data_parallel=plan.data_parallel // widening,
            sequence_parallel=plan.sequence_parallel or widening > 1,
            offload=offload,
        )
    except PlanError:
        return None
    return without_idle(changed, mode="train")


def _extra_seconds(before: PlanTime | PlanError | None, after: PlanTime | PlanError | None) -> float | None:
    if isinstance(before, PlanTime) and isinstance(after, PlanTime):
        return after.step_seconds - before.step_seconds
    return None


def _reasons(before: PlanTime | PlanError | None, after: PlanTime | PlanError | None) -> tuple[str, ...]:
    """What the step spends more, or less, of; else why its time is not known."""
    if isinstance(after, PlanError):
        return (str(after),)
    if not (isinstance(before, PlanTime) and isinstance(after, PlanTime)):
        return ()
    changes = {
        cause: seconds - before.seconds_by_cause[cause] for cause, seconds in after.seconds_by_cause.items()
    }
    moved = sorted(changes.items(), key=lambda item: -abs(item[1]))
    return tuple(f"{cause} {seconds:+.3g} s" for cause, seconds in moved if abs(seconds) >= 1e-6)
