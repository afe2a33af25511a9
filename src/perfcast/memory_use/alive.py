"""What is alive at one moment, equal blocks counted together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from perfcast.core.forecast.device import AliveTensors, TensorInterval

_MAX_LISTED = 3


def alive_at(intervals: Iterable[TensorInterval], node: int) -> tuple[AliveTensors, ...]:
    """Blocks held while ``node`` runs, in groups of equals; those with most bytes first."""
    groups: dict[tuple[object, ...], list[TensorInterval]] = defaultdict(list)
    for interval in intervals:
        if max(interval.created_by, 0) <= node <= interval.freed_after:
            groups[_key(interval)].append(interval)
    alive = [
        AliveTensors(
            num_bytes=members[0].num_bytes,
            count=len(members),
            category=members[0].category,
            operation=members[0].created_by_name,
            module=join_paths([member.created_by_module for member in members]),
            created_at=members[0].created_at,
        )
        for members in groups.values()
    ]
    return tuple(sorted(alive, key=lambda group: -group.total_bytes))


def _key(interval: TensorInterval) -> tuple[object, ...]:
    pattern = tuple("*" if part.isdigit() else part for part in interval.created_by_module.split("."))
    return interval.num_bytes, interval.category, interval.created_by_name, pattern, interval.created_at


def join_paths(paths: Sequence[str]) -> str:
    """One name for paths that differ in numbers alone.

    >>> join_paths(["h.0.mlp", "h.1.mlp", "h.2.mlp"])
    'h.0–2.mlp'
    """
    columns = zip(*(path.split(".") for path in dict.fromkeys(paths)), strict=True)
    return ".".join(_join_parts(column) for column in columns)


def _join_parts(parts: Sequence[str]) -> str:
    if len(set(parts)) == 1:
        return parts[0]
    numbers = sorted({int(part) for part in parts})
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}–{numbers[-1]}"
    if len(numbers) <= _MAX_LISTED:
        return ",".join(map(str, numbers))
    return f"{numbers[0]}…{numbers[-1]}"
