"""Lin et al., "Towards Universal Performance Modeling for Machine Learning Training on Multi-GPU Platforms"
(IEEE TPDS 2024): a recorded step run again with modelled host overheads and kernels, rank by rank.

    every rank's trace       operators, launches, streams, collectives          traces/timeline/ranks
    T1 to T5                 trimmed means; T4 = 10 - 2 - 4 µs, every launch    traces/overheads/trimmed
    kernels                  T4 after the call, or 1 µs after the one before;
                             modelled times, if given, and 5 µs                 here
    embedding lookups        from tables, batch and reuse                       cost/embedding
    uneven all-to-all        max over ranks of max(sent, received)              cost/embedding/all_to_all
    ranks                    collectives start with their last member             traces/timeline/play
    sharding                 the published rule with the least forecast         searches/sharding

Its figures (geometric-mean error of a step 5.21 % for recommendation models, 3.00 % for transformers; the
fastest of its sharding rules named in 17 of 20 tasks) rest on recordings that are not public. On the public
trace of eight V100s (facebookresearch/param), overheads of ranks 0-3 and recorded kernels give steps of ranks
4-7 that are all too short, by 24 % in the geometric mean: a step is a sum, and a trimmed mean of overheads
with a long tail, times how many there are, is not theirs. ``compare`` says how much of each overhead is
dropped, and has the same step from means that keep their sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.errors import InputError
from perfcast.published.comparison import print_part
from perfcast.searches.sharding.baselines import COMPARED_2024, place_baseline
from perfcast.searches.sharding.options import list_options
from perfcast.searches.sharding.placement import time_placements
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.traces.overheads.profile import OverheadProfile, apply_overheads
from perfcast.traces.overheads.trimmed import LAUNCH_SECONDS, fit_trimmed_overheads
from perfcast.traces.timeline.play import RankTimeline, play_ranks
from perfcast.traces.timeline.program import RankProgram
from perfcast.units import MICRO

#: Between two kernels of a stream, and what a kernel takes beyond its model.
KERNEL_GAP_SECONDS, KERNEL_FIXED_SECONDS = MICRO, 5 * MICRO
#: Overheads of recordings.
FitOverheads = Callable[[Sequence[RankProgram]], OverheadProfile]
#: Keeps an exact forecast from making a geometric mean zero.
_LEAST_ERROR = 4e-4


@dataclass(frozen=True)
class Iteration:
    """A step of all ranks.

    Attributes:
        step_seconds: Host and streams, of the rank that ends last.
        active_seconds: When any stream of a device was busy, of the rank with most.
        kernel_seconds: Kernels of the busiest stream alone, of the rank with most: what ignores the host.
        exposed_communication_fraction: Collectives that no other kernel hides, over the step; of the rank
            with least.
    """

    step_seconds: float
    active_seconds: float
    kernel_seconds: float
    exposed_communication_fraction: float


def predict_iteration(
    programs: Sequence[RankProgram],
    overheads_of: Sequence[RankProgram] | None = None,
    kernel_seconds: Sequence[Sequence[float]] | None = None,
    *,
    fit: FitOverheads = fit_trimmed_overheads,
) -> Iteration:
    """A step of recorded ranks.

    Args:
        programs: From ``traces.timeline.ranks.build_ranks``.
        overheads_of: Recordings that overheads come from: the ranks' own by default, others for shared ones.
        kernel_seconds: Modelled times of every rank's works; the recorded ones by default.
        fit: How overheads come from recordings: as published, or ``traces.overheads.profile.fit_overheads``,
            whose means keep the sum of what they were fitted on.

    Raises:
        CalibrationError: Recordings without host time.
        PlanError: A collective without all its members.
    """
    profile = fit(programs if overheads_of is None else overheads_of)
    ranks = [_with_published_launches(apply_overheads(profile, program)) for program in programs]
    if kernel_seconds is not None:
        ranks = [
            rank.with_work_seconds([time + KERNEL_FIXED_SECONDS for time in times])
            for rank, times in zip(ranks, kernel_seconds, strict=True)
        ]
    timelines = play_ranks(ranks).ranks
    pairs = list(zip(ranks, timelines, strict=True))
    step = max(max((*line.piece_ends, *line.work_ends)) - rank.offset_seconds for rank, line in pairs)
    return Iteration(
        step,
        max(_busy_seconds(rank, line, range(len(rank.works))) for rank, line in pairs),
        max(_stream_seconds(rank, line) for rank, line in pairs),
        min(_exposed_seconds(rank, line) for rank, line in pairs) / step,
    )


def choose_sharder(problem: ShardingProblem, *, seed: int = 0) -> tuple[str, Mapping[str, float]]:
    """The rule of the study with the least predicted step, and the steps of all that fit.

    Raises:
        InputError: None fits the memory.
    """
    options = list_options(problem)
    placed = {name: place_baseline(name, problem, options, seed=seed) for name in COMPARED_2024}
    fitting = {name: one for name, one in placed.items() if one is not None}
    if not fitting:
        raise InputError("no published rule places these tables within the memory; take more devices")
    seconds = time_placements(problem, options, list(fitting.values())).step.tolist()
    steps = dict(zip(fitting, seconds, strict=True))
    return min(steps, key=lambda name: steps[name]), steps


def geometric_mean_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """exp(mean ln(|predicted - measured| / measured + 0.0004)), the study's error over several cases."""
    errors = [abs(p - m) / m for p, m in zip(predicted, measured, strict=True)]
    return math.exp(sum(math.log(error + _LEAST_ERROR) for error in errors) / len(errors))


def _with_published_launches(program: RankProgram) -> RankProgram:
    """A kernel starts T4 after its call, or 1 µs after the one before it."""
    works = (
        replace(work, delay_seconds=LAUNCH_SECONDS, gap_seconds=min(KERNEL_GAP_SECONDS, LAUNCH_SECONDS))
        for work in program.works
    )
    return replace(program, works=tuple(works))


def _stream_seconds(program: RankProgram, line: RankTimeline) -> float:
    totals = [0.0] * len(program.streams)
    for index, work in enumerate(program.works):
        totals[work.stream] += line.work_ends[index] - line.work_starts[index] - work.gap_seconds
    return max(totals, default=0.0)


def _exposed_seconds(program: RankProgram, line: RankTimeline) -> float:
    everything = range(len(program.works))
    others = [index for index in everything if not program.works[index].collective]
    return _busy_seconds(program, line, everything) - _busy_seconds(program, line, others)


def _busy_seconds(program: RankProgram, line: RankTimeline, works: Sequence[int]) -> float:
    """Length of the union of the works' spans, gaps before them left out."""
    if not len(works):
        return 0.0
    starts = [line.work_starts[index] + program.works[index].gap_seconds for index in works]
    spans = np.array(sorted(zip(starts, (line.work_ends[index] for index in works), strict=True)))
    reached = np.maximum.accumulate(np.append(spans[0, 0], spans[:-1, 1]))
    return float(np.maximum(spans[:, 1] - np.maximum(spans[:, 0], reached), 0.0).sum())


if __name__ == "__main__":
    print_part("multi_gpu_2024.iteration", "multi_gpu_2024")
