"""What would make a plan fit: recomputation, ZeRO, smaller micro-batches, tensor parallelism, offload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from perfcast.core.forecast.footprint import Remedy
from perfcast.core.hardware import Device
from perfcast.core.plan import RECOMPUTE, Offload, Plan, Recompute
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.errors import PlanError
from perfcast.memory.footprint import estimate_footprint
from perfcast.prediction.plan.step_cost import StepCost, estimate_step_cost

_LARGEST_TENSOR_PARALLEL = 8
_MOST_CHANGES = 3
_MOST_COMBINED = 5
#: Stages that each framework has, and whose habits are known here.
_ZERO_STAGES = {
    "pytorch": (1, 3), "fsdp": (3,), "megatron": (1,), "megatron_local": (1,), "nanotron": (1,),
    "deepspeed": (1, 2, 3),
}  # fmt: skip


def find_remedies(
    model: Transformer, plan: Plan, training: Training, sequence_length: int, device: Device
) -> tuple[Remedy, ...]:
    """Every single change that lowers what a device needs, and the cheapest combinations that fit.

    The batch of a step and the number of devices stay as they are. Single changes come first, those that
    fit before those that do not, the cheaper first; then combinations that fit, unless one change does.
    """
    before = estimate_step_cost(model, plan, training, sequence_length, device)
    needed = estimate_footprint(model, plan, training, sequence_length, device=device).device_bytes
    singles: list[Remedy] = []
    combined: list[Remedy] = []
    for changes, changed in _variants(plan, training):
        run_by = _run_by(training, changed)
        try:
            footprint = estimate_footprint(model, changed, run_by, sequence_length, device=device)
        except PlanError:
            continue
        if run_by.framework != training.framework:
            changes = (*changes[:-1], f"{changes[-1]} ({run_by.framework})")
        if footprint.device_bytes >= needed:
            continue
        cost = estimate_step_cost(model, changed, run_by, sequence_length, device)
        remedy = Remedy(
            changes=changes,
            plan=changed,
            device_bytes=footprint.device_bytes,
            fits=footprint.device_bytes <= device.memory_bytes,
            extra_seconds=cost.seconds - before.seconds,
            reasons=_reasons(before, cost),
        )
        (singles if len(changes) == 1 else combined).append(remedy)
    singles.sort(key=lambda r: (not r.fits, r.extra_seconds))
    fitting = sorted((r for r in combined if r.fits), key=lambda r: (r.extra_seconds, len(r.changes)))
    if any(remedy.fits for remedy in singles):
        cheapest = min(r.extra_seconds for r in singles if r.fits)
        fitting = [r for r in fitting if r.extra_seconds < cheapest]
    return (*singles, *fitting[:_MOST_COMBINED])


def _run_by(training: Training, plan: Plan) -> Training:
    """Whose program runs a changed plan: plain PyTorch hands over what it cannot do itself."""
    if training.framework != "pytorch":
        return training
    if plan.zero_stage == 3:
        return replace(training, framework="fsdp")
    if plan.tensor_parallel > 1:
        return replace(training, framework="megatron")
    return replace(training, framework="deepspeed") if plan.offload != "none" else training


def _variants(plan: Plan, training: Training) -> Iterator[tuple[tuple[str, ...], Plan]]:
    """Plans that differ in one to three keys, with what differs in words.

    Selective recomputation is left out with flash attention, which keeps nothing of the scores.
    """
    recompute: list[Recompute] = [
        kind
        for kind in RECOMPUTE[RECOMPUTE.index(plan.recompute) :]
        if kind in (plan.recompute, "full") or training.attention != "flash"
    ]
    stages = _ZERO_STAGES[training.framework] if plan.num_dense_replicas > 1 else ()
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
        return replace(
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


def _reasons(before: StepCost, after: StepCost) -> tuple[str, ...]:
    causes = {
        "products": after.product_seconds - before.product_seconds,
        "weights read": after.weight_seconds - before.weight_seconds,
        "tensor-parallel exchange": after.tensor_exchange_seconds - before.tensor_exchange_seconds,
        "data-parallel exchange": after.data_exchange_seconds - before.data_exchange_seconds,
        "host": after.offload_seconds - before.offload_seconds,
        "bubble": after.bubble_seconds - before.bubble_seconds,
    }
    moved = sorted(causes.items(), key=lambda item: -abs(item[1]))
    return tuple(f"{name} {seconds:+.3g} s" for name, seconds in moved if abs(seconds) >= 1e-6)
