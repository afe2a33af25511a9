"""Every plan that a model, a number of devices and a batch allow.

Degrees are those that divide: tp the heads and the MLP, ep the experts, pp · vp at most the layers, and all
of them the devices; micro-batches divide a replica's share of the batch. What cannot be is never made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product

import numpy as np

from perfcast.core.plan import CONTEXT_EXCHANGES, OFFLOAD, ORDERS, RECOMPUTE, SCHEDULES
from perfcast.core.plan_table import WORDS, Column, PlanTable
from perfcast.core.transformer import Transformer
from perfcast.errors import PlanError

#: Columns whose values a user may fix, by the keys of ``--plan``.
KEYS = {
    "dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel", "cp": "context_parallel",
    "ep": "expert_parallel", "etp": "expert_tensor_parallel", "vp": "virtual_stages_per_rank",
    "mbs": "micro_batch_size", "zero": "zero_stage", "sp": "sequence_parallel", "recompute": "recompute",
    "schedule": "schedule", "offload": "offload", "order": "order", "reshard": "reshard_after_forward",
    "context": "context_exchange", "overlap_tp": "overlaps_tensor", "overlap_dp": "overlaps_gradients",
    "overlap_gather": "overlaps_weights", "overlap_ep": "overlaps_experts",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is searched; the first value of each is the simplest.

    Attributes:
        largest_tensor_parallel, …: Bounds of degrees and of the micro-batch.
        fixed: Values of ``KEYS``, by key: what the user has decided.
    """

    zero_stages: Sequence[int] = (0, 1, 3)
    recomputes: Sequence[str] = RECOMPUTE
    schedules: Sequence[str] = ("1f1b", "interleaved", "zero_bubble")
    offloads: Sequence[str] = (OFFLOAD[0],)
    orders: Sequence[str] = (ORDERS[0],)
    context_exchanges: Sequence[str] = (CONTEXT_EXCHANGES[0],)
    overlaps_tensor: Sequence[int] = (0,)
    overlaps_gradients: Sequence[int] = (1,)
    overlaps_weights: Sequence[int] = (1,)
    overlaps_experts: Sequence[int] = (0,)
    largest_tensor_parallel: int = 64
    largest_context_parallel: int = 16
    largest_virtual_stages: int = 8
    largest_micro_batch: int = 16
    fixed: Mapping[str, object] = field(default_factory=dict)


def divisors(number: int, largest: int | None = None) -> list[int]:
    """All divisors in rising order, up to ``largest``.

    >>> divisors(12, 6)
    [1, 2, 3, 4, 6]
    """
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return [n for n in sorted({*small, *(number // n for n in small)}) if largest is None or n <= largest]


def enumerate_plans(
    model: Transformer, num_devices: int, global_batch_size: int, sequence_length: int, space: Space
) -> PlanTable:
    """All plans of a space, in a fixed order.

    Raises:
        PlanError: None is left; the message says which demand excludes the last ones.
    """
    degrees = _degrees(model, num_devices, sequence_length, space)
    _refuse_empty(len(degrees["tensor_parallel"]), "degrees", model, num_devices, space)
    batches = _with_batches(degrees, model, global_batch_size, space)
    _refuse_empty(len(batches["tensor_parallel"]), "a batch", model, num_devices, space)
    columns = _with_choices(batches, model, space)
    _refuse_empty(len(columns["tensor_parallel"]), "choices", model, num_devices, space)
    return PlanTable(**{f.name: columns[f.name] for f in fields(PlanTable)})


def _allowed(space: Space, key: str, values: Sequence[int]) -> list[int]:
    """Values that the user's fixed ones leave."""
    if key not in space.fixed:
        return list(values)
    wanted = _code(key, space.fixed[key])
    return [value for value in values if value == wanted]


def _code(key: str, value: object) -> int:
    """A fixed value as its column holds it."""
    words = WORDS.get(KEYS[key])
    if words is None:
        return int(str(value))
    if value not in words:
        raise PlanError(f"{key}={value}: must be one of {', '.join(words)}")
    return words.index(str(value))


def _degrees(model: Transformer, num_devices: int, sequence_length: int, space: Space) -> dict[str, Column]:
    """dp · tp · pp · cp = devices, and the experts' degrees."""
    rows = []
    tensors = [
        tp for tp in divisors(model.num_attention_heads, space.largest_tensor_parallel)
        if model.ffn_hidden_size % tp == 0 and (model.num_kv_heads % tp == 0 or tp % model.num_kv_heads == 0)
    ]  # fmt: skip
    contexts = divisors(sequence_length, space.largest_context_parallel)
    for tp, cp in product(_allowed(space, "tp", tensors), _allowed(space, "cp", contexts)):
        if num_devices % (tp * cp):
            continue
        for pp in _allowed(space, "pp", divisors(num_devices // (tp * cp), model.num_layers)):
            dp = num_devices // (tp * cp * pp)
            if not _allowed(space, "dp", [dp]):
                continue
            rows += [(dp, tp, pp, cp, ep, etp) for ep, etp in _expert_degrees(model, dp * cp * tp, tp, space)]
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    names = ("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel",
             "expert_tensor_parallel")  # fmt: skip
    return {name: table[:, at] for at, name in enumerate(names)}


def _expert_degrees(model: Transformer, ranks: int, tp: int, space: Space) -> list[tuple[int, int]]:
    experts = model.experts
    if experts is None:
        allowed = _allowed(space, "ep", [1]) and _allowed(space, "etp", [tp])
        return [(1, tp)] if allowed else []
    return [
        (ep, etp)
        for ep in _allowed(space, "ep", divisors(experts.num_experts))
        for etp in _allowed(space, "etp", sorted({1, tp}))
        if ranks % (ep * etp) == 0 and experts.ffn_hidden_size % etp == 0
    ]


def _with_batches(
    degrees: Mapping[str, Column], model: Transformer, global_batch_size: int, space: Space
) -> dict[str, Column]:
    """Micro-batches that divide a replica's share, and virtual stages that the layers can fill."""
    parts: list[dict[str, Column]] = []
    sizes = _allowed(space, "mbs", divisors(global_batch_size, space.largest_micro_batch))
    chunks = _allowed(space, "vp", range(1, space.largest_virtual_stages + 1))
    dp, pp = degrees["data_parallel"], degrees["pipeline_parallel"]
    for size, chunk in product(sizes, chunks):
        fits = global_batch_size % (dp * size) == 0
        if chunk > 1:
            micro_batches = global_batch_size // np.maximum(dp * size, 1)
            fits &= (pp > 1) & (model.num_layers % (pp * chunk) == 0) & (micro_batches % pp == 0)
        part = {name: column[fits] for name, column in degrees.items()}
        count = int(fits.sum())
        part["micro_batch_size"] = np.full(count, size, dtype=np.int64)
        part["virtual_stages_per_rank"] = np.full(count, chunk, dtype=np.int64)
        part["num_micro_batches"] = global_batch_size // (dp[fits] * size)
        parts.append(part)
    return _stack(parts, [*degrees, "micro_batch_size", "virtual_stages_per_rank", "num_micro_batches"])


def _with_choices(batches: Mapping[str, Column], model: Transformer, space: Space) -> dict[str, Column]:
    """Everything that is not a degree."""
    listed: dict[str, Sequence[int | str]] = {
        "zero": space.zero_stages, "sp": (0, 1), "reshard": (1, 0), "recompute": space.recomputes,
        "schedule": space.schedules, "offload": space.offloads, "order": space.orders,
        "context": space.context_exchanges, "overlap_tp": space.overlaps_tensor,
        "overlap_dp": space.overlaps_gradients, "overlap_gather": space.overlaps_weights,
        "overlap_ep": space.overlaps_experts,
    }  # fmt: skip
    names = [KEYS[key] for key in listed]
    codes = [_allowed(space, key, [_code(key, value) for value in values]) for key, values in listed.items()]
    parts: list[dict[str, Column]] = []
    for choice in product(*codes):
        chosen = dict(zip(names, choice, strict=True))
        fits = _belongs(batches, model, chosen)
        part = {name: column[fits] for name, column in batches.items()}
        part |= {name: np.full(int(fits.sum()), value, dtype=np.int64) for name, value in chosen.items()}
        parts.append(part)
    return _stack(parts, [*batches, *names])


def _belongs(
    batches: Mapping[str, Column], model: Transformer, chosen: Mapping[str, int]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows a choice makes sense for; one of several equal plans is kept."""
    tp, pp = batches["tensor_parallel"], batches["pipeline_parallel"]
    replicas = batches["data_parallel"] * batches["context_parallel"]
    schedule = SCHEDULES[chosen["schedule"]]
    has_chunks = batches["virtual_stages_per_rank"] > 1
    fits = has_chunks if schedule == "interleaved" else ~has_chunks
    if schedule not in ("1f1b", "interleaved"):
        fits = fits & (pp > 1)
    if schedule == "dualpipe":
        count = batches["num_micro_batches"]
        fits = fits & (pp % 2 == 0) & (count % 2 == 0) & (count >= 2 * pp)
    fits = fits & ((tp > 1) if chosen["sequence_parallel"] else True)
    if chosen["zero_stage"]:
        fits = fits & (replicas > 1)
    if chosen["zero_stage"] == 3:
        fits = fits & (pp == 1)
    elif not chosen["reshard_after_forward"]:
        fits = np.zeros_like(fits)
    return np.asarray(fits, dtype=np.bool_)


def _stack(parts: Sequence[Mapping[str, Column]], names: Sequence[str]) -> dict[str, Column]:
    if not parts:
        return {name: np.zeros(0, dtype=np.int64) for name in names}
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _refuse_empty(count: int, what: str, model: Transformer, num_devices: int, space: Space) -> None:
    if count:
        return
    fixed = ", ".join(f"{key}={value}" for key, value in space.fixed.items())
    demand = f" with {fixed}" if fixed else ""
    raise PlanError(
        f"no plan for {num_devices} devices{demand}: no {what} divide {model.num_attention_heads} heads, "
        f"{model.num_layers} layers and the batch"
    )
