"""One engine with a steady number of requests: what a request goes through from place to place.

Two kinds of steps follow each other: those that read prompts and those that only write. Of n requests that
run, each needs k steps to be read and s steps to be written, in a cycle of L steps; by Little's law n / L of
them begin in a step on average.

- *Dealt out* (vLLM since V1, TensorRT-LLM): a step that reads goes on writing too. Prompts come in bursts
  of g (equal answers that began together end together, others come one by one), a burst takes m = g p / q
  steps of q tokens beside those that write, so that of L = max(s + k, n p / q) steps M = (n / g) m read.
- *Apart* (SGLang, vLLM's V0): a step that reads writes nothing. L = s + M, and answers that are under way
  stand still for all M steps but those of their own burst.

A burst's prompts are read one behind the other, which gives the mean of k. A cycle takes M t_read + (L - M)
t_write, and what is left of it after the first token is the answer's time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.serving.steady import EngineColumns
from perfcast.core.serving.step import StepBatches
from perfcast.simulate.closed_form.serving.work import RequestWork

_ROUNDS = 24
#: Over the steps that read, the part of a cycle in which they lie, where ranks are not quite at one.
_LEAST_WINDOW = 1.5


@dataclass(frozen=True, eq=False)
class Cycle:
    """What one engine does with a number of requests that run, in columns of shape (n,).

    Attributes:
        running: Requests in the cycle.
        seconds: Of a cycle: from a place taken to the same place taken again.
        first_seconds: Of it, until the first token.
        late_seconds: Of that, until the step begins that reads first.
        burst_seconds: That the reading of prompts which come together takes.
        answer_seconds: From the first token to the last.
        stall_deviation_seconds: Of that, standard deviation between requests.
        reads, writes: Steps of a cycle of each kind.
        reading, writing: A step of each kind, in the mean.
        writers: Sequences that write, mean over the cycle's steps.
    """

    running: Floats
    seconds: Floats
    first_seconds: Floats
    late_seconds: Floats
    burst_seconds: Floats
    answer_seconds: Floats
    stall_deviation_seconds: Floats
    reads: Floats
    writes: Floats
    reading: StepBatches
    writing: StepBatches
    read_seconds: Floats
    write_seconds: Floats
    writers: Floats

    @property
    def requests_per_second(self) -> Floats:
        """Of the engine."""
        return self.running / self.seconds


def cycle_of(
    work: RequestWork,
    engines: EngineColumns,
    running: Floats,
    *,
    late_steps: Floats | float,
    apart_steps: Floats | float = np.inf,
    way_seconds: float = 0.0,
) -> Cycle:
    """The cycle of so many requests.

    Args:
        running: At least a part of one, shape (n,).
        late_steps: That go by before a request that has come is looked at.
        apart_steps: Over which answers end that began together: 0 where all are equally long.
        way_seconds: Of a request on its way to the queue. While nothing is read, steps are short and many
            answers end; what follows them comes all at once later.
    """
    late = np.asarray(late_steps, dtype=float) + np.zeros_like(running)
    apart = np.asarray(apart_steps, dtype=float) + np.zeros_like(running)
    if engines.reads_apart:
        return _apart(work, engines, running, late, apart)
    pure = step_seconds(engines, batches_of(work, running, np.zeros_like(running)))
    return _dealt_out(work, engines, running, late, apart, way_seconds / pure)


def first_wave(work: RequestWork, engines: EngineColumns, running: Floats) -> tuple[Floats, Floats]:
    """Steps, and their seconds, that read so many prompts which come at once to an idle engine."""
    aside = 0.0 if engines.reads_apart else running / 2
    per_step = _readable(work, engines, engines.max_step_tokens - aside * engines.new_tokens)
    steps = np.maximum(np.ceil(running * work.new_tokens / per_step - 1e-9), 1.0)
    prompts = np.maximum(running, 1.0) / steps
    writers = (steps - 1) / steps * aside
    return steps, steps * step_seconds(engines, batches_of(work, writers, prompts))


def step_seconds(engines: EngineColumns, batches: StepBatches) -> Floats:
    """Of steps; in a pipeline of all batches that are under way."""
    return engines.times.seconds_of(batches) * engines.times.stages


def poisson_burst(rate: Floats) -> Floats:
    """Mean number of those that come in a step in which any comes: r / (1 - exp(-r)), at least 1.

    >>> poisson_burst(np.array([1e-9, 1.0])).round(3).tolist()
    [1.0, 1.582]
    """
    safe = np.maximum(rate, 1e-6)
    return np.asarray(safe / -np.expm1(-safe))


def _readable(work: RequestWork, engines: EngineColumns, free: Floats) -> Floats:
    """Prompt tokens that a step reads at most, of those that are free in it."""
    free = np.maximum(free, 1.0)
    if engines.chunks_prompts:
        return free
    whole = np.floor(free / work.new_tokens) * work.new_tokens
    return np.where(whole > 0, whole, work.new_tokens)


def _burst(running: Floats, length: Floats, apart: Floats) -> Floats:
    """Prompts that come at once."""
    rate = running / np.maximum(np.minimum(length, apart), 1e-9)
    return np.minimum(running, poisson_burst(np.minimum(rate, 1e6)))


def _steps_to_read(work: RequestWork, burst: Floats, per_step: Floats) -> tuple[Floats, Floats]:
    """Steps that a burst takes, and mean steps until a prompt of it is read."""
    whole = burst * work.new_tokens / per_step
    steps = np.maximum(np.ceil(whole - 1e-9), 1.0)
    mean = (np.maximum(burst, 1.0) + 1) / 2 * work.new_tokens / per_step
    rounding = np.where(burst > 1, 0.5, 0.0) * (steps > 1)
    own = np.where(burst > 1, mean + rounding, np.ceil(mean - 1e-9))
    return steps, np.clip(own, 1.0, steps)


def _dealt_out(
    work: RequestWork,
    engines: EngineColumns,
    running: Floats,
    late: Floats,
    apart: Floats,
    way_steps: Floats,
) -> Cycle:
    most = engines.max_step_tokens
    length = np.full_like(running, work.steps + 1.0)
    for _ in range(_ROUNDS):
        writers = running * np.minimum(work.steps / length, 1.0)
        per_step = _readable(work, engines, most - writers * engines.new_tokens)
        if work.is_even:  # the first wave was read in full steps, and its answers end in the same order
            group = per_step / work.new_tokens
            burst = np.clip(group * (1 + way_steps), 1.0, np.maximum(running, 1.0))
            steps = np.maximum(burst * work.new_tokens / per_step, 1.0)
            own = np.maximum(np.ceil(work.new_tokens / per_step - 1e-9), (steps + 1) / 2)
        else:
            staggered = apart + running * work.new_tokens / per_step
            burst = _burst(running, length, staggered)
            burst = np.minimum(np.maximum(burst, running / length * way_steps), np.maximum(running, 1.0))
            steps, own = _steps_to_read(work, burst, per_step)
        reads = running / burst * steps
        least = running * work.new_tokens / per_step
        length = 0.5 * length + 0.5 * np.maximum(work.steps + own + late, np.maximum(least, 1.0))
    reads = np.clip(reads, np.minimum(least, length), length)
    reads = np.maximum(reads, np.minimum(own * np.minimum(running, 1.0), length))
    writes = length - reads
    waiting = np.maximum(length - work.steps, own)  # steps until the first token, those in the queue too
    window = (apart + least) / length
    return _joined(work, engines, running, reads, writes, own, waiting, late, window)


def _joined(
    work: RequestWork,
    engines: EngineColumns,
    running: Floats,
    reads: Floats,
    writes: Floats,
    own: Floats,
    waiting: Floats,
    late: Floats,
    window: Floats,
) -> Cycle:
    """Steps that read and write at once, priced."""
    total = running * work.steps  # sequences that write, over all steps of a cycle
    pure = np.minimum(running, total / np.maximum(writes, 1e-9))
    mixed = np.clip((total - pure * writes) / np.maximum(reads, 1e-9), 0.0, running)
    prompts = running / np.maximum(reads, 1e-9)
    reading = batches_of(work, mixed, np.minimum(prompts, np.maximum(running, 1.0)))
    writing = batches_of(work, pure, np.zeros_like(pure))
    read, write = step_seconds(engines, reading), step_seconds(engines, writing)
    share = reads / (reads + writes)
    write_seen = write
    if not work.is_even:  # ranks whose answers are equally long read at the same time
        read, write_seen = _beside_others(engines, share, window, read, write)
    write_seen = np.where(writes > 1e-9, write_seen, write)
    seconds = reads * read + writes * write_seen
    first = np.minimum((waiting - late), reads) * read
    lateness = late * (share * read + (1 - share) * write_seen)
    stalls = np.maximum(reads - own, 0.0)
    return Cycle(
        running=running,
        seconds=seconds,
        first_seconds=first + lateness,
        late_seconds=lateness,
        burst_seconds=np.zeros_like(first) if work.is_even else _between_bursts(work, engines, first, mixed),
        answer_seconds=np.maximum(seconds - first - lateness, 0.0),
        stall_deviation_seconds=np.sqrt(stalls) * np.maximum(read - write_seen, 0.0),
        reads=reads,
        writes=writes,
        reading=reading,
        writing=writing,
        read_seconds=read,
        write_seconds=write_seen,
        writers=total / (reads + writes),
    )


def _between_bursts(work: RequestWork, engines: EngineColumns, first: Floats, writers: Floats) -> Floats:
    """By how much the slowest prompt of a burst is behind one that comes alone, around the mean of all."""
    most = np.minimum(engines.max_step_tokens / work.new_tokens, 1.0)
    alone = step_seconds(engines, batches_of(work, writers, most)) * np.ceil(1 / most - 1e-9)
    return 2 * np.maximum(first - alone, 0.0)


def _beside_others(
    engines: EngineColumns, share: Floats, window: Floats, read: Floats, write: Floats
) -> tuple[Floats, Floats]:
    """Steps that read and that write, where other ranks of the replica do the other meanwhile.

    Ranks begin steps together and the slowest ends them. Of what a step that reads takes more than one that
    writes, a part φ is left where one of D ranks reads alone (experts are shared, and have less to do then);
    where k read, φ + (1 - φ) (k - 1) / (D - 1), all of it where all do.

    Args:
        share: Of a rank's steps, those that read.
        window: Of a cycle, in which they lie: where answers began together, all ranks read at about one time.
        read, write: Of a replica whose ranks all do that.
    """
    alone, others = engines.alone_share, np.maximum(engines.ranks - 1, 0)
    window = np.clip(window, np.minimum(_LEAST_WINDOW * share, 1.0), 1.0)
    within = np.minimum(share / np.maximum(window, 1e-9), 1.0)
    more = np.maximum(read - write, 0.0)
    any_other = 1 - (1 - within) ** others
    beside = any_other * alone + (1 - alone) * (within - any_other / np.maximum(others, 1))
    beside *= window * (1 - within) / np.maximum(1 - share, 1e-9)  # of the steps that write
    several = np.asarray(others > 0)
    reading = read - more * np.where(several, (1 - alone) * (1 - within), 0.0)
    return np.asarray(reading), np.asarray(write + more * np.where(several, beside, 0.0))


def _apart(work: RequestWork, engines: EngineColumns, running: Floats, late: Floats, apart: Floats) -> Cycle:
    per_step = _readable(work, engines, engines.max_step_tokens)
    burst = _burst(running, np.full_like(running, work.steps), apart)
    steps, own = _steps_to_read(work, burst, per_step)
    reads = running / np.maximum(burst, 1e-9) * steps
    tokens = burst * work.new_tokens / steps
    reading = batches_of(work, np.zeros_like(running), np.maximum(tokens / work.new_tokens, 1e-9))
    writing = batches_of(work, running, np.zeros_like(running))
    read, write = step_seconds(engines, reading), step_seconds(engines, writing)
    write_seen = write
    if not work.is_even:
        whole = np.maximum(reads + work.steps, 1e-9)
        read, write_seen = _beside_others(engines, reads / whole, (apart + reads) / whole, read, write)
        late = late + (engines.polls_every_steps - 1) / 2 * np.minimum(np.maximum(running - 1, 0.0), 1.0)
    lateness = late * write_seen
    first = own * read
    stalls = np.maximum(reads - own, 0.0)
    answer = work.steps * write_seen + stalls * read
    spread = (steps - 1) / np.sqrt(12) * read if work.is_even else np.sqrt(stalls) * read
    return Cycle(
        running=running,
        seconds=lateness + first + answer,
        first_seconds=lateness + first,
        late_seconds=lateness,
        burst_seconds=2 * np.maximum(first - read, 0.0)
        if work.is_even
        else _between_bursts(work, engines, first, np.zeros_like(first)),
        answer_seconds=answer,
        stall_deviation_seconds=spread,
        reads=reads,
        writes=np.full_like(reads, work.steps),
        reading=reading,
        writing=writing,
        read_seconds=read,
        write_seconds=write_seen,
        writers=running,
    )


def batches_of(work: RequestWork, writers: Floats, prompts: Floats) -> StepBatches:
    """Steps of so many sequences that write, and so many prompts (or parts of one)."""
    return StepBatches(
        sequences=writers,
        cached_tokens=writers * work.held_tokens,
        prompts=np.ceil(prompts - 1e-9),
        prompt_tokens=prompts * work.new_tokens,
        prompt_pairs=prompts * work.pairs,
        ended_prompts=prompts,
    )
