"""What a call makes, found by running it without memory, and which sizes have to be the same for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcast.traces.scaling.assumptions import FIXED, Assumptions
from perfcast.traces.scaling.extents import Dim, variables_of
from perfcast.traces.scaling.joins import all_of, candidates, join
from perfcast.traces.scaling.primes import Place, decoded, run
from perfcast.traces.scaling.recorded.calls import ScalingCall
from perfcast.traces.scaling.rules import Dims, Shape

Literals = Mapping[Place, Dim]
Shapes = Sequence["Shape | None"]


def by_running(
    assumptions: Assumptions, call: ScalingCall, own: tuple[Dims, ...], literals: Literals, shapes: Shapes, *,
    may_join: bool,
) -> list[Dims | None] | None:  # fmt: skip
    """Dims of the results; None where the call does not run.

    Args:
        literals: Numbers among the arguments that are sizes.
        shapes: Of the results, as recorded.
        may_join: Whether sizes may be found to be the same.
    """
    found = decoded(assumptions, call, own, literals, shapes)
    if found is not None or not may_join:
        return found
    base = run(call, own, {}, {})
    if isinstance(base, str) or [blank and blank.shape for blank in base] != list(shapes):
        return None  # it tells other sizes without memory than it does with it
    for pairs in candidates(assumptions, own, literals):
        with assumptions.tried() as kept:
            if all_of([join(assumptions, a, b) for a, b in pairs]):
                found = decoded(assumptions, call, own, literals, shapes)
                if found is not None:
                    kept.append(True)
        if found is not None:
            return found
    return None


def runs_joined(
    assumptions: Assumptions, call: ScalingCall, own: tuple[Dims, ...], literals: Literals, shapes: Shapes
) -> bool:
    """Whether a call runs with sizes that are found to be the same, none of which surely follows and stays.

    Nothing is joined.
    """
    sure = {v for dims in own for dim in dims for v in variables_of(assumptions.canonical(dim))}
    sure = {variable for variable in sure if assumptions.is_sure(variable)}
    with assumptions.tried():
        found = by_running(assumptions, call, own, literals, shapes, may_join=True)
        return found is not None and not any(assumptions.find(variable) == FIXED for variable in sure)
