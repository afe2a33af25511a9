"""The streams of one stage, followed task by task: compute, host, gathers and gradient reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.work import StepWork
from perfcast.simulate.layer import CallsTime
from perfcast.simulate.part_times import PartTimes
from perfcast.simulate.pipeline.build import gathers_ahead
from perfcast.simulate.pipeline.causes import SAME, WAITS
from perfcast.simulate.pipeline.data_stream import DataStream

#: What is waited for: its end, its stage, its start, its kind ('' for the compute of another stage).
Awaited = tuple[float, int, float, str]


@dataclass(slots=True)
class Task:
    """A unit of a stage's compute that runs again and again.

    Attributes:
        lead, rest: Seconds of the host before it may start, and behind; ``is_launched``: whether it has any.
        factor: On its time while communication runs beside it.
        gather, gradient_reduction: Seconds on the data stream.
        count: How often it has run.
    """

    stage: int
    seconds: float
    causes: Mapping[str, float]
    is_launched: bool
    lead: float
    rest: float
    factor: float
    gather: float = 0.0
    gradient_reduction: float = 0.0
    count: int = 0

    @classmethod
    def of(
        cls,
        time: CallsTime,
        stage: int,
        times: PartTimes,
        gather: float = 0.0,
        gradient_reduction: float = 0.0,
    ) -> Task:
        """From its time alone."""
        share = time.compute_seconds / time.seconds if time.seconds else 0.0
        return cls(
            stage,
            time.seconds,
            time.seconds_by_cause,
            bool(times.launch_seconds and time.host_seconds),
            time.lead_seconds,
            max(time.host_seconds - time.lead_seconds, 0.0),
            1.0 + (times.slowdown[0] - 1.0) * min(share, 1.0),
            gather,
            gradient_reduction,
        )

    def add_causes(self, found: dict[str, float]) -> None:
        """Add what all its runs were spent on."""
        for cause, seconds in self.causes.items():
            if self.count:
                found[cause] = found.get(cause, 0.0) + self.count * seconds


class StageStreams:
    """One stage.

    Attributes:
        blocking: What the next unit must wait for beside its own.
    """

    __slots__ = (
        "_clock",
        "_data",
        "_expected",
        "_host",
        "_issued",
        "_keeps",
        "_number",
        "_put_off",
        "_puts_off",
        "_waited",
        "_work",
        "blocking",
    )

    def __init__(self, work: StepWork, times: PartTimes, number: int) -> None:
        self.blocking: list[Awaited] = []
        self._work, self._number = work, number
        self._clock = self._host = 0.0
        self._keeps = not work.gathers_each_micro_batch
        self._puts_off = not (work.overlaps_gradient_reduction or work.reduces_gradients_each_micro_batch)
        self._data = DataStream(times.slowdown[1])
        self._put_off: list[float] = []
        self._waited: dict[str, float] = {}
        self._expected: list[tuple[list[float], bool]] = []
        self._issued: list[int] = []

    # ---- gathers that are kept -----------------------------------------------------------------------------

    def expect(self, rows: Sequence[tuple[list[float], bool]]) -> None:
        """Tell of all gathers to come where weights are kept: they run as early as their stream lets them.

        Args:
            rows: Of each step with gathers or gradient reductions, in order: its gathers, and whether it
                reduces gradients.
        """
        if self._keeps:
            self._expected = list(reversed(rows))
            self._issue_expected()

    def _issue_expected(self) -> None:
        """Gathers of the steps to come, up to the first gradient reduction that stands before them."""
        while self._expected:
            gathers, reductions = self._expected[-1]
            self._issued += [self._data.add(0.0, seconds) for seconds in gathers]
            if reductions:
                self._expected[-1] = ([], True)
                return
            self._expected.pop()

    # ---- compute -------------------------------------------------------------------------------------------

    def run_all(self, tasks: Sequence[Task], reductions: bool, awaited: Sequence[Awaited]) -> float:
        """A schedule step of several tasks, or with work beside them; returns its end."""
        work = self._work
        ahead = gathers_ahead(work, len(tasks))
        before, gathers, done = self._clock, list[int](), list[float]()
        for at, task in enumerate(tasks):
            for other in range(len(gathers), min(at + ahead + 1, len(tasks))):
                behind = other - ahead - 1
                gathers.append(self._gather(tasks[other].gather, done[behind] if behind >= 0 else before))
            needed = gathers[at] if work.overlaps_gather or not self._keeps else max(gathers)
            done.append(self.run(task, awaited if at == 0 else (), needed))
            if task.gradient_reduction and work.overlaps_gradient_reduction:
                self._data.add(done[-1], task.gradient_reduction)
            elif task.gradient_reduction:
                self._put_off.append(task.gradient_reduction)
        if reductions and not self._puts_off:
            if not work.overlaps_gradient_reduction:
                self._block(self._put_off)
            if self._expected:
                self._expected.pop()
                self._issue_expected()
        return self._clock

    def _gather(self, seconds: float, ready: float) -> int:
        if not seconds:
            return -1
        return self._issued.pop(0) if self._keeps else self._data.add(ready, seconds)

    def _block(self, put_off: list[float]) -> None:
        """Let the next task wait for gradient reductions that run now: the compute is idle until they end."""
        for seconds in put_off:
            end = self._data.finish(self._data.add(self._clock, seconds))
            self.blocking.append((end, self._number, end, "gradient_reduction"))
        put_off.clear()

    def run(self, task: Task, awaited: Sequence[Awaited], needed: int = -1) -> float:
        """One task behind all before it, behind messages and a task of the data stream (-1: none)."""
        start = clock = self._clock
        issued = 0.0
        if task.is_launched:
            issued = self._host + task.lead
            self._host = issued + task.rest
            start = max(start, issued)
        for wait in awaited:
            if wait[0] > start:
                start = wait[0]
        for wait in self.blocking:
            start = max(start, wait[0])
        gathered = self._data.finish(needed) if needed >= 0 else 0.0
        start = max(start, gathered)
        if start > clock:
            number = self._number
            own = ((gathered, number, gathered, "gather"), (issued, number, issued, "host"))
            self._wait([*awaited, *self.blocking, *own], start)
        if self.blocking:
            self.blocking.clear()
        task.count += 1
        self._clock = end = start + task.seconds if self._data.is_idle else self._run_beside(task, start)
        return end

    def _run_beside(self, task: Task, start: float) -> float:
        """Of a task that begins now, beside what the data stream has to do."""
        end = self._data.run_beside(start, task.seconds, task.factor)
        longer = end - start - task.seconds
        if longer > SAME * (end - start) and task.seconds:
            self._waited["data"] = self._waited.get("data", 0.0) + longer
        return end

    def _wait(self, waits: Sequence[Awaited], until: float) -> None:
        """Charge an idle time to what is waited for, of several in the order in which they end."""
        clock, waited = self._clock, self._waited
        late = [wait for wait in waits if wait[0] > clock]
        for end, _, start, kind in sorted(late, key=_order) if len(late) > 1 else late:
            while_running, before = WAITS.get(kind, ("bubble", "bubble"))
            for cause, moment in ((before, min(start, until)), (while_running, end)):
                if moment > clock:
                    waited[cause] = waited.get(cause, 0.0) + moment - clock
                    clock = moment
        if until > clock:
            waited["bubble"] = waited.get("bubble", 0.0) + until - clock

    # ---- the end -------------------------------------------------------------------------------------------

    def end_reductions(self) -> None:
        """What was put off, and all that the data stream still has to do, block the stage."""
        for seconds in self._put_off:
            self._data.add(self._clock, seconds)
        if self._data.num_tasks:
            end = self._data.finish(self._data.num_tasks - 1)
            self.blocking.append((end, self._number, end, "gradient_reduction"))

    def free_at(self) -> float:
        """When all that the stage is to do has ended."""
        return max([self._clock, *(wait[0] for wait in self.blocking)])

    def wait_until(self, moment: float) -> None:
        """Wait for all stages."""
        if moment > self._clock:
            self._wait(self.blocking, moment)
            self._clock = moment
        self.blocking.clear()

    def waited(self, step_seconds: float) -> dict[str, float]:
        """What its idle time until the end of the step went to, and what its tasks took longer."""
        found = dict(self._waited)
        if step_seconds > self._clock:
            found["bubble"] = found.get("bubble", 0.0) + step_seconds - self._clock
        return found


def _order(wait: Awaited) -> tuple[float, int]:
    return wait[:2]
