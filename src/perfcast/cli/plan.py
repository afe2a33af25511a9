"""``--plan tp=8,pp=4,zero=1,recompute=full`` and how many devices follow from it."""

from __future__ import annotations

from typing import Any

from perfcast.core.plan import Plan
from perfcast.errors import PlanError, UnknownNameError

_DEGREES = {
    "dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel", "cp": "context_parallel",
    "ep": "expert_parallel", "etp": "expert_tensor_parallel", "vp": "virtual_stages_per_rank",
}  # fmt: skip
_SWITCHES = {"sp": "sequence_parallel", "reshard": "reshard_after_forward"}
_WORDS = ("recompute", "schedule", "offload")
KEYS = (*_DEGREES, *_SWITCHES, *_WORDS, "zero", "prefetch")


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


def build_plan(keys: dict[str, str], devices: int, batch_size: int, micro_batch_size: int | None) -> Plan:
    """The plan of a number of devices; data parallelism follows where it is not given.

    Args:
        devices: 1, the default, takes as many as the degrees multiply up to.
        batch_size: Sequences of one step, over all devices.
        micro_batch_size: Of one forward; None runs a replica's share at once.

    Raises:
        PlanError: Degrees that do not multiply up to the devices, a batch that does not divide; the message
            states the equation.
    """
    counts = {"--devices": devices, "--batch-size": batch_size, "--micro-batch-size": micro_batch_size}
    for option, count in counts.items():
        if count is not None and count < 1:
            raise PlanError(f"{option} {count}: must be at least 1")
    degrees: dict[str, Any] = {name: _degree(key, keys[key]) for key, name in _DEGREES.items() if key in keys}
    cut = 1
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        cut *= degrees.get(name, 1)
    if devices == 1:
        devices = cut * degrees.get("data_parallel", 1)
    if "data_parallel" not in degrees:
        if devices % cut:
            raise PlanError(f"{devices} devices are no multiple of tp · pp · cp = {cut}")
        degrees["data_parallel"] = devices // cut
    replicas = degrees["data_parallel"]
    if replicas * cut != devices:
        raise PlanError(f"dp={replicas} · tp · pp · cp = {replicas * cut}, but there are {devices} devices")
    if batch_size % replicas:
        raise PlanError(f"batch size {batch_size} is no multiple of dp={replicas}")
    share = batch_size // replicas
    micro = share if micro_batch_size is None else micro_batch_size
    if share % micro:
        raise PlanError(f"{share} sequences of each replica are no multiple of the micro-batch size {micro}")
    words: dict[str, Any] = {key: keys[key] for key in _WORDS if key in keys}
    if degrees.get("virtual_stages_per_rank", 1) > 1:
        words.setdefault("schedule", "interleaved")
    sequence_parallel = _switch("sp", keys["sp"]) if "sp" in keys else degrees.get("tensor_parallel", 1) > 1
    return Plan(
        **degrees,
        **words,
        micro_batch_size=micro,
        num_micro_batches=share // micro,
        zero_stage=_whole("zero", keys.get("zero", "0")),
        sequence_parallel=sequence_parallel,
        reshard_after_forward=_switch("reshard", keys.get("reshard", "1")),
        num_prefetched=_whole("prefetch", keys.get("prefetch", "1")),
    )


def is_one_device(keys: dict[str, str], devices: int) -> bool:
    """Whether a plan says no more than how one device works."""
    return devices == 1 and all(
        key in ("recompute", "schedule") or keys[key] == ("0" if key in ("zero", "sp") else "1")
        for key in keys
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
