"""The time of a step's work by the chosen method: the one place that calls the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfcast.core.forecast.plan import StepTime, StragglerEffect
from perfcast.core.mode import Method, Mode
from perfcast.core.operation import Operation
from perfcast.core.work import StepWork
from perfcast.cost.interval import StepError
from perfcast.cost.model import CostModel, KnowsHost
from perfcast.prediction.step.constants import StepConstants
from perfcast.prediction.step.inference_errors import step_error_of

if TYPE_CHECKING:
    from perfcast.core.training import Training
    from perfcast.simulate.layer import CallsTime
    from perfcast.simulate.stragglers import Slowdowns
    from perfcast.simulate.training import PlayedStep

Seconds = Mapping[Operation, float]


@dataclass(frozen=True, eq=False)
class Variant:
    """A step that is timed beside others which differ little from it.

    Attributes:
        launch_seconds: Of the host from one kernel to the next; None: as the timer has it.
        stage_slowdowns: Factors on each stage's compute; None: as priced.
    """

    work: StepWork
    seconds: Seconds
    launch_seconds: float | None = None
    stage_slowdowns: Sequence[float] | None = None


@dataclass(frozen=True)
class Timer:
    """How a step is timed.

    Attributes:
        method: 'simulated', event by event, or 'closed_form', formulas of the pipeline.
        mode: 'train', 'prefill' or 'decode'.
        launch_seconds: Of the host from one kernel to the next.
        fixed_seconds: Of every step, beside its work; counted as 'other'.
        interval_widening: Factor on the half-widths of the step's interval.
        step_error: What the step adds to the interval of its prices; None: what steps of its kind do.
    """

    method: Method
    mode: Mode
    launch_seconds: float
    fixed_seconds: float = 0.0
    interval_widening: float = 1.0
    step_error: StepError | None = None

    def error_of(self, work: StepWork) -> StepError:
        """What the step adds to the interval of its prices."""
        if self.step_error is not None:
            return self.step_error
        read = work.num_tokens / work.plan.data_parallel
        return step_error_of(self.mode, read, issues_kernels=self.launch_seconds > 0)

    def time(
        self,
        work: StepWork,
        seconds: Seconds,
        *,
        stage_slowdowns: Sequence[float] | None = None,
        with_path: bool = True,
        played: dict[object, CallsTime] | None = None,
    ) -> StepTime:
        """The step and where its time goes, without a timeline.

        Args:
            stage_slowdowns: Factor on each stage's compute, of a training or by formula; None: as priced.
            with_path: Whether to give a simulated training's critical path, which takes most of the time.
            played: Parts of the step by formula, see ``simulate.part_times.time_parts``.
        """
        from perfcast.simulate.training import simulate_step

        launch_seconds, slowdown = self.launch_seconds, slowdown_beside()
        if self.method == "closed_form":
            time = self._by_formula(work, seconds, stage_slowdowns, played)
        elif self.mode == "train":
            time = simulate_step(
                work,
                seconds,
                launch_seconds=launch_seconds,
                slowdown=slowdown,
                rank_slowdowns=stage_slowdowns,
                with_path=with_path,
            )
        else:
            return self.time_played(self.play(work, seconds))
        return lengthened(time, self.fixed_seconds)

    def _by_formula(
        self,
        work: StepWork,
        seconds: Seconds,
        stage_slowdowns: Sequence[float] | None,
        played: dict[object, CallsTime] | None,
    ) -> StepTime:
        """A step; of decoding, from one token of every micro-batch to the next."""
        (time,) = self._all_by_formula([Variant(work, seconds, stage_slowdowns=stage_slowdowns)], played)
        return time

    def time_all(
        self, variants: Sequence[Variant], played: dict[object, CallsTime] | None = None
    ) -> list[StepTime]:
        """Variants of one step, without timelines; by formula parts that they share are played once.

        Args:
            played: Parts of the step by formula, as of ``time``.
        """
        if self.method == "closed_form":
            times = self._all_by_formula(variants, played)
            return [lengthened(time, self.fixed_seconds) for time in times]
        found = []
        for one in variants:
            launch_seconds = self.launch_seconds if one.launch_seconds is None else one.launch_seconds
            timer = replace(self, launch_seconds=launch_seconds)
            found.append(timer.time(one.work, one.seconds, stage_slowdowns=one.stage_slowdowns))
        return found

    def _all_by_formula(
        self, variants: Sequence[Variant], played: dict[object, CallsTime] | None
    ) -> list[StepTime]:
        from perfcast.simulate.closed_form.decoding import round_of_micro_batches
        from perfcast.simulate.closed_form.step import StepCase, closed_form_steps
        from perfcast.simulate.part_times import time_parts

        played = {} if played is None else played
        slowdown = slowdown_beside()
        cases, counts = [], []
        for one in variants:
            launch_seconds = self.launch_seconds if one.launch_seconds is None else one.launch_seconds
            times = time_parts(
                one.work, one.seconds, launch_seconds=launch_seconds, slowdown=slowdown, played=played
            )
            work, count = one.work, one.work.plan.num_micro_batches if self.mode == "decode" else 1
            if count > 1:
                work = replace(work, plan=replace(work.plan, num_micro_batches=1))
            cases.append(StepCase(work, times, one.stage_slowdowns))
            counts.append(count)
        steps = closed_form_steps(cases)
        return [
            round_of_micro_batches(once, count) if count > 1 else once
            for once, count in zip(steps, counts, strict=True)
        ]

    def play(self, work: StepWork, seconds: Seconds) -> PlayedStep:
        """The step event by event; of decoding one round, each micro-batch once through all stages."""
        from perfcast.simulate.part_times import time_parts
        from perfcast.simulate.training import play_step

        times = time_parts(work, seconds, launch_seconds=self.launch_seconds, slowdown=slowdown_beside())
        return play_step(work, times)

    def time_played(self, played: PlayedStep, *, with_spans: bool = False) -> StepTime:
        """The step that was played, and where its time goes.

        Args:
            with_spans: Whether to give the timeline.
        """
        from perfcast.simulate.inference import decode_round
        from perfcast.simulate.training import time_of_played

        if self.mode == "decode":
            return lengthened(decode_round(played, with_spans=with_spans), self.fixed_seconds)
        return lengthened(time_of_played(played, with_spans=with_spans), self.fixed_seconds)

    def stragglers(
        self, work: StepWork, seconds: Seconds, slowdowns: Slowdowns, step_seconds: float
    ) -> StragglerEffect:
        """The step over draws of all ranks' slowdowns.

        Draws are played by formula; each is taken relative to the formula's step without stragglers.

        Args:
            step_seconds: Of the step without stragglers, as ``time`` has it.
        """
        from perfcast.simulate.closed_form.step import closed_form_step
        from perfcast.simulate.stragglers import straggler_effect

        launch_seconds, slowdown = self.launch_seconds, slowdown_beside()
        even = closed_form_step(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown)
        effect = straggler_effect(work, seconds, slowdowns, launch_seconds=launch_seconds, slowdown=slowdown)
        ratio = (step_seconds - self.fixed_seconds) / even.step_seconds
        names = ("mean_seconds", "p50_seconds", "p95_seconds", "p99_seconds")
        scaled = {name: ratio * getattr(effect, name) + self.fixed_seconds for name in names}
        return replace(effect, **scaled)


def make_timer(
    method: Method, mode: Mode, training: Training | None, cost_model: CostModel, constants: StepConstants
) -> Timer:
    """How a step is timed: a training by its framework's host, inference by the kernels' framework's."""
    if training is not None:
        framework = training.framework
        launch_seconds = constants.launch_seconds[framework]
        fixed_seconds = constants.fixed_seconds.get(framework, 0.0)
    else:
        launch_seconds = cost_model.host_seconds if isinstance(cost_model, KnowsHost) else 0.0
        fixed_seconds = 0.0
    return Timer(method, mode, launch_seconds, fixed_seconds, constants.interval_widening)


def slowdown_beside() -> tuple[float, float]:
    """Factors on compute and on communication while both run on a device."""
    from perfcast.cost.collective.constants import load_constants

    figures = load_constants()
    return figures.compute_slowdown, figures.communication_slowdown


def lengthened(time: StepTime, seconds: float) -> StepTime:
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
    path = (*time.critical_path, ("fixed part of every step", seconds)) if time.critical_path else ()
    return replace(
        time,
        step_seconds=time.step_seconds + seconds,
        ranks=ranks,
        critical_path=tuple(sorted(path, key=lambda item: -item[1])),
    )
