"""What would help: another plan that needs less memory, or a bound of the step that costs time."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanRecommendation:
    """A change of plan that lowers the peak, and what it costs.

    Attributes:
        changes: Keys and values of the plan that differ, for example 'recompute=full'.
        extra_seconds: Of a step, beyond the plan as asked for; may be below 0. None: not known.
        reasons: Where the extra time comes from, or why it is not known, in words.
    """

    changes: tuple[str, ...]
    plan: Plan
    device_bytes: int
    fits: bool
    extra_seconds: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundRecommendation:
    """What one bound costs: the step if it were relaxed, everything else unchanged."""

    name: str
    step_seconds: float
    saved_seconds: float
