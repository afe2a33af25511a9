"""Why a plan wins: its time by cause and memory by category, and what changes to another plan.

A difference of two plans is exact: causes of each add up to its step, terms to its peak, so the differences
add up to the difference of the steps and of the peaks. Beside each cause stands which of the dimensions that
it depends on the two plans set differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.core.forecast.plan import CAUSES, PlanForecast
from perfcast.core.plan import Plan
from perfcast.core.plans.text import EVEN, KEY_OF_FIELD, PLAN_KEYS, PlanValue
from perfcast.errors import PlanError

#: Dimensions of a plan as they are said, in the order of speaking; of experts' tensor parallelism what it
#: comes to.
SPOKEN: Mapping[str, str] = {
    **{key.field: name for name, key in PLAN_KEYS.items() if name != "etp"},
    "tensor_parallel_of_experts": "etp",
    "num_micro_batches": "micro-batches",
}
_CUTS = ("tensor_parallel", "context_parallel", "expert_parallel", "tensor_parallel_of_experts")
_BATCHES = ("micro_batch_size", "num_micro_batches")
_CHUNKS = ("pipeline_parallel", "virtual_stages_per_rank", "schedule", "stage_layers")
_SHARDS = ("data_parallel", "context_parallel", "zero_stage", "reshard_after_forward", "num_prefetched",
           "num_shards", "bucket_bytes", "overlaps_gradients", "overlaps_weights")  # fmt: skip
_AGAIN = ("recompute", "recompute_layers")
#: Dimensions that a cause of time depends on, the most direct first.
_DEPENDS = {
    "compute": ("micro_batch_size", *_CUTS, "sequence_parallel", "data_parallel", "pipeline_parallel",
                "expert_imbalance", "capacity_factor", "stage_layers", "overlaps_tensor"),
    "recompute": (*_AGAIN, "micro_batch_size", *_CUTS),
    "optimizer": ("zero_stage", "data_parallel", "context_parallel", *_CUTS, "pipeline_parallel", "offload"),
    "tensor": ("tensor_parallel", "sequence_parallel", "overlaps_tensor", *_BATCHES, *_AGAIN, "order"),
    "context": ("context_parallel", "context_communication", *_BATCHES, *_AGAIN, "order"),
    "expert": ("expert_parallel", "tensor_parallel_of_experts", "overlaps_experts",
               "overlaps_shared_experts", "dispatch",
               "capacity_factor", *_BATCHES, *_AGAIN, "order"),
    "data": (*_SHARDS, "tensor_parallel", "pipeline_parallel", "num_micro_batches", "order"),
    "pipeline": (*_CHUNKS, *_BATCHES, "tensor_parallel", "context_parallel", "order"),
    "offload": ("offload", *_BATCHES),
    "bubble": (*_CHUNKS, "num_micro_batches", *_AGAIN),
    "host": (*_BATCHES, *_CHUNKS, *_CUTS, *_AGAIN),
    "straggler": ("expert_imbalance",),
    "other": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One amount of two plans: seconds of a cause, or bytes of a category.

    Attributes:
        before, after: Of the first and of the second plan.
        because: Dimensions that it depends on and the plans differ in, 'tp=8 → tp=4'.
    """

    name: str
    before: float
    after: float
    because: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """What the second plan has more."""
        return self.after - self.before


@dataclass(frozen=True)
class Explanation:
    """Where the step and the memory of a plan go.

    Attributes:
        label: What the plan is called: 'winner', or as the user named it.
        seconds_by_cause: Mean over all ranks; they add up to the step.
        bytes_by_category: Of the worst stage at its peak; with 'reserve and context' they add up to
            ``device_bytes``. Empty where no closed form of the memory is known.
    """

    label: str
    forecast: PlanForecast
    seconds_by_cause: Mapping[str, float]
    bytes_by_category: Mapping[str, int]

    @property
    def plan(self) -> Plan:
        """What is explained."""
        assert self.forecast.plan is not None
        return self.forecast.plan


@dataclass(frozen=True)
class Difference:
    """From one plan to another.

    Attributes:
        dimensions: What is set differently, 'tp=8 → tp=4', in the order of ``SPOKEN``.
        causes: Of the step, the largest difference first.
        categories: Of the memory, likewise.
        sentences: The same in words.
    """

    first: Explanation
    second: Explanation
    dimensions: tuple[str, ...]
    causes: tuple[Change, ...]
    categories: tuple[Change, ...]
    sentences: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """What the second plan's step takes longer."""
        return self.second.forecast.step_seconds - self.first.forecast.step_seconds


#: What the device holds beside what the program allocates.
RESERVE = "reserve and context"


def explain_plan(forecast: PlanForecast, label: str) -> Explanation:
    """Time by cause and memory by category.

    Raises:
        PlanError: A forecast of a program that has no plan.
    """
    if forecast.plan is None:
        raise PlanError(f"{label}: a program of its own has no plan to explain")
    categories: dict[str, int] = {}
    if forecast.memory is not None:
        footprint = forecast.memory.footprint
        for term in footprint.peak_stage.peak.terms:
            categories[term.category] = categories.get(term.category, 0) + term.num_bytes
        categories[RESERVE] = footprint.device_bytes - footprint.peak_bytes
    return Explanation(label, forecast, forecast.time.seconds_by_cause, categories)


def explain_difference(first: Explanation, second: Explanation) -> Difference:
    """What changes from one plan to the other, by cause, by category and in words."""
    differing = differing_dimensions(first.plan, second.plan)
    causes = [
        Change(
            cause, first.seconds_by_cause.get(cause, 0.0), second.seconds_by_cause.get(cause, 0.0),
            tuple(differing[name] for name in dict.fromkeys(_DEPENDS[cause]) if name in differing),
        )
        for cause in CAUSES
    ]  # fmt: skip
    names = dict.fromkeys((*first.bytes_by_category, *second.bytes_by_category))
    categories = [
        Change(name, first.bytes_by_category.get(name, 0), second.bytes_by_category.get(name, 0))
        for name in names
    ]
    changed = _sorted(causes)
    return Difference(
        first, second, tuple(differing.values()), changed, _sorted(categories),
        _sentences(first, second, changed),
    )  # fmt: skip


def differing_dimensions(first: Plan, second: Plan) -> dict[str, str]:
    """Dimensions that two plans set differently, by field: 'tp=8 → tp=4'.

    >>> differing_dimensions(Plan(tensor_parallel=8), Plan(tensor_parallel=4))["tensor_parallel"]
    'tp=8 → tp=4'
    """
    found = {}
    for name, key in SPOKEN.items():
        before, after = getattr(first, name), getattr(second, name)
        if before != after:
            found[name] = f"{key}={_said(name, before)} → {key}={_said(name, after)}"
    if "tensor_parallel" in found and "expert_parallel" not in found and first.expert_parallel == 1:
        found.pop("tensor_parallel_of_experts", None)  # it follows where experts are not spread
    return found


def _said(field: str, value: PlanValue | None) -> str:
    if value is None:
        return "default"
    if value == ():
        return EVEN
    key = KEY_OF_FIELD.get(field)
    return str(value) if key is None else PLAN_KEYS[key].write(value)


def _sorted(changes: list[Change]) -> tuple[Change, ...]:
    """Those of which either plan has any, the largest difference first."""
    known = [change for change in changes if change.before or change.after]
    return tuple(sorted(known, key=lambda change: -abs(change.difference)))


#: Differences below this share of the step are not worth a sentence.
_LEAST_SHARE = 0.005


def _sentences(first: Explanation, second: Explanation, causes: tuple[Change, ...]) -> tuple[str, ...]:
    """The step, then what is gained, then what is lost."""
    step, other = first.forecast.step_seconds, second.forecast.step_seconds
    word = "slower" if other > step else "faster"
    sentences = [f"{second.label} is {100 * abs(other / step - 1):.1f} % {word} than {first.label}"]
    for change in causes:
        if abs(change.difference) < _LEAST_SHARE * step:
            continue
        more = "more" if change.difference > 0 else "less"
        because = f" ({', '.join(change.because)})" if change.because else ""
        share = 100 * abs(change.difference) / step
        sentences.append(f"{share:.1f} % of the step {more} for {_CAUSE_NOUNS[change.name]}{because}")
    return tuple(sentences)


_CAUSE_NOUNS = {
    "compute": "compute", "recompute": "computing activations again", "optimizer": "the optimizer",
    "tensor": "tensor-parallel communication", "context": "context-parallel communication",
    "expert": "expert-parallel communication", "data": "data-parallel communication",
    "pipeline": "sends between stages", "offload": "copies to and from the host",
    "bubble": "the pipeline's bubble", "host": "launches by the host", "straggler": "slower ranks",
    "other": "everything else",
}  # fmt: skip
