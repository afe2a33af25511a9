"""Rounds of decoding: forwards alone through a pipeline, one behind the other."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.plan import StepTime
from perfcast.core.work import StepWork
from perfcast.simulate.engine import play
from perfcast.simulate.part_times import PartTimes
from perfcast.simulate.pipeline.build import Built, Piece, build_step
from perfcast.simulate.program import Program
from perfcast.simulate.schedule import inference_actions
from perfcast.simulate.training import PlayedStep, rank_times, time_of_played

#: Rounds of decoding that are played; the last is as long as every one after it.
_NUM_ROUNDS = 4


def decode_round(step: PlayedStep, *, with_spans: bool = False) -> StepTime:
    """From one token to the next, of the micro-batches' way through all stages as played once.

    Each micro-batch starts its next token when its last has left the last stage; with few micro-batches a
    token takes the way through all stages, with many the busiest stage's time for all. What a round takes
    longer for its host and for its messages is theirs, as far as a stage is idle; the rest is bubble.

    Args:
        step: Forwards alone.
        with_spans: Whether to give timelines (of the way once through).
    """
    work, times = step.work, step.times
    once = time_of_played(step, with_spans=with_spans)
    seconds = _round_seconds(work, times)
    ahead = replace(times, launch_seconds=0.0)
    unlaunched = _round_seconds(work, ahead)
    unsent = _round_seconds(work, replace(ahead, boundary_seconds=0.0))
    causes = []
    for rank in sorted(once.ranks, key=lambda rank: rank.stage):
        own = {c: s for c, s in rank.seconds_by_cause.items() if c not in ("bubble", "pipeline", "host")}
        idle = max(seconds - sum(own.values()), 0.0)
        host = min(max(seconds - unlaunched, 0.0), idle)
        messages = min(max(unlaunched - unsent, 0.0), idle - host)
        waits = {"host": host, "pipeline": messages, "bubble": idle - host - messages}
        causes.append({**own, **{cause: value for cause, value in waits.items() if value > 0}})
    return replace(once, step_seconds=seconds, ranks=rank_times(work, causes))


def _round_seconds(work: StepWork, times: PartTimes) -> float:
    """From the end of one round to that of the next, when rounds follow each other."""
    plan = work.plan
    count = plan.num_micro_batches
    actions = inference_actions(plan.pipeline_parallel, count, plan.virtual_stages_per_rank)
    rounds = tuple(
        tuple(replace(a, micro_batch=a.micro_batch + count * n) for n in range(_NUM_ROUNDS) for a in row)
        for row in actions
    )
    built = build_step(work, times, rounds)
    played = play(_with_feedback(built, count, plan.virtual_stages_per_rank))
    ends = {
        piece.actions[0].micro_batch // count: float(played.ends[piece.task])
        for piece in built.pieces[-1]
        if piece.actions
    }
    return ends[_NUM_ROUNDS - 1] - ends[_NUM_ROUNDS - 2]


def _with_feedback(built: Built, num_in_flight: int, virtual: int) -> Program:
    """The program in which a micro-batch of a round starts when that of the round before has ended.

    A token is a few bytes; its way back to the first stage takes no time here.
    """
    first = {p.actions[0].micro_batch: p.task for p in reversed(built.pieces[0]) if _is_of(p, 0)}
    last = {p.actions[0].micro_batch: p.task for p in built.pieces[-1] if _is_of(p, virtual - 1)}
    later = [number for number in first if number >= num_in_flight]
    program = built.program
    return replace(
        program,
        waiting=[*program.waiting, *(first[number] for number in later)],
        awaited=[*program.awaited, *(last[number - num_in_flight] for number in later)],
    )


def _is_of(piece: Piece, chunk: int) -> bool:
    return bool(piece.actions) and piece.actions[0].chunk == chunk
