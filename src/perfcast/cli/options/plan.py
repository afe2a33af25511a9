"""``--plan tp=8,pp=4,zero=1,recompute=full`` and how many devices follow from it."""

from __future__ import annotations

import math
from typing import Any

from perfcast.core.plan import Plan
from perfcast.errors import PlanError, UnknownNameError
from perfcast.units import UNIT_FACTORS

_DEGREES = {
    "dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel", "cp": "context_parallel",
    "ep": "expert_parallel", "etp": "expert_tensor_parallel", "vp": "virtual_stages_per_rank",
}  # fmt: skip
_SWITCHES = {"sp": "sequence_parallel", "reshard": "reshard_after_forward"}
_WORDS = {
    "recompute": "recompute", "schedule": "schedule", "offload": "offload", "order": "order",
    "cp_type": "context_exchange",
}  # fmt: skip
_WHOLES = {
    "zero": "zero_stage", "prefetch": "num_prefetched", "shards": "num_shards",
    "tp_inputs": "tensor_parallel_inputs", "recompute_layers": "recompute_layers",
}  # fmt: skip
_NUMBERS = {"capacity": "capacity_factor", "imbalance": "expert_imbalance"}
_OVERLAPS = {
    "tensor": "overlaps_tensor", "gradients": "overlaps_gradients", "weights": "overlaps_weights",
    "experts": "overlaps_experts",
}  # fmt: skip
KEYS = (*_DEGREES, *_SWITCHES, *_WORDS, *_WHOLES, *_NUMBERS, "stages", "overlap", "bucket")
_BYTE_UNITS = ("MB", "GB", "KiB", "MiB", "GiB")
#: Keys that a single device has a use for.
_OF_ONE_DEVICE = ("recompute", "schedule")
#: Without a batch size, micro-batches of a replica for each stage: enough that the pipeline is mostly full.
_MICRO_BATCHES_PER_STAGE = 4


def parse_plan(text: str) -> dict[str, str]:
    """``'tp=2,recompute=full'`` → its keys and values.

    Raises:
        PlanError: An item that is not KEY=VALUE, or a key twice.
        UnknownNameError: A key that is not one.
    """
    plan: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = item.partition("=")
        if not equals or not value:
            raise PlanError(f"--plan: '{item}' is not KEY=VALUE")
        if key not in KEYS:
            raise UnknownNameError("plan key", key, KEYS, f"Known: {', '.join(KEYS)}.")
        if key in plan:
            raise PlanError(f"--plan: {key} is given twice")
        plan[key] = value
    return plan


def build_plan(
    keys: dict[str, str], devices: int, batch_size: int | None, micro_batch_size: int | None
) -> Plan:
    """The plan of a number of devices; data parallelism follows where it is not given.

    Args:
        devices: 1, the default, takes as many as the degrees multiply up to.
        batch_size: Sequences of one step, over all devices; None is that of ``default_batch``.
        micro_batch_size: Of one forward; None runs a replica's share of a stated batch at once.

    Raises:
        PlanError: Degrees that do not multiply up to the devices, a batch that does not divide; the message
            states the equation.
    """
    counts = {"--devices": devices, "--batch-size": batch_size, "--micro-batch-size": micro_batch_size}
    for option, count in counts.items():
        if count is not None and count < 1:
            raise PlanError(f"{option} {count}: must be at least 1")
    degrees = _degrees(keys, devices)
    micro, num_micro_batches = _cut_batch(degrees, batch_size, micro_batch_size)
    values: dict[str, Any] = {name: keys[key] for key, name in _WORDS.items() if key in keys}
    values |= {name: _whole(key, keys[key]) for key, name in _WHOLES.items() if key in keys}
    values |= {name: _number(key, keys[key]) for key, name in _NUMBERS.items() if key in keys}
    values |= {name: _switch(key, keys[key]) for key, name in _SWITCHES.items() if key in keys}
    cuts_rows_alone = degrees.get("tensor_parallel", 1) > 1 and values.get("tensor_parallel_inputs", 1) == 1
    values.setdefault("sequence_parallel", cuts_rows_alone)
    if degrees.get("virtual_stages_per_rank", 1) > 1:
        values.setdefault("schedule", "interleaved")
    if "stages" in keys:
        values["stage_layers"] = tuple(_whole("stages", part) for part in keys["stages"].split("/"))
    if "overlap" in keys:
        values |= _overlaps(keys["overlap"])
    if "bucket" in keys:
        values["bucket_bytes"] = _bytes("bucket", keys["bucket"])
    values |= degrees
    return Plan(**values, micro_batch_size=micro, num_micro_batches=num_micro_batches)


def choose_plan(
    keys: dict[str, str],
    num_devices: int,
    *,
    mode: str,
    batch_size: int | None,
    micro_batch_size: int | None,
    is_captured: bool = False,
) -> tuple[Plan, list[str]]:
    """The plan of a verb that needs no batch, and what was chosen for the user, in words.

    A pipeline trains in micro-batches of one sequence, and is filled. The sequence is cut beside the weights
    (sp) where a transformer is trained from its sizes.

    Args:
        is_captured: Whether the model is captured, not built from its sizes.

    Raises:
        PlanError: As of ``build_plan``.
    """
    is_training, notes = mode == "train", []
    micro = micro_batch_size
    if micro is None and is_training and keys.get("pp", "1") != "1":
        micro = 1
        notes.append("no --micro-batch-size was given: 1 sequence")
    batch = batch_size
    if batch is None and not is_training:
        batch = _degrees(keys, num_devices)["data_parallel"] * (micro or 1)
    if is_captured or not is_training:
        keys = {"sp": "0", **keys}
    plan = build_plan(keys, num_devices, batch, micro)
    if batch_size is None:
        notes.append(
            f"no --batch-size was given: {plan.global_batch_size} sequences, "
            f"{plan.num_micro_batches} of {plan.micro_batch_size} on each replica"
        )
    return plan, notes


def _degrees(keys: dict[str, str], devices: int) -> dict[str, int]:
    """Degrees by their name in a plan; that of data parallelism is always among them.

    Raises:
        PlanError: They do not multiply up to the devices.
    """
    degrees = {name: _degree(key, keys[key]) for key, name in _DEGREES.items() if key in keys}
    cut = cut_of(keys)
    if devices == 1:
        devices = cut * degrees.get("data_parallel", 1)
    if "data_parallel" not in degrees:
        if devices % cut:
            raise PlanError(f"{devices} devices are no multiple of tp · pp · cp = {cut}")
        degrees["data_parallel"] = devices // cut
    replicas = degrees["data_parallel"]
    if replicas * cut != devices:
        raise PlanError(f"dp={replicas} · tp · pp · cp = {replicas * cut}, but there are {devices} devices")
    return degrees


def cut_of(keys: dict[str, str]) -> int:
    """Devices of one replica: tp · pp · cp."""
    return math.prod(_degree(key, keys.get(key, "1")) for key in ("tp", "pp", "cp"))


def _cut_batch(
    degrees: dict[str, int], batch_size: int | None, micro_batch_size: int | None
) -> tuple[int, int]:
    """Size and number of micro-batches of a replica.

    Raises:
        PlanError: The batch does not divide.
    """
    replicas = degrees["data_parallel"]
    if batch_size is None:
        micro_batch_size = micro_batch_size or 1
        batch_size = default_batch(degrees, micro_batch_size)
    if batch_size % replicas:
        raise PlanError(f"batch size {batch_size} is no multiple of dp={replicas}")
    share = batch_size // replicas
    micro = share if micro_batch_size is None else micro_batch_size
    if share % micro:
        raise PlanError(f"{share} sequences of each replica are no multiple of the micro-batch size {micro}")
    return micro, share // micro


def default_batch(degrees: dict[str, int], micro_batch_size: int) -> int:
    """Sequences of a step where none are stated: four micro-batches for each stage of every replica."""
    stages = degrees.get("pipeline_parallel", 1)
    num_micro_batches = _MICRO_BATCHES_PER_STAGE * stages if stages > 1 else 1
    return degrees["data_parallel"] * micro_batch_size * num_micro_batches


def is_one_device(keys: dict[str, str], devices: int) -> bool:
    """Whether a plan says no more than how one device works."""
    return devices == 1 and all(
        key in _OF_ONE_DEVICE or keys[key] == ("0" if key in ("zero", "sp") else "1") for key in keys
    )


def _whole(key: str, value: str) -> int:
    if not value.isdecimal():
        raise PlanError(f"--plan {key}={value}: not a whole number")
    return int(value)


def _degree(key: str, value: str) -> int:
    degree = _whole(key, value)
    if degree < 1:
        raise PlanError(f"--plan {key}={value}: must be at least 1")
    return degree


def _switch(key: str, value: str) -> bool:
    if value not in ("0", "1"):
        raise PlanError(f"--plan {key}={value}: must be 0 or 1")
    return value == "1"


def _number(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise PlanError(f"--plan {key}={value}: not a number") from None
    if not math.isfinite(number):
        raise PlanError(f"--plan {key}={value}: not a finite number")
    return number


def _overlaps(value: str) -> dict[str, bool]:
    """``'tensor+weights'`` → what runs beside the compute, and what does not; 'none' for nothing."""
    named = [] if value == "none" else value.split("+")
    for name in named:
        if name not in _OVERLAPS:
            raise UnknownNameError("overlap", name, _OVERLAPS, f"Known: none, or {' + '.join(_OVERLAPS)}.")
    return {field: name in named for name, field in _OVERLAPS.items()}


def _bytes(key: str, value: str) -> int:
    """``'40MB'``, ``'25MiB'`` or a number of bytes."""
    for unit in sorted(_BYTE_UNITS, key=len, reverse=True):
        if value.endswith(unit):
            number = _number(key, value.removesuffix(unit))
            return round(_number(key, f"{number * UNIT_FACTORS[unit]}"))
    return _whole(key, value)
