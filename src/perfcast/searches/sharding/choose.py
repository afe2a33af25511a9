"""The front door: the fastest placement that the search finds, beside those of published rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perfcast.core.embedding.lookup import TablePlacement
from perfcast.searches.sharding.baselines import BASELINES, place_baseline
from perfcast.searches.sharding.gain import Draws, draw_errors, gain_interval, step_interval
from perfcast.searches.sharding.greedy import (
    Unplaced,
    cut_large,
    place_greedily,
    place_to_fit,
    replicate_small,
)
from perfcast.searches.sharding.local_search import improve
from perfcast.searches.sharding.options import MEMORY, OUT, ShardOptions, list_options, pieces_of
from perfcast.searches.sharding.placement import (
    Placed,
    fits,
    from_placements,
    state_of,
    time_placements,
    to_placements,
)
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.searches.sharding.result import BaselineTime, RankTime, ShardingChoice, ShardingTime

#: Rounds of the local search from each of the best starts.
_MAX_ROUNDS = 300
_NUM_IMPROVED = 3


def choose_sharding(
    problem: ShardingProblem, *, max_rounds: int = _MAX_ROUNDS, seed: int = 0
) -> ShardingChoice:
    """Place the tables so that a step takes least.

    Starts: whole tables, large ones cut, small ones on every rank (each greedily by predicted time), and the
    published rules. The best three are improved step by step, and the best of all is taken, so that no
    published rule is predicted to be faster.

    Args:
        max_rounds: Changes from each start.
        seed: Of the random baseline and of the draws behind intervals.

    Raises:
        PlanError: The tables do not fit the memory; says what is missing where.
    """
    options = list_options(problem)
    published = {name: place_baseline(name, problem, options, seed=seed) for name in BASELINES}
    candidates = _starts(problem, options)
    candidates |= {name: placed for name, placed in published.items() if placed is not None}
    rounds = 0
    for name in _best(problem, options, candidates)[:_NUM_IMPROVED]:
        candidates[f"{name}, improved"], done = improve(problem, options, candidates[name], max_rounds)
        rounds += done
    origin = _best(problem, options, candidates)[0]
    return _describe(problem, options, candidates[origin], published, origin, rounds, seed)


def judge_placements(
    problem: ShardingProblem, plans: Sequence[Sequence[TablePlacement]]
) -> tuple[ShardingTime, ...]:
    """What plans from elsewhere take, by the same measure as the choice.

    Raises:
        PlanError: A plan that is not one of these tables and ranks.
    """
    cuts = [
        (table, placement.kind, pieces_of(placement.kind, placement.ranks))
        for plan in plans
        for table, placement in enumerate(plan)
    ]
    options = list_options(problem, cuts)
    draws = draw_errors(problem)
    return tuple(_time(problem, options, from_placements(problem, options, plan), draws) for plan in plans)


def _starts(problem: ShardingProblem, options: ShardOptions) -> dict[str, Placed]:
    whole = place_to_fit(problem, options)
    starts = {"whole tables": whole}
    cut = cut_large(problem, options, whole)
    choices = {
        "large tables cut": cut,
        "small tables everywhere": replicate_small(problem, options, whole.options),
        "large tables cut, small everywhere": replicate_small(problem, options, cut),
    }
    for name, choice in choices.items():
        placed = place_greedily(problem, options, choice)
        if not isinstance(placed, Unplaced):
            starts[name] = placed
    return starts


def _best(problem: ShardingProblem, options: ShardOptions, candidates: Mapping[str, Placed]) -> list[str]:
    """Names by step, the shortest first; of equal placements the first alone."""
    different: dict[Placed, str] = {}
    for name, placed in candidates.items():
        different.setdefault(placed, name)
    steps = time_placements(problem, options, list(different)).step
    names = list(different.values())
    return [names[at] for at in np.argsort(steps, kind="stable")]


def _describe(
    problem: ShardingProblem,
    options: ShardOptions,
    chosen: Placed,
    published: Mapping[str, Placed | None],
    origin: str,
    rounds: int,
    seed: int,
) -> ShardingChoice:
    draws = draw_errors(problem, seed=seed)
    assert fits(problem, options, chosen)
    time = _time(problem, options, chosen, draws)
    baselines = []
    for name, placed in published.items():
        if placed is None:
            baselines.append(BaselineTime(name, None, None, None, None, None))
            continue
        other = _time(problem, options, placed, draws)
        gain = other.step_seconds / time.step_seconds - 1 if time.step_seconds else 0.0
        low, high = gain_interval(problem, options, chosen, placed, draws)
        plan = to_placements(problem, options, placed)
        baselines.append(BaselineTime(name, other, plan, gain, min(low, gain), max(high, gain)))
    return ShardingChoice(
        tables=problem.tables,
        placements=to_placements(problem, options, chosen),
        num_ranks=problem.num_ranks,
        global_batch_size=problem.global_batch_size,
        memory_limit_bytes=problem.memory_bytes,
        time=time,
        ranks=_rank_times(problem, options, chosen),
        baselines=tuple(baselines),
        origin=origin,
        num_rounds=rounds,
    )


def _time(problem: ShardingProblem, options: ShardOptions, placed: Placed, draws: Draws) -> ShardingTime:
    phases = time_placements(problem, options, [placed])
    step = float(phases.step[0])
    low, high = step_interval(problem, options, placed, draws)
    loads = phases.forward[0] + phases.backward[0]
    mean = float(loads.mean())
    return ShardingTime(
        step_seconds=step,
        step_seconds_low=min(low, step),
        step_seconds_high=max(high, step),
        forward_seconds=float(phases.forward.max()),
        backward_seconds=float(phases.backward.max()),
        index_seconds=float(phases.indices[0]),
        output_seconds=float(phases.outputs[0]),
        gradient_seconds=float(phases.outputs[0]),
        reduce_seconds=float(phases.reduce[0]),
        imbalance=float(loads.max()) / mean - 1 if mean else 0.0,
    )


def _rank_times(problem: ShardingProblem, options: ShardOptions, placed: Placed) -> tuple[RankTime, ...]:
    phases = time_placements(problem, options, [placed])
    state, _ = state_of(placed, options, problem.num_ranks)
    everywhere = sum(options.is_replicated(option) for option in placed.options)
    held = np.zeros(problem.num_ranks, dtype=np.int64)
    for ranks in placed.ranks:
        held[list(set(ranks))] += 1
    away = (problem.num_ranks - 1) / problem.num_ranks
    return tuple(
        RankTime(
            rank=rank,
            num_tables=int(held[rank]) + everywhere,
            forward_seconds=float(phases.forward[0, rank]),
            backward_seconds=float(phases.backward[0, rank]),
            sent_bytes=float(state[rank, OUT]) * away,
            memory_bytes=float(state[rank, MEMORY]),
        )
        for rank in range(problem.num_ranks)
    )
