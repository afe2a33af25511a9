"""The time of a step's work by the chosen method: the one place that calls the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfcast.core.operation import Operation
from perfcast.core.step_forecast import StepTime
from perfcast.core.work import StepWork
from perfcast.errors import UnknownNameError

METHODS = ("simulated", "closed_form")
Seconds = Mapping[Operation, float]


@dataclass(frozen=True)
class Timer:
    """How a step is timed.

    Attributes:
        method: 'simulated', event by event, or 'closed_form', formulas of the pipeline.
        launch_seconds: Of the host from one kernel to the next.
        fixed_seconds: Of every step, beside its work; counted as 'other'.
        interval_widening: Factor on the half-widths of the step's interval.
    """

    method: str
    launch_seconds: float
    fixed_seconds: float = 0.0
    interval_widening: float = 1.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UnknownNameError("method", self.method, METHODS, f"Known: {', '.join(METHODS)}.")

    def time(self, work: StepWork, seconds: Seconds, *, with_spans: bool = False) -> StepTime:
        """The step and where its time goes."""
        from perfcast.simulate.training import simulate_step

        if self.method == "closed_form":
            from perfcast.simulate.training import closed_form_step

            time = closed_form_step(work, seconds, launch_seconds=self.launch_seconds)
        else:
            time = simulate_step(work, seconds, launch_seconds=self.launch_seconds, with_spans=with_spans)
        return _lengthened(time, self.fixed_seconds)


def _lengthened(time: StepTime, seconds: float) -> StepTime:
    """The same step, later by so much on all ranks."""
    if not seconds:
        return time
    ranks = tuple(
        replace(
            rank,
            seconds_by_cause={
                **rank.seconds_by_cause, "other": rank.seconds_by_cause.get("other", 0.0) + seconds
            },
        )
        for rank in time.ranks
    )  # fmt: skip
    path = (*time.critical_path, ("fixed part of every step", seconds))
    return replace(
        time,
        step_seconds=time.step_seconds + seconds,
        ranks=ranks,
        critical_path=tuple(sorted(path, key=lambda item: -item[1])),
    )
