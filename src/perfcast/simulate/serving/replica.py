"""One replica: engines that step together, and the run of equal steps that is under way.

Attention data-parallel ranks have a scheduler each and share experts, so all begin a step at the same time
and the slowest ends it, with experts that have the tokens of all; a rank that has nothing to do takes part
with a dummy batch, which makes nothing longer. A pipeline of S stages keeps S batches under way, each with
sequences of its own: those are S engines here, with a share of the memory each. A round, in which each batch
makes one step, takes the sum of what the first stage needs for all of them, but at least the slowest's way
through all stages.

Steps are not played one by one. Until a request comes, an answer is complete or blocks run out, steps differ
in the cached tokens alone, in which ``StepTimes`` is linear between its grid points: j steps from a begin
with t1 for the first and t1 + (k - 1) d for the k-th take j t1 + d j (j - 1) / 2. A run is cut where its
caches have grown by an eighth, so that it bridges no more of the grid than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from perfcast.core.serving.step import StepBatch, StepBatches, StepTimes, batches_in_columns
from perfcast.simulate.serving.schedulers.base import Completed, Scheduler
from perfcast.simulate.serving.sequence import Sequence

_GROWTH = 8
#: Ranks of which each is asked for by itself.
_FEW = 3
Planned: TypeAlias = list[tuple[Scheduler, StepBatch]]


@dataclass(slots=True)
class Run:
    """Equal steps under way.

    Attributes:
        begin_seconds: Of the first.
        steps: How many.
        first_seconds: Of the first step.
        further_seconds: By which each takes longer than the one before.
        batches: Of the engines that take part, in its middle.
    """

    begin_seconds: float
    steps: int
    first_seconds: float
    further_seconds: float
    batches: list[StepBatch]

    def seconds_of(self, steps: int) -> float:
        """Of the first so many steps."""
        return steps * self.first_seconds + self.further_seconds * (steps * (steps - 1) / 2)

    @property
    def end_seconds(self) -> float:
        """When the last is done."""
        return self.begin_seconds + self.seconds_of(self.steps)

    def steps_until(self, seconds: float) -> int:
        """Steps that are done at that time or are under way then."""
        low, high = 0, self.steps  # low ends before, high at or after it
        while high - low > 1:
            middle = (low + high) // 2
            before = self.begin_seconds + self.seconds_of(middle) < seconds
            low, high = (middle, high) if before else (low, middle)
        return high


def _columns(planned: Planned) -> StepBatches:
    return batches_in_columns([batch for _, batch in planned])


class Replica:
    """Engines that step together.

    Args:
        number: Of the replica.
        ranks: Schedulers of each attention data-parallel rank: one for each batch that is under way.
        times: How long steps take.
        jumps: Whether runs of equal steps are played at once.
    """

    def __init__(
        self, number: int, ranks: list[list[Scheduler]], times: StepTimes, *, jumps: bool = True
    ) -> None:
        self.number, self.ranks, self.times, self.jumps = number, ranks, times, jumps
        self.engines = [engine for rank in ranks for engine in rank]
        self.run: Run | None = None
        self.version = 0
        self.begin_is_due = False
        self.arriving: list[tuple[Scheduler, Sequence]] = []
        self.loaded: list[tuple[Scheduler, Sequence]] = []
        self._ended_seconds = -1.0
        self._wait, self._waited = self.engines[0].scheduling.rank_wait_steps, 0
        self._polls, self._unpolled = self.engines[0].scheduling.polls_every_steps, 0
        self._balances = self._wait > 0 and len(ranks) > 1
        self._ahead = self.engines[0].scheduling.schedules_ahead
        self.planned: Planned = []

    # -- requests

    def take(self, engine: Scheduler, sequence: Sequence, now: float) -> bool:
        """A request has come; whether the run under way ends earlier for it."""
        is_idle = self.run is None and self._ended_seconds != now
        if is_idle or (self.run is None and not self._ahead and self._polls == 1):
            engine.waiting.append(sequence)
            return False
        may_start = engine.has_place() and self._polls == 1
        self.arriving.append((engine, sequence))
        return may_start and self.cut(now)

    def cut(self, now: float) -> bool:
        """End the run with the step that is under way; whether that changes its end."""
        if self.run is None:
            return False
        steps = self.run.steps_until(now)
        changed = steps < self.run.steps
        self.run.steps = steps
        return changed

    def _see_arrivals(self) -> bool:
        for engine, sequence in self.arriving:
            engine.waiting.append(sequence)
        seen = bool(self.arriving)
        self.arriving.clear()
        return seen

    # -- steps

    def begin(self, now: float, *, continues: bool) -> Run | None:
        """Plan the next steps; ``continues``: the last one ended just now."""
        for engine, sequence in self.loaded:
            engine.join(sequence)
        self.loaded.clear()
        polls = not continues or self._unpolled >= self._polls
        late = self._ahead and continues
        if polls and not late:
            self._see_arrivals()
        self._plan()
        news = polls and late and self._see_arrivals()
        if not self.planned and (news or self._see_arrivals()):
            self._plan()
        self._unpolled = 0 if polls else self._unpolled
        self.run = self._new_run(now, 1 if news else self._most_steps()) if self.planned else None
        return self.run

    def _most_steps(self) -> int:
        """Until something changes by itself, or requests that have come are looked at."""
        most = min((engine.most_steps() for engine, _ in self.planned), default=0)
        if self._balances:
            most = min(most, self._wait - self._waited)
        return most if self._polls == 1 else min(most, max(1, self._polls - self._unpolled))

    def _plan(self) -> None:
        if self._balances:
            self._balance()
        planned = ((engine, engine.plan()) for engine in self.engines)
        self.planned = [(engine, batch) for engine, batch in planned if batch is not None]

    def _balance(self) -> None:
        """Hold prompts back until all ranks have one, some have nothing to write, or the wait is over."""
        self._waited += 1
        is_over = self._waited >= self._wait or not all(len(engine.writers) for engine in self.engines)
        if is_over or all(engine.has_prompt() for engine in self.engines):
            self._waited = 0
        for engine in self.engines:
            engine.holds_prompts = self._waited > 0

    def _new_run(self, now: float, most: int) -> Run:
        batches = [batch for _, batch in self.planned]
        steps = 1
        if most > 1 and self.jumps:
            steps = min(most, *(self._steps_of_growth(engine, batch) for engine, batch in self.planned))
        if steps == 1:
            return Run(now, 1, self._seconds([self.planned])[0], 0.0, batches)
        end = [(engine, engine.later(batch, steps - 1)) for engine, batch in self.planned]
        first, last = self._seconds([self.planned, end])
        middle = [engine.later(batch, (steps - 1) // 2) for engine, batch in self.planned]
        return Run(now, steps, first, (last - first) / (steps - 1), middle)

    @staticmethod
    def _steps_of_growth(engine: Scheduler, batch: StepBatch) -> int:
        """Steps until the caches have grown by a share of themselves."""
        gain = max(1, engine.writers.ticks_after(1) - engine.writers.ticks)
        return 1 + int(batch.cached_tokens / (_GROWTH * batch.sequences * gain))

    def _seconds(self, steps: list[Planned]) -> list[float]:
        """Of each of some steps: until the slowest rank is done."""
        times, several = self.times, len(steps[0]) > _FEW
        if len(self.engines) == 1:
            return [times.latency_seconds(planned[0][1]) for planned in steps]
        if times.stages > 1:
            return [self._rounds(planned) for planned in steps]
        if any(batch.prompts for _, batch in steps[0]):
            return [times.seconds_together(_columns(planned), len(self.ranks)) for planned in steps]
        if not several:
            return [max(times.seconds(batch) for _, batch in planned) for planned in steps]
        batches = batches_in_columns([batch for planned in steps for _, batch in planned])
        slowest = times.seconds_of(batches).reshape(len(steps), -1).max(axis=1)
        return [float(seconds) for seconds in slowest]

    def _rounds(self, planned: Planned) -> float:
        found = {id(engine): batch for engine, batch in planned}
        return max(self._round(rank, found) for rank in self.ranks)

    def _round(self, rank: list[Scheduler], found: dict[int, StepBatch]) -> float:
        batches = [found[id(engine)] for engine in rank if id(engine) in found]
        total = sum(self.times.seconds(batch) for batch in batches)
        return max([total, *(self.times.latency_seconds(batch) for batch in batches)])

    def complete(self) -> tuple[Run, list[tuple[Scheduler, Completed]]]:
        """The run is over: what each engine has to show for it."""
        run = self.run
        if run is None:
            raise AssertionError("no step is under way")
        self.run = None
        if self._balances:
            self._waited += run.steps - 1
        self._unpolled += self._polls if any(batch.prompts for _, batch in self.planned) else run.steps
        self._ended_seconds = run.end_seconds
        return run, [(engine, engine.complete(run.steps)) for engine, _ in self.planned]

    def writing_engines(self) -> list[Scheduler]:
        """Whose writers gain a token in the steps under way."""
        return [engine for engine, batch in self.planned if batch.sequences]

    @property
    def kept_tokens(self) -> int:
        """Tokens whose keys and values its engines hold."""
        return sum(engine.kept_tokens for engine in self.engines)
