"""What would make a training fit and is no longer quite the same, or takes more devices, and what it costs.

Narrower moments (Dettmers et al., ICLR 2022), adapters (Hu et al., 2021), those beside four-bit weights
(Dettmers et al., 2023), the longest sequence that fits, the fewest devices of the doublings. Each is checked
by the footprint and timed as plans are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.tuning.text import format_tuning
from perfcast.core.tuning.trained import Adapters, Tuning
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.frameworks.choice import framework_instead
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.plan.cluster import cluster_of_device
from perfcast.prediction.plan.smallest import choose_smallest_plan
from perfcast.prediction.recommendations.plan_times import PlanTime, time_plans

#: Devices are doubled so often at most.
_MOST_DOUBLINGS = 12
_SERVER_DEVICES = 8
#: Tokens to a multiple of which a shorter sequence is rounded down, where that leaves any.
_SEQUENCE_STEP = 128
_NARROW_MOMENTS = "moments in 8 bits: the loss may differ a little"
_ADAPTERS = "another training: adapters alone, the model stays as it is"
_SHORTER = "another training: sequences are cut, and the loss with them"
#: Of a plan, the cluster that it is timed on; None: no time is known.
ClusterOf = Callable[[Plan], Cluster | None]


@dataclass(frozen=True, slots=True)
class _Other:
    """A changed training or plan, and what it needs of a device."""

    changes: tuple[str, ...]
    plan: Plan
    training: Training
    sequence_length: int
    caveat: str
    device_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The training that does not fit, or is to need less."""

    model: Transformer
    plan: Plan
    training: Training
    sequence_length: int
    device: Device

    def needed(self, plan: Plan, training: Training, sequence_length: int) -> int | None:
        """Bytes of a device; None of what cannot be run."""
        try:
            found = estimate_footprint(self.model, plan, training, sequence_length, device=self.device)
        except PlanError:
            return None
        return found.device_bytes

    def other(
        self, changes: tuple[str, ...], caveat: str, *, plan: Plan | None = None,
        training: Training | None = None, sequence_length: int | None = None,
    ) -> _Other | None:  # fmt: skip
        """A change with what it needs; None where it cannot be run."""
        plan, training = plan or self.plan, training or self.training
        length = sequence_length or self.sequence_length
        needed = self.needed(plan, training, length)
        return None if needed is None else _Other(changes, plan, training, length, caveat, needed)

    def fits(self, num_bytes: int | None) -> bool:
        """Whether a device holds so much."""
        return num_bytes is not None and num_bytes <= self.device.memory_bytes


def find_other_recommendations(
    model: Transformer,
    plan: Plan,
    training: Training,
    sequence_length: int,
    device: Device,
    *,
    cluster_of: ClusterOf = lambda plan: None,
    cost_model: CostModel | None = None,
) -> tuple[PlanRecommendation, ...]:
    """Changes that need less of a device but are another training, or take more devices, with their cost.

    Args:
        cluster_of, cost_model: What steps are timed on, and by which prices; None: no time is known.
    """
    asked = _Asked(model=model, plan=plan, training=training, sequence_length=sequence_length, device=device)
    needed = asked.needed(plan, training, sequence_length)
    if needed is None:
        return ()
    found = [*_narrow_moments(asked), *_adapters(asked), *_shorter_sequences(asked), *_more_devices(asked)]
    before = _time(asked, plan, training, sequence_length, cluster_of, cost_model)
    return tuple(
        _recommendation(asked, other, before, cluster_of, cost_model)
        for other in found
        if other.device_bytes < needed
    )


def _with_recomputation(asked: _Asked, other: _Other | None) -> Iterator[_Other]:
    """The change, and where it does not fit alone, with recomputation in full."""
    if other is None:
        return
    yield other
    if asked.fits(other.device_bytes) or other.plan.recompute == "full":
        return
    plan = replace(other.plan, recompute="full", recompute_modules=())
    both = asked.other(
        (*other.changes, "recompute=full"), other.caveat,
        plan=plan, training=other.training, sequence_length=other.sequence_length,
    )  # fmt: skip
    if both is not None and asked.fits(both.device_bytes):
        yield both


def _narrow_moments(asked: _Asked) -> Iterator[_Other]:
    """Adam's two moments in a byte each; plain PyTorch has no such optimizer of its own."""
    if asked.training.optimizer not in ("adam", "adamw"):
        return
    training, change = replace(asked.training, optimizer="adamw_8bit"), "optimizer=adamw_8bit"
    if training.framework == "pytorch":
        training, change = replace(training, framework="deepspeed"), f"{change} (deepspeed)"
    yield from _with_recomputation(asked, asked.other((change,), _NARROW_MOMENTS, training=training))


def _adapters(asked: _Asked) -> Iterator[_Other]:
    """Adapters beside all linear layers, and beside four-bit weights, where the framework has them."""
    support = load_training_profile(asked.training.framework).support
    kinds = [Adapters(), *([Adapters(base="nf4")] if support.has_four_bit_weights else [])]
    if not support.has_adapters or asked.training.tuning.is_quantised:
        return
    if asked.training.tuning.adapters is not None:
        kinds = [replace(asked.training.tuning.adapters, base="nf4")] if support.has_four_bit_weights else []
    for adapters in kinds:
        tuning = Tuning(adapters=adapters)
        training = replace(asked.training, tuning=tuning)
        change = asked.other((format_tuning(tuning),), _ADAPTERS, training=training)
        yield from _with_recomputation(asked, change)


def _shorter_sequences(asked: _Asked) -> Iterator[_Other]:
    """The longest sequence that fits, as the plan is; with recomputation in full where none does."""
    if asked.fits(asked.needed(asked.plan, asked.training, asked.sequence_length)):
        return
    for recompute in dict.fromkeys((asked.plan.recompute, "full")):
        plan = asked.plan
        if recompute != plan.recompute:
            plan = replace(plan, recompute="full", recompute_modules=())
        length = _longest(asked, plan)
        if length:
            changes = [f"--sequence-length {length}"]
            if recompute != asked.plan.recompute:
                changes.append("recompute=full")
            other = asked.other(tuple(changes), _SHORTER, plan=plan, sequence_length=length)
            if other is not None:
                yield other
            return


def _longest(asked: _Asked, plan: Plan) -> int:
    """Tokens of the longest shorter sequence that fits; 0 where none does."""
    cuts = plan.context_parallel * plan.tensor_parallel
    step = max(1, _SEQUENCE_STEP // cuts) * cuts
    if step >= asked.sequence_length:
        step = cuts
    low, high = 0, (asked.sequence_length - 1) // step
    while low < high:
        middle = (low + high + 1) // 2
        if asked.fits(asked.needed(plan, asked.training, middle * step)):
            low = middle
        else:
            high = middle - 1
    return low * step


def _more_devices(asked: _Asked) -> Iterator[_Other]:
    """Plans of the fewest devices, of doublings, that fit: fully sharded, and cut as little as can be."""
    if asked.fits(asked.needed(asked.plan, asked.training, asked.sequence_length)):
        return
    for doubling in range(1, _MOST_DOUBLINGS + 1):
        count = asked.plan.world_size * 2**doubling
        fitting = [other for other in _plans_of(asked, count) if asked.fits(other.device_bytes)]
        if fitting:
            yield from fitting
            return


def _plans_of(asked: _Asked, count: int) -> Iterator[_Other]:
    batch = asked.plan.global_batch_size
    for plan, training in (_sharded(asked, count), _cut(asked, count)):
        if plan is None:
            continue
        words = f"{count} devices: {_degrees(plan)}"
        if training.framework != asked.training.framework:
            words += f" ({training.framework})"
        grows = plan.global_batch_size != batch
        caveat = f"a batch of {plan.global_batch_size} sequences in place of {batch}" if grows else ""
        other = asked.other((words,), caveat, plan=plan, training=training)
        if other is not None:
            yield other


def _sharded(asked: _Asked, count: int) -> tuple[Plan | None, Training]:
    """Fully sharded data parallelism over all devices, as PyTorch runs it."""
    batch, recompute = max(asked.plan.global_batch_size, count), asked.plan.recompute
    training = asked.training
    if training.framework == "pytorch":
        training = replace(training, framework="fsdp")
    if batch % count or asked.training.framework not in ("pytorch", "fsdp", "torchtitan", "deepspeed"):
        return None, training
    plan = Plan(
        data_parallel=count, zero_stage=3, num_micro_batches=batch // count,
        recompute=recompute if recompute != "selective" else "full",
    )  # fmt: skip
    return plan, training


def _cut(asked: _Asked, count: int) -> tuple[Plan | None, Training]:
    """The plan that cuts the model least, as the framework or Megatron runs it."""
    batch = asked.plan.global_batch_size
    framework = framework_instead(asked.training.framework, Plan(tensor_parallel=2))
    training = replace(asked.training, framework=framework)
    try:
        plan = choose_smallest_plan(
            asked.model, training, asked.sequence_length, count, batch, asked.device, _SERVER_DEVICES
        )
    except PlanError:
        return None, training
    return plan, training


def _degrees(plan: Plan) -> str:
    found = {
        "dp": plan.data_parallel, "tp": plan.tensor_parallel, "pp": plan.pipeline_parallel,
        "ep": plan.expert_parallel,
    }  # fmt: skip
    words = [f"{key}={size}" for key, size in found.items() if size > 1]
    return ",".join([*words, *([f"zero={plan.zero_stage}"] if plan.zero_stage else [])])


# ---- cost ------------------------------------------------------------------------------------------------


def _time(
    asked: _Asked,
    plan: Plan,
    training: Training,
    sequence_length: int,
    cluster_of: ClusterOf,
    cost_model: CostModel | None,
) -> PlanTime | PlanError | None:
    cluster = cluster_of(plan)
    if cluster is None or cost_model is None:
        return None
    return time_plans(asked.model, [(plan, training)], sequence_length, asked.device, cluster, cost_model)[0]


def _recommendation(
    asked: _Asked,
    other: _Other,
    before: PlanTime | PlanError | None,
    cluster_of: ClusterOf,
    cost_model: CostModel | None,
) -> PlanRecommendation:
    after = _time(asked, other.plan, other.training, other.sequence_length, cluster_of, cost_model)
    extra = rate = None
    if isinstance(after, PlanTime):
        rate = other.plan.global_batch_size * other.sequence_length / after.step_seconds
        if isinstance(before, PlanTime):
            extra = after.step_seconds - before.step_seconds
    return PlanRecommendation(
        changes=other.changes,
        plan=other.plan,
        device_bytes=other.device_bytes,
        fits=asked.fits(other.device_bytes),
        extra_seconds=extra,
        reasons=(str(after),) if isinstance(after, PlanError) else (),
        caveat=other.caveat,
        training=other.training,
        sequence_length=other.sequence_length,
        tokens_per_second=rate,
    )


def cluster_or_none(device: Device, plan: Plan) -> Cluster | None:
    """The catalog's cluster of so many devices; None where it knows none."""
    try:
        return cluster_of_device(device.name, plan.world_size)
    except PlanError:
        return None
