"""What a user may fix of a plan (``--fix tp=8``): keys, and the values that they can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcast.core.plan_table import FLAGS, WORDS
from perfcast.errors import PlanError, UnknownNameError

#: Dimensions of a plan, by the keys of ``--plan``.
KEYS = {
    "dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel", "cp": "context_parallel",
    "ep": "expert_parallel", "etp": "expert_tensor_parallel", "vp": "virtual_stages_per_rank",
    "mbs": "micro_batch_size", "zero": "zero_stage", "shards": "num_shards", "sp": "sequence_parallel",
    "recompute": "recompute",
    "recompute_layers": "recompute_layers", "schedule": "schedule", "stages": "stage_layers",
    "offload": "offload", "order": "order", "reshard": "reshard_after_forward",
    "context": "context_exchange", "overlap_tp": "overlaps_tensor", "overlap_dp": "overlaps_gradients",
    "overlap_gather": "overlaps_weights", "overlap_ep": "overlaps_experts",
}  # fmt: skip
#: How layers may be dealt out to stages: as the framework does, or with fewer at the ends (``splits``).
EVEN, BALANCED = "even", "balanced"
STAGES = (EVEN, BALANCED)
_HIGHEST_ZERO = 3


def read_fixed(key: str, text: str) -> object:
    """One key's value from a text, as ``Space.fixed`` holds it: a word, a number, layers as '7/8/8/7'.

    Raises:
        UnknownNameError: Not a key; names those that are close.
        PlanError: A value that no plan can have.
    """
    check_keys([key])
    name = KEYS[key]
    if key == "stages":
        return _read_stages(text)
    if name in WORDS:
        check_word(key, text)
        return text
    if not (text.isascii() and text.isdecimal()):
        raise PlanError(f"{key}={text}: not a whole number")
    value = int(text)
    if name in FLAGS and value > 1:
        raise PlanError(f"{key}={text}: must be 0 or 1")
    if key == "zero" and value > _HIGHEST_ZERO:
        raise PlanError(f"{key}={text}: must be 0, 1, 2 or 3")
    if key != "zero" and name not in FLAGS and not value:
        raise PlanError(f"{key}={text}: must be at least 1")
    return value


def _read_stages(text: str) -> str:
    if text not in STAGES and not all(part.isascii() and part.isdecimal() for part in text.split("/")):
        raise PlanError(f"stages={text}: layers of each stage, such as 7/8/8/7, or {' or '.join(STAGES)}")
    return text


def check_keys(keys: Sequence[str]) -> None:
    """Refuse what is no dimension.

    Raises:
        UnknownNameError: The first such key, with close ones.
    """
    for key in keys:
        if key not in KEYS:
            raise UnknownNameError("key of a plan", key, KEYS, f"Known: {', '.join(KEYS)}.")


def check_word(key: str, value: object) -> None:
    """Refuse a word that is not in its list.

    Raises:
        PlanError: With all that are.
    """
    words = WORDS[KEYS[key]]
    if value not in words:
        raise PlanError(f"{key}={value}: must be one of {', '.join(words)}")


def code_of(key: str, value: object) -> int:
    """A value as its column holds it.

    Raises:
        PlanError: A word that is not in its list, or no number where one is meant.
    """
    words = WORDS.get(KEYS[key])
    if words is not None:
        check_word(key, value)
        return words.index(str(value))
    try:
        return int(str(int(value) if isinstance(value, bool) else value))
    except ValueError:
        raise PlanError(f"{key}={value}: not a whole number") from None


def allowed(fixed: Mapping[str, object], key: str, values: Sequence[int]) -> list[int]:
    """Values of a dimension that a fixed one leaves: itself, if it is among them."""
    if key not in fixed:
        return list(values)
    wanted = code_of(key, fixed[key])
    return [value for value in values if value == wanted]


def chosen(fixed: Mapping[str, object], key: str, values: Sequence[int | str]) -> list[int]:
    """Values of a free choice as columns hold them: the fixed one, whatever else would be tried."""
    return [code_of(key, value) for value in ([fixed[key]] if key in fixed else values)]
