"""The steps of a recording one by one: what each does, took, and is forecast to take.

Steps of one program need not be alike: some log, evaluate, or accumulate gradients without reducing them.
What a step does is the operators that its host runs; steps whose operators are the same but for a few are of
one kind. And alike steps take unlike times where the first ones begin with an empty queue of the device: by
the host's clock they end before their kernels do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.program import Overhead, RankProgram
from perfcast.units import format_seconds

#: Steps are of one kind if at most this share of their operators differs.
KIND_SHARE = 0.02
#: Where recorded steps differ by more than this, largest over least, a forecast says so.
_NOTABLE = 1.05
_MOST_NAMED = 8


@dataclass(frozen=True)
class StepForecast:
    """One step of those asked for; seconds on the rank that takes longest.

    Attributes:
        number: As it is marked.
        kind: Steps of equal kind do the same; 0 is the first step's.
        num_operators: Outermost operators of the first rank's host.
        recorded_seconds: As its mark says.
        once_seconds: The forecast begun as it was recorded: from where ranks began, with what was still
            running on their devices.
        seconds: In the long run.
    """

    number: int
    kind: int
    num_operators: int
    recorded_seconds: float
    once_seconds: float
    seconds: float


def forecast_steps(
    recorded: Sequence[RankProgram], forecast: Sequence[RankProgram], steady: Sequence[float]
) -> tuple[StepForecast, ...]:
    """Each step of ranks.

    Args:
        recorded, forecast: Ranks as they were, and as they are forecast.
        steady: Of ``forecast``, each step in the long run.
    """
    operators = operators_of_steps(recorded[0])
    kinds = kinds_of(operators)
    once = play_ranks(forecast).step_seconds
    measured = [max(values) for values in zip(*(p.measured_seconds for p in recorded), strict=False)]
    return tuple(
        StepForecast(step.number, kind, own.total(), took, begun, long_run)
        for step, kind, own, took, begun, long_run in zip(
            recorded[0].steps, kinds, operators, measured, once, steady, strict=False
        )
    )


def operators_of_steps(program: RankProgram) -> list[Counter[str]]:
    """Outermost operators of each step by name."""
    found: list[Counter[str]] = [Counter() for _ in program.steps]
    met: set[tuple[int, int]] = set()
    for piece in program.pieces:
        if piece.row < 0 or piece.overhead is Overhead.CALL or (piece.step, piece.row) in met:
            continue
        met.add((piece.step, piece.row))
        found[piece.step][piece.key[-1]] += 1
    return found


def kinds_of(operators: Sequence[Counter[str]]) -> list[int]:
    """A number for each step, equal for steps that do the same."""
    firsts: list[Counter[str]] = []
    found = []
    for own in operators:
        kind = next((place for place, first in enumerate(firsts) if _is_alike(first, own)), len(firsts))
        if kind == len(firsts):
            firsts.append(own)
        found.append(kind)
    return found


def _is_alike(one: Counter[str], other: Counter[str]) -> bool:
    differing = (one - other).total() + (other - one).total()
    return differing <= KIND_SHARE * (one.total() + other.total())


def describe_steps(steps: Sequence[StepForecast]) -> list[str]:
    """That steps differ, and by what."""
    kinds = sorted({step.kind for step in steps})
    if len(kinds) > 1:
        parts = [_describe_kind([step for step in steps if step.kind == kind]) for kind in kinds]
        return [
            f"steps do {len(kinds)} different things: {'; '.join(parts[:_MOST_NAMED])}"
            f"{'; …' if len(parts) > _MOST_NAMED else ''}; the step is their mean, --steps takes some"
        ]
    took = [step.recorded_seconds for step in steps]
    if len(took) > 1 and max(took) > _NOTABLE * min(took):
        return [
            f"steps that do the same took {format_seconds(min(took))} to {format_seconds(max(took))}; the "
            "interval holds that"
        ]
    return []


def _describe_kind(steps: Sequence[StepForecast]) -> str:
    numbers = ", ".join(str(step.number) for step in steps[:_MOST_NAMED])
    more = ", …" if len(steps) > _MOST_NAMED else ""
    mean = sum(step.seconds for step in steps) / len(steps)
    return f"{numbers}{more} ({steps[0].num_operators:,} operators, {format_seconds(mean)})"
