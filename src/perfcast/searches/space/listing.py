"""A space's plans in columns: degrees, batches and choices, each with every other that makes sense for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

import numpy as np

from perfcast.core.arrays import Flags, Integers
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import CONTEXT_COMMUNICATION, ORDERS, RECOMPUTE, SCHEDULES
from perfcast.core.plans.table import COLUMNS, PlanTable, Split, table_of
from perfcast.searches.space.definition import MAPPING, Space
from perfcast.searches.space.degrees import divisors, list_degrees
from perfcast.searches.space.fixed import KEYS, allowed, check_keys, chosen
from perfcast.searches.space.splits import splits_of_parts


def list_cores(
    model: Transformer, num_devices: int, global_batch_size: int, sequence_length: int, space: Space
) -> PlanTable:
    """All plans but for how they lie in the network (``MAPPING``): those of the first choice stand for all.

    Raises:
        UnknownNameError: A fixed key that is none.
        PlanError: A fixed value that its key cannot have.
    """
    check_keys(list(space.fixed))
    rows = list_degrees(model, num_devices, sequence_length, space)
    rows = _expand(rows, _state_choices(space), lambda rows, values: _belongs_states(rows, values, space))
    rows, splits = _with_batches(rows, model, global_batch_size, sequence_length, space)
    rows["largest_part"] = largest_parts(
        model.num_layers, rows["pipeline_parallel"], rows["virtual_stages_per_rank"], rows["split"], splits
    )

    def belongs(rows: Mapping[str, Integers], values: Mapping[str, int]) -> Flags:
        return _belongs_passes(rows, values, sequence_length, space)

    rows = _expand(rows, _pass_choices(space), belongs)
    del rows["largest_part"]
    return _table(rows, splits)


def map_plans(cores: PlanTable, model: Transformer, space: Space) -> tuple[PlanTable, Integers]:
    """Every way in which plans may lie in the network and exchange, and which core each comes from.

    Of plans that are the same (an order of axes of which some have one member) the first order is kept.
    """
    rows: dict[str, Integers] = {name: getattr(cores, name) for name in COLUMNS if name not in MAPPING}
    rows["core"] = np.arange(len(cores), dtype=np.int64)

    mapped = _expand(rows, _mapping_choices(space), _belongs_to(model, space))
    core = mapped.pop("core")
    mapped["context_communication"] *= mapped["context_parallel"] > 1  # of whole sequences: the usual word
    return table_of((mapped[name] for name in COLUMNS), cores.splits), core


def count_mappings(cores: PlanTable, model: Transformer, space: Space) -> Integers:
    """In how many ways each plan may lie in the network and exchange, shape [n]."""
    rows = {name: getattr(cores, name) for name in COLUMNS}
    choices, belongs = _mapping_choices(space), _belongs_to(model, space)
    counts = np.zeros(len(cores), dtype=np.int64)
    for choice in product(*choices.values()):
        counts += belongs(rows, dict(zip(choices, choice, strict=True)))
    return counts


def _belongs_to(model: Transformer, space: Space) -> _Belongs:
    def belongs(rows: Mapping[str, Integers], values: Mapping[str, int]) -> Flags:
        return _belongs_mapping(rows, values, model, space)

    return belongs


def _with_batches(
    degrees: Mapping[str, Integers],
    model: Transformer,
    global_batch_size: int,
    sequence_length: int,
    space: Space,
) -> tuple[dict[str, Integers], tuple[Split, ...]]:
    """Micro-batches that divide a replica's share, virtual stages that the layers fill, and how they do."""
    parts: list[dict[str, Integers]] = []
    largest = None if "mbs" in space.fixed else space.largest_micro_batch
    most = model.num_layers if "vp" in space.fixed else space.largest_virtual_stages
    sizes = allowed(space.fixed, "mbs", divisors(global_batch_size, largest))
    chunks = allowed(space.fixed, "vp", range(1, most + 1))
    kinds = [space.fixed["stages"]] if "stages" in space.fixed else list(space.stage_splits)
    dp, pp = degrees["data_parallel"], degrees["pipeline_parallel"]
    splits: dict[Split, int] = {(): 0}
    for chunk, kind in product(chunks, kinds):
        ways = {p: splits_of_parts(model, sequence_length, kind, p, chunk) for p in np.unique(pp).tolist()}
        split = _split_column(pp, ways, splits)
        for size in sizes:
            fits = (split >= 0) & (global_batch_size % (dp * size) == 0)
            if chunk > 1:
                fits &= (pp > 1) & (global_batch_size // np.maximum(dp * size, 1) % pp == 0)
            part = {name: column[fits] for name, column in degrees.items()}
            count = int(fits.sum())
            part["micro_batch_size"] = np.full(count, size, dtype=np.int64)
            part["virtual_stages_per_rank"] = np.full(count, chunk, dtype=np.int64)
            part["num_micro_batches"] = global_batch_size // (dp[fits] * size)
            part["split"] = split[fits]
            parts.append(part)
    names = [*degrees, "micro_batch_size", "virtual_stages_per_rank", "num_micro_batches", "split"]
    return _stack(parts, names), tuple(splits)


def _split_column(pp: Integers, ways: Mapping[int, Split | None], splits: dict[Split, int]) -> Integers:
    """The place in ``splits`` of the way to deal layers out to so many stages, -1 where there is none."""
    found = [-1 if way is None else splits.setdefault(way, len(splits)) for way in ways.values()]
    return np.array(found, dtype=np.int64)[np.searchsorted(list(ways), pp)]


def largest_parts(
    num_layers: int, stages: Integers, chunks: Integers, split: Integers, splits: Sequence[Split]
) -> Integers:
    """Layers of the largest part of the model that any rank holds."""
    stated = np.array([max(each, default=0) for each in splits], dtype=np.int64)[split]
    return np.where(split > 0, stated, -(-num_layers // (stages * chunks)))


def _listed(space: Space, listed: Mapping[str, Sequence[int | str]]) -> dict[str, list[int]]:
    """Values of some free choices, by column."""
    return {KEYS[key]: chosen(space.fixed, key, values) for key, values in listed.items()}


def _state_choices(space: Space) -> dict[str, list[int]]:
    return _listed(
        space,
        {
            "zero": space.zero_stages,
            "shards": space.num_shards,
            "reshard": space.reshards,
            "offload": space.offloads,
        },
    )


def _pass_choices(space: Space) -> dict[str, list[int]]:
    layers = (0,) if space.recompute_layers is None else space.recompute_layers
    return _listed(
        space,
        {
            "sp": (0, 1),
            "recompute": space.recomputes,
            "recompute_layers": layers,
            "schedule": space.schedules,
        },
    )


def _mapping_choices(space: Space) -> dict[str, list[int]]:
    return _listed(
        space,
        {
            "order": space.orders,
            "cp_type": space.context_communications,
            "overlap_tensor": space.overlaps_tensor,
            "overlap_gradients": space.overlaps_gradients,
            "overlap_weights": (1, 0) if space.overlaps_weights is None else space.overlaps_weights,
            "overlap_experts": space.overlaps_experts,
        },
    )


_Belongs = Callable[[Mapping[str, Integers], Mapping[str, int]], Flags]


def _expand(
    rows: Mapping[str, Integers], choices: Mapping[str, Sequence[int]], belongs: _Belongs
) -> dict[str, Integers]:
    """Every row with every choice that makes sense for it."""
    parts: list[dict[str, Integers]] = []
    for choice in product(*choices.values()):
        values = dict(zip(choices, choice, strict=True))
        fits = belongs(rows, values)
        part = {name: column[fits] for name, column in rows.items()}
        part |= {name: np.full(int(fits.sum()), value, dtype=np.int64) for name, value in values.items()}
        parts.append(part)
    return _stack(parts, [*rows, *choices])


def _belongs_states(rows: Mapping[str, Integers], values: Mapping[str, int], space: Space) -> Flags:
    """Nothing is sharded over one replica; shards of some are fewer; ZeRO 3, as of FSDP, has no pipeline."""
    fits = np.ones(len(rows["tensor_parallel"]), dtype=np.bool_)
    if values["zero_stage"]:
        fits &= rows["data_parallel"] * rows["context_parallel"] > 1
    if values["num_shards"]:
        replicas = rows["data_parallel"] * rows["context_parallel"]
        fits &= (values["zero_stage"] in space.hybrid_zero_stages) & (replicas % values["num_shards"] == 0)
        fits &= (values["num_shards"] > 1) & (values["num_shards"] < replicas)
    if values["zero_stage"] == 2 and not space.shards_pipelines:
        fits &= rows["pipeline_parallel"] == 1
    if values["zero_stage"] == 3:
        fits &= rows["pipeline_parallel"] == 1
    elif not values["reshard_after_forward"]:
        fits[:] = False
    return fits


def _belongs_passes(
    rows: Mapping[str, Integers], values: Mapping[str, int], sequence_length: int, space: Space
) -> Flags:
    """Schedules that exist; with one stage all are one. Some of a part's layers are computed again."""
    pp, count = rows["pipeline_parallel"], rows["num_micro_batches"]
    schedule, has_chunks = SCHEDULES[values["schedule"]], rows["virtual_stages_per_rank"] > 1
    fits = has_chunks if schedule == "interleaved" else ~has_chunks
    if schedule not in ("1f1b", "interleaved"):
        fits = fits & (pp > 1)
    if schedule == "dualpipe":
        fits = fits & (pp % 2 == 0) & (count % 2 == 0) & (count >= 2 * pp)
        if "stages" not in space.fixed:  # a rank holds both ends
            fits = fits & (rows["split"] == 0)
    if values["sequence_parallel"]:
        tp = rows["tensor_parallel"]
        fits = fits & (tp > 1) & (sequence_length % (rows["context_parallel"] * tp) == 0)
    if values["recompute_layers"]:
        is_full = RECOMPUTE[values["recompute"]] == "full"
        is_only = len(_pass_choices(space)["recompute_layers"]) == 1
        fits = fits & is_full & (values["recompute_layers"] < rows["largest_part"] + is_only)
    return np.asarray(fits, dtype=np.bool_)


def _belongs_mapping(
    rows: Mapping[str, Integers], values: Mapping[str, int], model: Transformer, space: Space
) -> Flags:
    """One of several equal plans: choices that change nothing are the first of their list."""
    tp, cp = rows["tensor_parallel"], rows["context_parallel"]
    fits = _is_first_order(rows, values["order"], _mapping_choices(space)["order"])
    if CONTEXT_COMMUNICATION[values["context_communication"]] == "ulysses":
        fits &= model.num_attention_heads // tp % cp == 0
    has_replicas = rows["data_parallel"] * cp > 1
    for column, applies in (
        ("context_communication", cp > 1),
        ("overlaps_tensor", tp > 1),
        ("overlaps_gradients", has_replicas),
        ("overlaps_weights", has_replicas & (rows["zero_stage"] > 0)),
        ("overlaps_experts", (rows["expert_parallel"] > 1) & _has_opposite_passes(rows)),
    ):
        if values[column] != _mapping_choices(space)[column][0]:
            fits &= applies
    if space.overlaps_weights is None and not {"overlap_gradients", "overlap_weights"} & space.fixed.keys():
        gathers = has_replicas & (rows["zero_stage"] > 0)
        fits &= ~gathers | (values["overlaps_weights"] == values["overlaps_gradients"])
    return fits


def _has_opposite_passes(rows: Mapping[str, Integers]) -> Flags:
    """Whether a forward runs beside another micro-batch's backward (``core.plans.idle``)."""
    several: Flags = rows["num_micro_batches"] > 1
    if "schedule" in rows:
        in_turn = [SCHEDULES.index(name) for name in ("1f1b", "interleaved", "dualpipe")]
        several = several & np.isin(rows["schedule"], in_turn)
    return several


def _is_first_order(rows: Mapping[str, Integers], order: int, orders: Sequence[int]) -> Flags:
    """Whether no earlier order puts the axes of more than one member in the same places."""
    sizes = {
        "dp": "data_parallel",
        "tp": "tensor_parallel",
        "pp": "pipeline_parallel",
        "cp": "context_parallel",
    }
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


def _table(rows: Mapping[str, Integers], splits: tuple[Split, ...]) -> PlanTable:
    """Plans of some rows, with the simplest of what they do not say."""
    count = len(rows["tensor_parallel"])
    simplest = {
        "virtual_stages_per_rank": 1,
        "micro_batch_size": 1,
        "num_micro_batches": 1,
        "sequence_parallel": 0,
        "recompute": 0,
        "schedule": 0,
        "order": 0,
        "context_communication": 0,
        "overlaps_tensor": 0,
        "overlaps_gradients": 1,
        "overlaps_weights": 1,
        "overlaps_experts": 0,
        "recompute_layers": 0,
        "num_prefetched": 1,
        "split": 0,
    }
    columns = {name: np.full(count, value, dtype=np.int64) for name, value in simplest.items()}
    every = {**columns, **rows}
    return table_of((every[name] for name in COLUMNS), splits)


def _stack(parts: Sequence[Mapping[str, Integers]], names: Sequence[str]) -> dict[str, Integers]:
    if not parts:
        return {name: np.zeros(0, dtype=np.int64) for name in names}
    return {name: np.concatenate([part[name] for part in parts]) for name in names}
