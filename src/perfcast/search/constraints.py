"""What a plan must keep to, in the order in which it is checked, and which demand leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfcast.errors import InputError, PlanError

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Constraint:
    """One demand on n plans.

    Attributes:
        words: What is demanded: 'at most 90 % of 80 GB'.
        keeps: Which plans meet it, [n].
        nearest: Of those that do not, how near the best one comes, in words.
    """

    words: str
    keeps: Mask
    nearest: str = ""


def apply_constraints(constraints: Sequence[Constraint], count: int) -> tuple[Mask, dict[str, int]]:
    """Which plans meet all, and how many each removed of those that the ones before it left.

    Raises:
        PlanError: None does; names the demand that removed the last ones, and those before it.
    """
    kept, excluded = np.ones(count, dtype=np.bool_), dict[str, int]()
    for constraint in constraints:
        left = kept & constraint.keeps
        excluded[constraint.words] = int(kept.sum() - left.sum())
        if not left.any():
            raise PlanError(_refusal(constraint, excluded, int(kept.sum()), count))
        kept = left
    return kept, excluded


def _refusal(constraint: Constraint, excluded: Mapping[str, int], left: int, count: int) -> str:
    whole = "all" if left == count else f"the last {left:,} of"
    before = [f"{words} ({number:,})" for words, number in excluded.items() if words != constraint.words and number]
    others = f"; before it: {', '.join(before)}" if before else ""
    nearest = f": {constraint.nearest}" if constraint.nearest else ""
    return f"no plan is left: '{constraint.words}' excludes {whole} {count:,} plans{nearest}{others}"


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
