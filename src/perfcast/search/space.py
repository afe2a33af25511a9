"""Every plan that a model, a number of devices and a batch allow.

Degrees are those that divide: tp the heads and the MLP, ep the experts, pp · vp at most the layers, and all
of them the devices; micro-batches divide a replica's share of the batch. What cannot be is never made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

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


#: Columns that change how ranks exchange, not what they hold: memory does not depend on them.
MAPPING = ("order", "context_exchange", "overlaps_tensor", "overlaps_gradients", "overlaps_weights",
           "overlaps_experts")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is searched; the first value of each is the simplest.

    GPipe is left out by default: it fills the pipeline no better than 1F1B and keeps more.

    Attributes:
        orders: How axes lie in the network; by default those that keep tensor parallelism innermost.
        largest_tensor_parallel, …: Bounds of degrees and of the micro-batch.
        least_context_tokens: Of a sequence that context parallelism leaves a rank.
        fixed: Values of ``KEYS``, by key: what the user has decided.
    """

    zero_stages: Sequence[int] = (0, 1, 2, 3)
    recomputes: Sequence[str] = RECOMPUTE
    schedules: Sequence[str] = SCHEDULES
    offloads: Sequence[str] = OFFLOAD
    orders: Sequence[str] = ORDERS[:3]
    context_exchanges: Sequence[str] = CONTEXT_EXCHANGES[:1]
    overlaps_tensor: Sequence[int] = (0,)
    overlaps_gradients: Sequence[int] = (1, 0)
    overlaps_weights: Sequence[int] = (1,)
    overlaps_experts: Sequence[int] = (0,)
    largest_tensor_parallel: int = 64
    largest_context_parallel: int = 16
    least_context_tokens: int = 1024
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
    cores = enumerate_cores(model, num_devices, global_batch_size, sequence_length, space)
    plans = map_plans(cores, model, space)[0]
    _refuse_empty(len(plans), "orders and exchanges", model, num_devices, space)
    return plans


def enumerate_cores(
    model: Transformer,
    num_devices: int,
    global_batch_size: int,
    sequence_length: int,
    space: Space,
) -> PlanTable:
    """All plans but for how they lie in the network (``MAPPING``): those of the first choice stand for all.

    Raises:
        PlanError: None is left; the message says which demand excludes the last ones.
    """
    degrees = _degrees(model, num_devices, sequence_length, space)
    _refuse_empty(len(degrees["tensor_parallel"]), "degrees", model, num_devices, space)
    rows = _expand(degrees, _state_choices(space), _belongs_states)
    _refuse_empty(len(rows["tensor_parallel"]), "sharding of states", model, num_devices, space)
    rows = _with_batches(rows, model, global_batch_size, space)
    _refuse_empty(len(rows["tensor_parallel"]), "a batch", model, num_devices, space)

    def belongs(rows: Mapping[str, Column], chosen: Mapping[str, int]) -> NDArray[np.bool_]:
        return _belongs_passes(rows, chosen, sequence_length)

    rows = _expand(rows, _pass_choices(space), belongs)
    _refuse_empty(len(rows["tensor_parallel"]), "choices", model, num_devices, space)
    return _table(rows)


def map_plans(cores: PlanTable, model: Transformer, space: Space) -> tuple[PlanTable, NDArray[np.int64]]:
    """Every way in which plans may lie in the network and exchange, and which core each comes from.

    Of plans that are the same (an order of axes of which some have one member) the first order is kept.
    """
    rows: dict[str, Column] = {
        f.name: getattr(cores, f.name) for f in fields(PlanTable) if f.name not in MAPPING
    }
    rows["core"] = np.arange(len(cores), dtype=np.int64)

    mapped = _expand(rows, _mapping_choices(space), _belongs_to(model, space))
    core = mapped.pop("core")
    return PlanTable(**mapped), core


def count_mappings(cores: PlanTable, model: Transformer, space: Space) -> NDArray[np.int64]:
    """In how many ways each plan may lie in the network and exchange, shape [n]."""
    rows = {f.name: getattr(cores, f.name) for f in fields(PlanTable)}
    choices, belongs = _mapping_choices(space), _belongs_to(model, space)
    counts = np.zeros(len(cores), dtype=np.int64)
    for choice in product(*choices.values()):
        counts += belongs(rows, dict(zip(choices, choice, strict=True)))
    return counts


def _belongs_to(model: Transformer, space: Space) -> _Belongs:
    def belongs(rows: Mapping[str, Column], chosen: Mapping[str, int]) -> NDArray[np.bool_]:
        return _belongs_mapping(rows, chosen, model, space)

    return belongs


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
    pieces = max(sequence_length // space.least_context_tokens, 1)
    contexts = divisors(sequence_length, min(space.largest_context_parallel, pieces))
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


def _listed(space: Space, listed: Mapping[str, Sequence[int | str]]) -> dict[str, list[int]]:
    """Values of some keys that the user's fixed ones leave, by column."""
    return {
        KEYS[key]: _allowed(space, key, [_code(key, value) for value in values])
        for key, values in listed.items()
    }


def _state_choices(space: Space) -> dict[str, list[int]]:
    return _listed(space, {"zero": space.zero_stages, "reshard": (1, 0), "offload": space.offloads})


def _pass_choices(space: Space) -> dict[str, list[int]]:
    return _listed(space, {"sp": (0, 1), "recompute": space.recomputes, "schedule": space.schedules})


def _mapping_choices(space: Space) -> dict[str, list[int]]:
    return _listed(
        space,
        {
            "order": space.orders, "context": space.context_exchanges, "overlap_tp": space.overlaps_tensor,
            "overlap_dp": space.overlaps_gradients, "overlap_gather": space.overlaps_weights,
            "overlap_ep": space.overlaps_experts,
        },
    )  # fmt: skip


_Belongs = Callable[[Mapping[str, Column], Mapping[str, int]], NDArray[np.bool_]]


def _expand(
    rows: Mapping[str, Column], choices: Mapping[str, Sequence[int]], belongs: _Belongs
) -> dict[str, Column]:
    """Every row with every choice that makes sense for it."""
    parts: list[dict[str, Column]] = []
    for choice in product(*choices.values()):
        chosen = dict(zip(choices, choice, strict=True))
        fits = belongs(rows, chosen)
        part = {name: column[fits] for name, column in rows.items()}
        part |= {name: np.full(int(fits.sum()), value, dtype=np.int64) for name, value in chosen.items()}
        parts.append(part)
    return _stack(parts, [*rows, *choices])


def _belongs_states(rows: Mapping[str, Column], chosen: Mapping[str, int]) -> NDArray[np.bool_]:
    """Nothing is sharded over one replica; ZeRO 3 is that of FSDP, without a pipeline."""
    fits = np.ones(len(rows["tensor_parallel"]), dtype=np.bool_)
    if chosen["zero_stage"]:
        fits &= rows["data_parallel"] * rows["context_parallel"] > 1
    if chosen["zero_stage"] == 3:
        fits &= rows["pipeline_parallel"] == 1
    elif not chosen["reshard_after_forward"]:
        fits[:] = False
    return fits


def _belongs_passes(
    rows: Mapping[str, Column], chosen: Mapping[str, int], sequence_length: int
) -> NDArray[np.bool_]:
    """Schedules that exist; with one stage all are one."""
    pp, count = rows["pipeline_parallel"], rows["num_micro_batches"]
    schedule, has_chunks = SCHEDULES[chosen["schedule"]], rows["virtual_stages_per_rank"] > 1
    fits = has_chunks if schedule == "interleaved" else ~has_chunks
    if schedule not in ("1f1b", "interleaved"):
        fits = fits & (pp > 1)
    if schedule == "dualpipe":
        fits = fits & (pp % 2 == 0) & (count % 2 == 0) & (count >= 2 * pp)
    if chosen["sequence_parallel"]:
        tp = rows["tensor_parallel"]
        fits = fits & (tp > 1) & (sequence_length % (rows["context_parallel"] * tp) == 0)
    return np.asarray(fits, dtype=np.bool_)


def _belongs_mapping(
    rows: Mapping[str, Column], chosen: Mapping[str, int], model: Transformer, space: Space
) -> NDArray[np.bool_]:
    """One of several equal plans: choices that change nothing are the first of their list."""
    tp, cp = rows["tensor_parallel"], rows["context_parallel"]
    fits = _is_first_order(rows, chosen["order"], _mapping_choices(space)["order"])
    if CONTEXT_EXCHANGES[chosen["context_exchange"]] == "ulysses":
        fits &= model.num_attention_heads // tp % cp == 0
    dp_exchanges = rows["data_parallel"] * cp > 1
    for column, applies in (
        ("context_exchange", cp > 1),
        ("overlaps_tensor", tp > 1),
        ("overlaps_gradients", dp_exchanges),
        ("overlaps_weights", dp_exchanges & (rows["zero_stage"] > 0)),
        ("overlaps_experts", rows["expert_parallel"] > 1),
    ):
        if chosen[column] != _mapping_choices(space)[column][0]:
            fits &= applies
    return fits


def _is_first_order(rows: Mapping[str, Column], order: int, orders: Sequence[int]) -> NDArray[np.bool_]:
    """Whether no earlier order puts the axes of more than one member in the same places."""
    sizes = {"dp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel",
             "cp": "context_parallel"}  # fmt: skip
    several = {axis: rows[name] > 1 for axis, name in sizes.items()}
    first = np.ones(len(rows["tensor_parallel"]), dtype=np.bool_)
    own = ORDERS[order].split("-")
    for earlier in orders[: orders.index(order)]:
        other = ORDERS[earlier].split("-")
        swapped = np.zeros_like(first)
        for one, two in combinations(sizes, 2):
            if (own.index(one) < own.index(two)) != (other.index(one) < other.index(two)):
                swapped |= several[one] & several[two]
        first &= swapped
    return first


def _table(rows: Mapping[str, Column]) -> PlanTable:
    """Plans of some rows, with the simplest of what they do not say."""
    count = len(rows["tensor_parallel"])
    simplest = {
        "virtual_stages_per_rank": 1, "micro_batch_size": 1, "num_micro_batches": 1, "sequence_parallel": 0,
        "recompute": 0, "schedule": 0, "order": 0, "context_exchange": 0, "overlaps_tensor": 0,
        "overlaps_gradients": 1, "overlaps_weights": 1, "overlaps_experts": 0,
    }  # fmt: skip
    columns = {name: np.full(count, value, dtype=np.int64) for name, value in simplest.items()}
    return PlanTable(**{**columns, **rows})


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
