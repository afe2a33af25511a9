"""What a plan must keep to, in the order in which it is checked, and which demand leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from perfcast.core.arrays import Flags
from perfcast.errors import InputError, PlanError


@dataclass(frozen=True, eq=False)
class Constraint:
    """One demand on n plans.

    Attributes:
        words: What is demanded: 'at most 90 % of 80 GB'.
        keeps: Which plans meet it, [n].
        nearest: Of those that do not, how near the best one comes, in words.
    """

    words: str
    keeps: Flags
    nearest: str = ""


def apply_constraints(constraints: Sequence[Constraint], count: int) -> tuple[Flags, dict[str, int]]:
    """Which plans meet all, and how many each removed of those that the ones before it left.

    Raises:
        PlanError: None does; names the demand that removed the last ones, and those before it.
    """
    kept, excluded = np.ones(count, dtype=np.bool_), dict[str, int]()
    for constraint in constraints:
        left = kept & constraint.keeps
        if not left.any():
            refuse(constraint.words, constraint.nearest, count, excluded)
        excluded[constraint.words] = int(kept.sum() - left.sum())
        kept = left
    return kept, excluded


def refuse(words: str, nearest: str, count: int, before: Mapping[str, int] | None = None) -> NoReturn:
    """Say which demand left nothing.

    Args:
        nearest: How near the best plan comes, in words.
        count: Plans that there were.
        before: Plans that earlier demands removed.

    Raises:
        PlanError: Always.
    """
    removed = {name: number for name, number in (before or {}).items() if number}
    left = count - sum(removed.values())
    every = "the only plan" if count == 1 else f"all {count:,} plans"
    whole = every if not removed else f"the last {left:,} of {count:,} plans"
    others = f"; before it: {', '.join(f'{name} ({number:,})' for name, number in removed.items())}"
    raise PlanError(
        f"no plan is left: '{words}' excludes {whole}{': ' * bool(nearest)}{nearest}{others * bool(removed)}"
    )


def check_limits(max_memory_fraction: float, min_mfu: float | None, price: float | None) -> None:
    """Refuse limits that mean nothing.

    Raises:
        InputError: Not a number, or out of range.
    """
    if not 0 < max_memory_fraction <= 1:
        raise InputError(f"a memory fraction of {max_memory_fraction:g}; it must lie above 0 and up to 1")
    if min_mfu is not None and not 0 <= min_mfu < 1:
        raise InputError(f"an MFU of at least {min_mfu:g}; it must lie between 0 and 1")
    if price is not None and not (np.isfinite(price) and price >= 0):
        raise InputError(f"a price of {price} dollars; it must be a finite number, 0 or more")
