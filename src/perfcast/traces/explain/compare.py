"""Two recordings side by side: what got slower, what got faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcast.traces.explain.breakdown import Breakdown, TimeShare
from perfcast.traces.explain.recordings import Explanation


@dataclass(frozen=True, slots=True)
class Change:
    """Time of one label in both, a step and rank, and how often it ran there; 0 where it did not."""

    label: str
    before_seconds: float
    after_seconds: float
    before_count: float
    after_count: float

    @property
    def seconds(self) -> float:
        """After minus before."""
        return self.after_seconds - self.before_seconds

    @property
    def ratio(self) -> float | None:
        """After over before; None where it did not run before."""
        return self.after_seconds / self.before_seconds if self.before_seconds else None


@dataclass(frozen=True)
class Comparison:
    """Changes from one explanation to another, the largest first; seconds a step of the mean rank.

    ``parts`` are those of the device's time; they add up to the change of its window.
    """

    before_step_seconds: float
    after_step_seconds: float
    parts: tuple[Change, ...]
    kinds: tuple[Change, ...]
    phases: tuple[Change, ...]
    operators: tuple[Change, ...]
    kernels: tuple[Change, ...]
    modules: tuple[Change, ...]
    overheads: tuple[Change, ...]


PARTS = (
    ("computing", "compute_seconds"),
    ("communicating alone", "exposed_communication_seconds"),
    ("copying alone", "copy_seconds"),
    ("waiting for the host", "host_wait_seconds"),
    ("waiting for kernels to start", "kernel_wait_seconds"),
    ("waiting for something else", "other_wait_seconds"),
)


def compare_explanations(before: Explanation, after: Explanation) -> Comparison:
    """What changed from ``before`` to ``after``."""

    def changes(pick: Callable[[Breakdown], Sequence[TimeShare]]) -> tuple[Change, ...]:
        return _changes(_sums(before.breakdowns, pick), _sums(after.breakdowns, pick))

    return Comparison(
        before.mean_step_seconds,
        after.mean_step_seconds,
        changes(device_parts),
        changes(lambda b: b.kinds),
        changes(lambda b: b.phases),
        changes(lambda b: b.operators),
        changes(lambda b: b.kernels),
        changes(lambda b: b.modules),
        _changes(_overheads(before), _overheads(after)),
    )


def device_parts(breakdown: Breakdown) -> tuple[TimeShare, ...]:
    """The parts of the device's time, under the names by which they are read."""
    return tuple(TimeShare(label, getattr(breakdown.device_time, field), 1) for label, field in PARTS)


def _sums(
    breakdowns: Sequence[Breakdown], pick: Callable[[Breakdown], Sequence[TimeShare]]
) -> dict[str, tuple[float, float]]:
    """(seconds, count) of each label, a step of the mean rank."""
    sums: dict[str, tuple[float, float]] = {}
    for own in breakdowns:
        weight = 1 / (max(len(own.step_seconds), 1) * len(breakdowns))
        for item in pick(own):
            seconds, count = sums.get(item.label, (0.0, 0.0))
            sums[item.label] = (seconds + item.seconds * weight, count + item.count * weight)
    return sums


def _overheads(explanation: Explanation) -> dict[str, tuple[float, float]]:
    sums: dict[str, tuple[float, float]] = {}
    for rank in explanation.ranks:
        weight = 1 / (max(len(rank.breakdown.step_seconds), 1) * len(explanation.ranks))
        for item in rank.overheads:
            seconds, count = sums.get(item.overhead.value, (0.0, 0.0))
            sums[item.overhead.value] = (seconds + item.seconds * weight, count + item.count * weight)
    return sums


def _changes(
    before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]
) -> tuple[Change, ...]:
    nothing = (0.0, 0.0)
    found = []
    for label in dict.fromkeys([*before, *after]):
        (old, old_count), (new, new_count) = before.get(label, nothing), after.get(label, nothing)
        found.append(Change(label, old, new, old_count, new_count))
    return tuple(sorted(found, key=lambda change: (-abs(change.seconds), change.label)))
