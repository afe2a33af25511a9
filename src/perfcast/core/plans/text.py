"""Plans as text: ``tp=8,pp=4,zero=1,mbs=2``. One vocabulary, one parser, one printer.

What a search prints, every option that takes a plan reads, and JSON holds it: the text states a plan as far
as it departs from the usual one. The devices say what data parallelism is left, and the batch how many
micro-batches a replica has (``core.plans.choice``).

    plan   = item { ("," | blank) item }
    item   = key "=" value
    value  = whole number | number | 0 or 1 | word
           | layers of stages "7/8/8/7" | bytes "25MiB" | what overlaps "tensor+weights"
           | what is recomputed "core_attn+moe_act"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perfcast.core.plan import (
    CONTEXT_COMMUNICATION,
    DISPATCHES,
    OFFLOAD,
    ORDERS,
    RECOMPUTE,
    RECOMPUTE_MODULES,
    SCHEDULES,
    Plan,
)
from perfcast.core.words import known_word
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.ranges import Range, read_number, read_whole
from perfcast.units import PETA, UNIT_FACTORS

PlanValue = bool | int | float | str | tuple[int, ...] | tuple[str, ...]
#: What a text says of a plan, by the fields of ``Plan``; ``stage_layers`` may be a word of ``STAGE_WORDS``.
PlanValues = Mapping[str, PlanValue]

#: How a search may deal layers out to stages: as the framework does, or with fewer at the ends.
EVEN, BALANCED = "even", "balanced"
STAGE_WORDS = (EVEN, BALANCED)
_HIGHEST_ZERO_STAGE = 3
_EXCERPT = 60
_BYTE_UNITS = ("KiB", "MiB", "GiB", "MB", "GB")


@dataclass(frozen=True, slots=True)
class PlanKey:
    """A key of the vocabulary: the field of ``Plan`` that it states, how its value is read and written.

    Attributes:
        read: Raises ValueError with what is wrong, such as 'not a whole number', or UnknownNameError.
    """

    field: str
    read: Callable[[str], PlanValue]
    write: Callable[[PlanValue], str] = str


#: Of any key; the plan has the ranges of each.
_NUMBERS = Range(-PETA, PETA)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("not a whole number")
    return read_whole("", text, _NUMBERS, _NoNumberError)


def _degree(text: str) -> int:
    degree = _whole(text)
    if degree < 1:
        raise ValueError("must be at least 1")
    return degree


def _zero_stage(text: str) -> int:
    stage = _whole(text)
    if stage > _HIGHEST_ZERO_STAGE:
        raise ValueError("must be 0, 1, 2 or 3")
    return stage


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("must be 0 or 1")
    return text == "1"


def _number(text: str) -> float:
    return read_number("", text, _NUMBERS, _NoNumberError)


def _bytes(text: str) -> int:
    """``'40MB'``, ``'25MiB'`` or a number of bytes."""
    for unit in _BYTE_UNITS:
        if text.endswith(unit):
            return round(_number(text.removesuffix(unit)) * UNIT_FACTORS[unit])
    return _whole(text)


def _layers(text: str) -> PlanValue:
    if text in STAGE_WORDS:
        return text
    parts = text.split("/")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ValueError(f"layers of each stage, such as 7/8/8/7, or {' or '.join(STAGE_WORDS)}")
    return tuple(_whole(part) for part in parts)


def _modules(text: str) -> PlanValue:
    """``'core_attn+moe_act'``, each once, in the order of ``RECOMPUTE_MODULES``."""
    named = [known_word("module to recompute", module, RECOMPUTE_MODULES) for module in text.split("+")]
    return tuple(module for module in RECOMPUTE_MODULES if module in named)


def _write_modules(value: PlanValue) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _word(kind: str, known: tuple[str, ...]) -> Callable[[str], str]:
    return lambda text: known_word(kind, text, known)


def _write_switch(value: PlanValue) -> str:
    return str(int(bool(value)))


def _write_layers(value: PlanValue) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


#: What may run beside the compute, by its word in ``overlap=``.
OVERLAPS: Mapping[str, str] = MappingProxyType(
    {
        "tensor": "overlaps_tensor",
        "gradients": "overlaps_gradients",
        "weights": "overlaps_weights",
        "experts": "overlaps_experts",
    }
)
#: The key that states all of ``OVERLAPS`` at once: ``overlap=tensor+weights``, ``overlap=none``.
OVERLAP = "overlap"

#: The vocabulary, in the order in which plans are written.
PLAN_KEYS: Mapping[str, PlanKey] = MappingProxyType(
    {
        "tp": PlanKey("tensor_parallel", _degree),
        "pp": PlanKey("pipeline_parallel", _degree),
        "cp": PlanKey("context_parallel", _degree),
        "ep": PlanKey("expert_parallel", _degree),
        "dp": PlanKey("data_parallel", _degree),
        "vp": PlanKey("virtual_stages_per_rank", _degree),
        "zero": PlanKey("zero_stage", _zero_stage),
        "etp": PlanKey("expert_tensor_parallel", _degree),
        "sp": PlanKey("sequence_parallel", _switch, _write_switch),
        "reshard": PlanKey("reshard_after_forward", _switch, _write_switch),
        "schedule": PlanKey("schedule", _word("schedule", SCHEDULES)),
        "recompute": PlanKey("recompute", _word("recompute", RECOMPUTE)),
        "recompute_layers": PlanKey("recompute_layers", _degree),
        "recompute_modules": PlanKey("recompute_modules", _modules, _write_modules),
        "offload": PlanKey("offload", _word("offload", OFFLOAD)),
        "order": PlanKey("order", _word("order of the ranks", ORDERS)),
        "cp_type": PlanKey("context_communication", _word("context communication", CONTEXT_COMMUNICATION)),
        "shards": PlanKey("num_shards", _degree),
        "tp_inputs": PlanKey("tensor_parallel_inputs", _degree),
        "prefetch": PlanKey("num_prefetched", _whole),
        "bucket": PlanKey("bucket_bytes", _bytes),
        "capacity": PlanKey("capacity_factor", _number, repr),
        "imbalance": PlanKey("expert_imbalance", _number, repr),
        "dispatch": PlanKey("dispatch", _word("dispatch", DISPATCHES)),
        "stages": PlanKey("stage_layers", _layers, _write_layers),
        **{f"{OVERLAP}_{word}": PlanKey(field, _switch, _write_switch) for word, field in OVERLAPS.items()},
        f"{OVERLAP}_shared_experts": PlanKey("overlaps_shared_experts", _switch, _write_switch),
        "mbs": PlanKey("micro_batch_size", _degree),
    }
)
#: Field of ``Plan`` → its key.
KEY_OF_FIELD: Mapping[str, str] = MappingProxyType({key.field: name for name, key in PLAN_KEYS.items()})


def parse_plan(text: str, option: str = "--plan") -> PlanValues:
    """``'tp=2,recompute=full'`` → what it says of a plan, by the fields of ``Plan``.

    Args:
        option: Where the text was given, for messages.

    Raises:
        PlanError: An item that is not KEY=VALUE, a value that its key cannot have, or two values of a field.
        UnknownNameError: A key or a word that is not one; names those that are close.
    """
    values: dict[str, PlanValue] = {}
    for item in text.replace(",", " ").split():
        key, equals, value = item.partition("=")
        if not equals or not value:
            raise PlanError(f"{option}: '{_short(item)}' is not KEY=VALUE")
        try:
            stated = _read_item(key, value)
        except (ValueError, _NoNumberError) as error:
            raise PlanError(f"{option} {_short(item)}: {str(error).strip()}") from None
        for field, each in stated.items():
            if field in values:
                raise PlanError(f"{option}: {key} is given twice")
            values[field] = each
    return values


class _NoNumberError(InputError):
    """A value that is no number of its key; the item is named where it is read."""


def _short(item: str) -> str:
    return item if len(item) <= _EXCERPT else f"{item[:_EXCERPT]}…"


def _read_item(key: str, value: str) -> PlanValues:
    if key == OVERLAP:
        return _read_overlaps(value)
    if key not in PLAN_KEYS:
        known = (*PLAN_KEYS, OVERLAP)
        raise UnknownNameError("plan key", key, known, f"Known: {', '.join(known)}.")
    return {PLAN_KEYS[key].field: PLAN_KEYS[key].read(value)}


def _read_overlaps(value: str) -> PlanValues:
    """``'tensor+weights'`` → what runs beside the compute, and what does not; 'none' for nothing."""
    named = [] if value == "none" else value.split("+")
    for name in named:
        if name not in OVERLAPS:
            raise UnknownNameError("overlap", name, OVERLAPS, f"Known: none, or {' + '.join(OVERLAPS)}.")
    return {field: name in named for name, field in OVERLAPS.items()}


def format_plan(plan: Plan, separator: str = ",") -> str:
    """A plan as every option takes it.

    >>> format_plan(Plan(tensor_parallel=2, data_parallel=4, sequence_parallel=True))
    'tp=2,dp=4,mbs=1'
    """
    return format_values(stated_values(plan), separator)


def format_values(values: PlanValues, separator: str = ",") -> str:
    """What ``parse_plan`` reads as these values."""
    return separator.join(_items(values))


def _items(values: PlanValues) -> Iterator[str]:
    states_overlaps = all(field in values for field in OVERLAPS.values())
    for name, key in PLAN_KEYS.items():
        if name == "mbs" and states_overlaps:
            running = [word for word, field in OVERLAPS.items() if values[field]]
            yield f"{OVERLAP}={'+'.join(running) or 'none'}"
        if key.field in values and not (states_overlaps and key.field in OVERLAPS.values()):
            yield f"{name}={key.write(values[key.field])}"


def stated_values(plan: Plan) -> PlanValues:
    """What a text must say of a plan: where it departs from the usual, and the size of a micro-batch."""
    usual = Plan()
    said = {
        key.field: getattr(plan, key.field)
        for key in PLAN_KEYS.values()
        if getattr(plan, key.field) != getattr(usual, key.field)
    }
    said["micro_batch_size"] = plan.micro_batch_size
    if OVERLAPS.values() & said.keys():
        said |= {field: getattr(plan, field) for field in OVERLAPS.values()}
    follows = plan.tensor_parallel if plan.expert_parallel == 1 else 1
    said.pop("expert_tensor_parallel", None)
    if plan.tensor_parallel_of_experts != follows:
        said["expert_tensor_parallel"] = plan.tensor_parallel_of_experts
    said.pop("sequence_parallel", None)
    if plan.sequence_parallel != usual_sequence_parallel(plan.tensor_parallel, plan.tensor_parallel_inputs):
        said["sequence_parallel"] = plan.sequence_parallel
    said.pop("reshard_after_forward", None)
    if plan.reshard_after_forward != usual_reshard(plan.zero_stage, plan.pipeline_parallel):
        said["reshard_after_forward"] = plan.reshard_after_forward
    if plan.recompute != "selective":
        said.pop("recompute_modules", None)
    if plan.virtual_stages_per_rank > 1:
        del said["schedule"]  # no other has chunks
    return said


def usual_reshard(zero_stage: int, pipeline_parallel: int) -> bool:
    """Whether gathered weights are given up behind a forward where a plan does not say.

    Stages of a pipeline keep them, so as not to gather for every micro-batch (torchtitan:
    models/llama3/infra/parallelize.py, fsdp_reshard_after_forward "default").
    """
    return zero_stage < _HIGHEST_ZERO_STAGE or pipeline_parallel == 1


def usual_sequence_parallel(tensor_parallel: int, tensor_parallel_inputs: int) -> bool:
    """Whether the sequence is cut beside the weights where a plan does not say."""
    return tensor_parallel > 1 and tensor_parallel_inputs == 1
