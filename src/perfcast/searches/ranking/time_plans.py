"""Steps of many plans, event by event: those whose parts take equally long are played once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from perfcast.core.forecast.plan import RankTime, StepTime
from perfcast.core.operation import Operation
from perfcast.core.work import StepWork
from perfcast.prediction.step.timer import Timer, lengthened, slowdown_beside
from perfcast.searches.evaluation.processes import run_in_processes
from perfcast.simulate.part_times import PartTimes, time_parts
from perfcast.simulate.pipeline.content import step_content
from perfcast.simulate.training import play_quickly, rank_times

#: Passes of micro-batches through stages for which a process is worth its start.
LEAST_PASSES = 10_000


@dataclass(frozen=True)
class PlanTimer:
    """Times steps, and remembers those that it has played.

    Attributes:
        timer: How a step is timed.
        seconds: Of each operation.
        num_processes: That share the steps of a call.
    """

    timer: Timer
    seconds: Mapping[Operation, float]
    num_processes: int = 1
    _known: dict[Hashable, StepTime] = field(default_factory=dict)

    def time(self, works: Sequence[StepWork]) -> list[StepTime]:
        """Of every step, without timelines and critical paths."""
        if self.timer.method != "simulated":
            return [self.timer.time(work, self.seconds) for work in works]
        parts = [self._parts(work) for work in works]
        contents = [step_content(work, times) for work, times in zip(works, parts, strict=True)]
        new = {
            content: (work, times)
            for content, work, times in zip(contents, works, parts, strict=True)
            if content not in self._known
        }
        self._known.update(zip(new, _play(list(new.values()), self.num_processes), strict=True))
        return [
            lengthened(_of_ranks(work, self._known[content]), self.timer.fixed_seconds)
            for work, content in zip(works, contents, strict=True)
        ]

    def _parts(self, work: StepWork) -> PartTimes:
        launch_seconds, slowdown = self.timer.launch_seconds, slowdown_beside()
        return time_parts(work, self.seconds, launch_seconds=launch_seconds, slowdown=slowdown)


def _play(steps: Sequence[tuple[StepWork, PartTimes]], num_processes: int) -> list[StepTime]:
    """Different steps, in the order given; those of one schedule stay together."""
    order = sorted(range(len(steps)), key=lambda at: _schedule(steps[at][0]))
    loads = list(accumulate((_num_passes(steps[at][0]) for at in order), initial=0))
    num_shares = max(min(num_processes, loads[-1] // LEAST_PASSES), 1)
    shares: list[list[int]] = [[] for _ in range(num_shares)]
    for at, load in zip(order, loads, strict=False):
        shares[load * num_shares // loads[-1]].append(at)
    shares = [share for share in shares if share]
    found = run_in_processes([partial(_play_all, [steps[at] for at in share]) for share in shares])
    by_place = {
        at: time
        for share, times in zip(shares, found, strict=True)
        for at, time in zip(share, times, strict=True)
    }
    return [by_place[at] for at in range(len(steps))]


def _play_all(steps: Sequence[tuple[StepWork, PartTimes]]) -> list[StepTime]:
    return [play_quickly(work, times) for work, times in steps]


def _schedule(work: StepWork) -> tuple[str, int, int, int]:
    plan = work.plan
    return plan.schedule, plan.pipeline_parallel, plan.num_micro_batches, plan.virtual_stages_per_rank


def _num_passes(work: StepWork) -> int:
    _, *numbers = _schedule(work)
    stages, micro_batches, virtual = numbers
    return stages * micro_batches * virtual


def _of_ranks(work: StepWork, time: StepTime) -> StepTime:
    """A step that was played for another plan, for the ranks of this one."""
    by_stage: list[RankTime] = sorted(time.ranks, key=lambda rank: rank.stage)
    return StepTime(
        time.step_seconds,
        rank_times(work, [rank.seconds_by_cause for rank in by_stage]),
        num_events=time.num_events,
    )
