"""What would help: another plan that needs less memory, or a bound of the step that costs time."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.plan import Plan
from perfcast.core.training import Training


@dataclass(frozen=True, slots=True)
class PlanRecommendation:
    """A change of plan or training that lowers the peak, and what it costs.

    Attributes:
        changes: Keys and values of the plan that differ, for example 'recompute=full'.
        extra_seconds: Of a step, beyond the plan as asked for; may be below 0. None: not known.
        reasons: Where the extra time comes from, or why it is not known, in words.
        caveat: In what the training is another one; '' where it is the same.
        training, sequence_length: As they become; None where nothing is known of them.
        tokens_per_second: Of a step as it becomes, over all devices. None: not known.
    """

    changes: tuple[str, ...]
    plan: Plan
    device_bytes: int
    fits: bool
    extra_seconds: float | None
    reasons: tuple[str, ...]
    caveat: str = ""
    training: Training | None = None
    sequence_length: int | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class BoundRecommendation:
    """What one bound costs: the step if it were relaxed, everything else unchanged."""

    name: str
    step_seconds: float
    saved_seconds: float
