"""Ranks of different speed: what a distribution of slowdowns does to a step.

Every rank of the whole plan draws its own slowdown. Ranks that exchange within layers (tensor, context and
expert parallel groups; all shards under ZeRO 3) go at the pace of the slowest among them. Each such group is
one pipeline of stages, played by the max-plus recursion of its schedule for all groups and draws at once:

    end of an action = max(end of the action before it, arrival of what it needs) + collectives + slowdown ·
    compute

Gradients are exchanged when the slowest replica of a stage is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.forecast.plan import StragglerEffect
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.work import StepWork
from perfcast.errors import InputError
from perfcast.ranges import ANY_NUMBER, excerpt, read_number
from perfcast.simulate.closed_form.figures import HOST, OWN, SECONDS
from perfcast.simulate.closed_form.step import closed_form_step, stage_columns
from perfcast.simulate.part_times import PartTimes, time_parts
from perfcast.simulate.schedule import Pass
from perfcast.simulate.schedule.order import ScheduleStep, order_steps
from perfcast.simulate.training import actions_of
from perfcast.units import KILO, MIB

#: Numbers in all arrays of one batch of draws: 512 MiB.
_MOST_NUMBERS = 64 * MIB
#: Of the logarithm: one rank of six is a hundred times slower than the median, or faster.
_MOST_SIGMA = 5.0


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """How ranks differ: by what the compute of each takes longer than its price.

    Attributes:
        sigma: Of the logarithm; the median rank is as fast as its price says.
        share, factor: A share of the ranks that is, beside that, slower by a factor.
    """

    sigma: float = 0.0
    share: float = 0.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not (0 <= self.sigma <= _MOST_SIGMA and 0 <= self.share <= 1 and 1 <= self.factor <= KILO):
            raise InputError(
                f"slowdowns with sigma={self.sigma:g}, share={self.share:g}, factor={self.factor:g}: sigma "
                f"from 0 to {_MOST_SIGMA:g}, share from 0 to 1, factor from 1 to {KILO:g}"
            )

    @property
    def words(self) -> str:
        """For the reader of a result."""
        parts = []
        if self.sigma or not self.share:
            parts.append(f"lognormal with sigma {self.sigma:g}")
        if self.share:
            parts.append(f"{self.share:.3g} of the ranks {self.factor:g} times slower")
        return ", ".join(parts)

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Slowdowns of so many ranks."""
        drawn = np.ones(shape)
        if self.sigma:
            drawn = np.exp(self.sigma * generator.standard_normal(shape))
        if self.share:
            drawn[generator.random(shape) < self.share] *= self.factor
        return drawn


def parse_slowdowns(text: str) -> Slowdowns:
    """``'lognormal:0.02'``, ``'share:0.01:1.3'`` (1 % of the ranks 1.3 times slower), or both with a '+'.

    Raises:
        InputError: Anything else.
    """
    found: dict[str, float] = {}
    for part in text.split("+"):
        name, *numbers = part.strip().split(":")
        keys = {"lognormal": ("sigma",), "share": ("share", "factor")}.get(name)
        try:
            if keys is None or len(keys) != len(numbers):
                raise ValueError
            found.update(zip(keys, (read_number("", each, ANY_NUMBER) for each in numbers), strict=True))
        except (ValueError, InputError):
            raise InputError(
                f"stragglers {excerpt(text)}: expected lognormal:SIGMA, share:SHARE:FACTOR, or both "
                "with a +, such as lognormal:0.02+share:0.001:1.5"
            ) from None
    return Slowdowns(**found)


def straggler_effect(
    work: StepWork,
    seconds: Mapping[Operation, float],
    slowdowns: Slowdowns,
    *,
    num_draws: int = 100,
    seed: int = 0,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
) -> StragglerEffect:
    """The step over draws of all ranks' slowdowns.

    Where nobody is slower the step is that of ``closed_form_step``: what the recursion leaves out (messages
    that block, the slower last backward) is added to every draw as it is there.

    Args:
        seconds: Of one run of each operation.
        launch_seconds: Between two launches of the host.
        slowdown: Factors of compute and of communication while both run on a device.

    Raises:
        InputError: Fewer than one draw.
    """
    if num_draws < 1:
        raise InputError(f"{num_draws} draws of stragglers: must be at least 1")
    even = closed_form_step(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown).step_seconds
    times = time_parts(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown)
    pipelines = _Pipelines(work, times)
    left_out = even - float(pipelines.steps(np.ones((len(work.stages), 1, 1)))[0])
    generator = np.random.default_rng(seed)
    ranks, num_groups = work.plan.ranks_per_stage, work.plan.ranks_per_stage // pipelines.group_size
    per_batch = max(1, _MOST_NUMBERS // (3 * ranks + pipelines.num_arrays * num_groups))
    found = []
    for first in range(0, num_draws, per_batch):
        shape = (min(per_batch, num_draws - first), num_groups, pipelines.group_size)
        slowest = np.stack([slowdowns.draw(generator, shape).max(axis=2) for _ in work.stages])
        found.append(pipelines.steps(slowest) + left_out)
    steps = np.concatenate(found)
    p50, p95, p99 = np.quantile(steps, (0.5, 0.95, 0.99)).tolist()
    return StragglerEffect(slowdowns.words, float(steps.mean()), p50, p95, p99, num_draws)


def ranks_in_step(plan: Plan, gathers: bool) -> int:
    """Ranks of a stage that wait for each other in every layer.

    Groups lie in blocks of the stage's ranks: tensor and context parallel ones, those of experts, and where
    weights are gathered layer by layer, all shards.
    """
    sizes = [plan.tensor_parallel * plan.context_parallel]
    if plan.expert_parallel > 1:
        sizes.append(plan.expert_parallel * plan.tensor_parallel_of_experts)
    if gathers:
        sizes.append(plan.tensor_parallel * plan.shard_size)
    return lcm(*sizes)


class _Pipelines:
    """All groups of a plan's ranks that pass micro-batches to each other."""

    def __init__(self, work: StepWork, times: PartTimes) -> None:
        self.group_size = ranks_in_step(work.plan, times.has_gathers)
        self._work, self._times = work, times
        columns = stage_columns(work, times)
        self._stages = [columns.kinds[kind] for kind in columns.group.cut.stage_kinds]
        self._schedule, num_under_way = order_steps(
            work.plan.schedule, actions_of(work), work.plan.virtual_stages_per_rank
        )
        different = {(one.stage, tuple((a.kind, a.chunk) for a in one.actions)) for one in self._schedule}
        self.num_arrays = num_under_way + len(different) + 2 * len(work.stages) + 2

    def steps(self, slowest: Floats) -> Floats:
        """[draws]: seconds of the step, from the slowest rank of each group: [stages, draws, groups]."""
        ends = self._last_ends(slowest)
        done = [end.max(axis=1) + stage.left[0] for end, stage in zip(ends, self._stages, strict=True)]
        if len(done) > 1 and any(c.is_collective for s in self._work.stages for c in s.optimizer):
            done = [np.maximum.reduce(done)] * len(done)
        for stage, time in enumerate(self._times.optimizers):
            factor = slowest[stage].max(axis=1)
            done[stage] = done[stage] + time.communication_seconds + time.compute_seconds * factor
        return np.asarray(np.maximum.reduce(done))

    def _last_ends(self, slowest: Floats) -> list[Floats]:
        """Of each stage, when its passes are over: [draws, groups]."""
        message = self._times.boundary_seconds
        blocked = 0.0 if self._work.overlaps_boundary else message
        ends = [np.zeros(slowest.shape[1:]) for _ in self._stages]
        arrivals: dict[int, Floats] = {}
        seconds: dict[object, Floats] = {}
        for step in self._schedule:
            key = (step.stage, tuple((a.kind, a.chunk) for a in step.actions))
            if key not in seconds:
                seconds[key] = _slowed(self._pass(step), slowest[step.stage]) + blocked * len(step.given)
            end = ends[step.stage]
            for message_at in step.awaited:
                end = np.maximum(end, arrivals.pop(message_at))
            ends[step.stage] = end = end + seconds[key]
            for message_at in step.given:
                arrivals[message_at] = end + (message - blocked)
        return ends

    def _pass(self, step: ScheduleStep) -> Floats:
        """Figures of a pass."""
        stage, action = self._stages[step.stage], step.actions[0]
        if len(step.actions) > 1 and stage.joined is not None:
            return stage.joined.figures[:, 0]
        if action.kind is Pass.FORWARD:
            return stage.forwards[action.chunk].figures[:, 0]
        if action.kind is Pass.WEIGHT_GRADIENT:
            return stage.weights[action.chunk].figures[:, 0]
        backward: Floats = stage.backwards[action.chunk].figures[:, 0]
        if action.kind is Pass.BACKWARD and stage.weights:
            return backward + stage.weights[action.chunk].figures[:, 0]
        return backward


def _slowed(figures: Floats, slowest: Floats) -> Floats:
    """Seconds of a pass on groups whose compute takes so much longer; the host is as fast as ever."""
    own = figures[OWN]
    return np.asarray(np.maximum(figures[SECONDS] - own + own * slowest, figures[HOST]))
