"""Why a space holds no plan: the fewest fixed values that leave none, and values that would.

Sets of fixed values are tried from small to large, each with everything else free; the first that leaves no
plan is named. ``rules`` says in numbers why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from perfcast.core.model.transformer import Transformer
from perfcast.core.plans.table import WORDS, PlanTable
from perfcast.core.plans.text import PlanValue
from perfcast.searches.space.definition import Space
from perfcast.searches.space.degrees import divisors
from perfcast.searches.space.fixed import KEYS, code_of, write_fixed
from perfcast.searches.space.listing import list_cores, map_plans
from perfcast.searches.space.rules import broken_rules

#: Values of a key that are proposed.
_MOST_VALUES = 6
#: Numbers of shards that are proposed.
_POWERS = tuple(2**power for power in range(1, 13))


@dataclass(frozen=True, slots=True)
class Job:
    """What plans are for.

    Attributes:
        global_batch_size: None where every plan has a batch of its own: inference.
        implied: Fixed keys that nobody asked for; they are not spoken of.
    """

    model: Transformer
    num_devices: int
    global_batch_size: int | None
    sequence_length: int
    implied: Collection[str] = ()

    @property
    def least_batch(self) -> int:
        """A batch that any degree of data parallelism divides, where none is asked for."""
        return self.num_devices if self.global_batch_size is None else self.global_batch_size

    def asked(self, fixed: Mapping[str, PlanValue]) -> dict[str, PlanValue]:
        """Of fixed values those that someone asked for."""
        return {key: value for key, value in fixed.items() if key not in self.implied}


def explain_none(job: Job, space: Space) -> str:
    """Why no plan is left, in words."""
    cause = find_cause(job, space)
    if not cause:
        return f"no plan for {job.num_devices:,} devices: {_without_choices(job, space)}"
    cause = job.asked(cause) or cause
    alone = f"{write_fixed(cause, ', ')} {'alone excludes' if len(cause) == 1 else 'together exclude'} all"
    batch = "" if job.global_batch_size is None else f" and a batch of {job.global_batch_size:,}"
    parts = [f"no plan for {job.num_devices:,} devices{batch}: {alone}"]
    parts += broken_rules(job.model, job.num_devices, job.global_batch_size, job.sequence_length, cause)
    parts += _proposals(job, space, cause)
    return "; ".join(parts)


def find_cause(job: Job, space: Space) -> dict[str, PlanValue]:
    """The fewest fixed values that leave no plan, in the order in which they were given; none where nothing
    is fixed that matters."""
    fixed = dict(space.fixed)
    if _exists(job, space, {}):
        for size in range(1, len(fixed)):
            for keys in combinations(fixed, size):
                some = {key: fixed[key] for key in keys}
                if not _exists(job, space, some):
                    return some
        return fixed
    return {}


def values_that_work(job: Job, space: Space, key: str, others: Mapping[str, PlanValue]) -> list[object]:
    """Values of a key with which plans exist beside other fixed ones, the nearest to its own first."""
    plans = _plans(job, _slim(space, key, others, job.model.num_layers))
    if key == "stages" or not len(plans):
        return []
    codes = np.unique(getattr(plans, KEYS[key])).tolist()
    words = WORDS.get(KEYS[key])
    if words is not None:
        return [words[code] for code in codes]
    wanted = code_of(key, space.fixed[key])
    return sorted((code for code in codes), key=lambda code: (abs(code - wanted), code))


def _proposals(job: Job, space: Space, cause: Mapping[str, PlanValue]) -> list[str]:
    """For each key to blame, the nearest values that would do with the others as they are."""
    found = []
    for key in cause:
        for others in (space.fixed, cause):
            rest = {name: value for name, value in others.items() if name != key}
            values = values_that_work(job, space, key, rest)[:_MOST_VALUES]
            if values:
                asked = job.asked(rest)
                beside = f" with {write_fixed(asked, ', ')}" if asked else ""
                found.append(f"{key} could be {', '.join(map(str, _sorted(values)))}{beside}")
                break
    return found or ["no other value of one of them would do"] * (len(cause) > 0)


def _sorted(values: Sequence[object]) -> list[object]:
    numbers = [value for value in values if isinstance(value, int)]
    return list(values) if len(numbers) < len(values) else sorted(numbers)  # type: ignore[return-value]


def _exists(job: Job, space: Space, fixed: Mapping[str, PlanValue]) -> bool:
    return len(_plans(job, _slim(space, "", fixed))) > 0


def _plans(job: Job, space: Space) -> PlanTable:
    cores = list_cores(job.model, job.num_devices, job.least_batch, job.sequence_length, space)
    return map_plans(cores, job.model, space)[0]


def _slim(space: Space, key: str, fixed: Mapping[str, PlanValue], num_layers: int = 1) -> Space:
    """The space with only those choices that others depend on, and all of one key."""
    slim = replace(
        space,
        fixed=dict(fixed),
        recompute_layers=(0,),
        offloads=space.offloads[:1],
        orders=space.orders[:1],
        recomputes=("none", "full"),
        zero_stages=[stage for stage in (0, 1, 3) if stage in space.zero_stages] or space.zero_stages,
        overlaps_gradients=(1,),
    )
    whole = {
        "zero": ("zero_stages", space.zero_stages),
        "shards": ("num_shards", _POWERS),
        "recompute": ("recomputes", space.recomputes),
        "recompute_layers": ("recompute_layers", tuple(range(1, num_layers))),
    }.get(key)
    return slim if whole is None else replace(slim, **{whole[0]: whole[1]})  # type: ignore[arg-type]


def _without_choices(job: Job, space: Space) -> str:
    """Why there is none although nothing is fixed that would forbid it: the devices, or the batch."""
    model, batch = job.model, job.least_batch
    tensors = divisors(model.num_attention_heads, space.largest_tensor_parallel)
    replicas = sorted(_replicas(job, space))
    if not replicas:
        return (
            f"tp (of {', '.join(map(str, tensors))}) · cp · pp (up to {model.num_layers} layers) · dp never "
            f"make {job.num_devices:,}"
        )
    least = replicas[0]
    below = batch // least * least
    near = [str(number) for number in (below, below + least) if number]
    shown = ", ".join([*map(str, replicas[:_MOST_VALUES]), *["…"] * (len(replicas) > _MOST_VALUES)])
    return (
        f"a batch of {batch:,} sequences divides over none of the numbers of replicas that model and devices "
        f"allow (dp of {shown}); the nearest batches that do: {', '.join(near)}"
    )


def _replicas(job: Job, space: Space) -> set[int]:
    """Degrees of data parallelism, whatever the batch."""
    every = replace(_slim(space, "", {}), largest_micro_batch=1)
    found: set[int] = set()
    whole = job.num_devices
    cores = list_cores(job.model, whole, whole, job.sequence_length, every)
    found.update(np.unique(cores.data_parallel).tolist())
    return found
