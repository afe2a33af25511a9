"""The steady state of deployments of one pool: clients, or a stream, and engines brought into balance.

*Closed*: n clients an engine of which C find a place. Places are always taken, so the engine answers C
requests a cycle, and by Little's law what a client does not spend in the cycle it waits: n / X - cycle. A
benchmark's first wave comes all at once: its prompts stand in one queue, which the mean over all of
``num_requests`` holds with its weight.

*Open*: of a stream of λ requests a second, λ times the cycle are under way (Little); the cycle is that of
an engine with one more (who comes sees what is there: Poisson arrivals see time averages). Beyond that a
request waits for prompts before it and for a place (``wait``). Where λ exceeds what full places answer, the
queue grows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.steady import EngineColumns, LoadColumns, SteadyState
from perfcast.core.serving.tabulated import BOUNDS
from perfcast.errors import InputError
from perfcast.simulate.closed_form.serving.cycle import Cycle, cycle_of, first_wave
from perfcast.simulate.closed_form.serving.figures import (
    Part,
    mixed_latency,
    token_latency,
    whole_latency,
)
from perfcast.simulate.closed_form.serving.wait import growing_queue_seconds, queue_seconds
from perfcast.simulate.closed_form.serving.work import (
    RequestWork,
    places_of,
    waits_while_answered,
    work_of,
)

_BISECTIONS = 30
#: After which nothing is left of a common beginning.
_MANY_WAVES = 1e6


@dataclass(frozen=True, eq=False)
class _Balance:
    """Engines and their load in balance: parts of the time to the first token, and rates of an engine.

    Attributes:
        waits_for_place: Whether requests wait for places.
        more_seconds: Of the whole run, beside what all requests take in the steady state.
    """

    cycle: Cycle
    first: list[Part]
    rate: Floats
    engines: Floats
    is_stable: Flags
    waits_for_place: Flags
    busy: Floats
    more_seconds: Floats


def steady_columns(
    load: LoadColumns,
    prompts: Lengths,
    answers: Lengths,
    engines: EngineColumns,
    *,
    request_seconds: float = 0.0,
    prefix_hit_share: float = 0.0,
) -> SteadyState:
    """The steady state of n deployments of one pool.

    Args:
        request_seconds: From a client to an engine's queue.
        prefix_hit_share: Of a prompt's tokens, those that are not read.

    Raises:
        InputError: Prompts that are never cut and longer than a step.
    """
    work = work_of(
        prompts, answers, prefix_hit_share=prefix_hit_share, tokens_per_step=engines.tokens_per_step
    )
    if not engines.chunks_prompts and (engines.max_step_tokens < work.new_tokens).any():
        raise InputError(f"prompts of {work.new_tokens:g} tokens are longer than a step, and never cut")
    engines = of_batches(engines)
    places, by_memory = places_of(work, engines)
    if load.kind == "open":
        balance = _open(work, engines, load, places, request_seconds)
    else:
        balance = _closed(work, engines, load, places, by_memory, request_seconds)
    return _state(work, engines, balance, answers, load, by_memory <= places)


def of_batches(engines: EngineColumns) -> EngineColumns:
    """A pipeline of S stages keeps S batches under way, each with a share of places and memory."""
    stages = engines.times.stages
    if stages == 1:
        return engines
    return replace(
        engines,
        engines=engines.engines * stages,
        max_sequences=np.maximum(engines.max_sequences // stages, 1.0),
        kv_tokens=np.maximum(engines.kv_tokens // stages, 1.0),
    )


def _closed(
    work: RequestWork,
    engines: EngineColumns,
    load: LoadColumns,
    places: Floats,
    by_memory: Floats,
    request_seconds: float,
) -> _Balance:
    saturated = load.kind == "saturated"
    total = load.num_requests if saturated else load.amount
    active = np.minimum(engines.engines, total)
    clients = total / active
    running = np.minimum(clients, places)
    queued = np.maximum(clients - places, 0.0)
    late = _late_steps(work, engines, running, request_seconds)
    waves = np.ones_like(running) if saturated else np.maximum(load.num_requests / load.amount, 1.0)
    cycle = cycle_of(
        work,
        engines,
        running,
        late_steps=np.where(queued > 0, 0.0, late),
        apart_steps=_apart_steps(work, waves),
        way_seconds=request_seconds,
    )
    rate = cycle.requests_per_second
    none = np.zeros_like(rate)
    steps, reading = first_wave(work, engines, running)
    with np.errstate(invalid="ignore"):
        queue = np.where(queued > 0, queued / rate, 0.0)
    evicted = waits_while_answered(work, engines, queue, cycle.answer_seconds)
    evicted = np.where((by_memory <= places) & np.isfinite(queue), evicted, 0.0)
    queue = queue - evicted
    cycle = replace(cycle, answer_seconds=cycle.answer_seconds + evicted)
    waiting = np.full_like(rate, request_seconds)
    with np.errstate(divide="ignore"):  # on its way a request is in no batch, but where others wait for one
        rate = np.where(queued > 0, rate, 1.0 / (1.0 / rate + waiting / clients))
    with np.errstate(invalid="ignore"):  # who waits for a place has come already
        queue = np.where(np.isfinite(queue), np.maximum(queue - waiting, 0.0), queue)
    steady = cycle.first_seconds - cycle.burst_seconds / 2 + waiting + queue
    begin, rest = request_seconds + reading / steps, reading - reading / steps
    first_share, has_place = 1 / waves, running / clients
    parts = [
        Part(first_share * has_place, begin, rest, none),
        Part(first_share * (1 - has_place), begin, queue + rest, none),
        Part(1 - first_share, steady, cycle.burst_seconds, none),
    ]
    stretch = cycle.answer_seconds * work.answer_variation
    return _Balance(
        cycle, parts, rate, active, np.isfinite(clients), queued > 0, active / engines.engines,
        np.minimum(reading, cycle.answer_seconds) * (not engines.reads_apart) * (1.0 if work.is_even else 0.5)
        + stretch,
    )  # fmt: skip


def _late_steps(work: RequestWork, engines: EngineColumns, running: Floats, request_seconds: float) -> Floats:
    """Steps that go by before a request that has come is looked at: the rest of the one under way, half of it
    where requests come at any time and none where they come with its end, and the next one where that is
    scheduled ahead; none of an engine that all its requests left at once."""
    late = float(engines.schedules_ahead) + 0.5 * float(request_seconds > 0)
    others = np.clip(running - 1, 0.0, 1.0)
    if work.is_even:
        at_once = running * work.new_tokens <= engines.max_step_tokens
        others = np.where(at_once | engines.reads_apart, 0.0, others)
    return np.asarray(late * others)


def _apart_steps(work: RequestWork, waves: Floats) -> Floats:
    """Over how many steps answers end that began together, in the middle of so many waves: each wave adds its
    own differences, of which an even distribution spans √12 standard deviations."""
    passed = np.clip(waves - 1, 1.0, _MANY_WAVES)
    return np.asarray(np.sqrt(6 * passed) * work.answer_variation * work.steps)


def _open(
    work: RequestWork, engines: EngineColumns, load: LoadColumns, places: Floats, request_seconds: float
) -> _Balance:
    asked = load.amount / engines.engines
    full = cycle_of(work, engines, places, late_steps=0.0)
    most = full.requests_per_second
    share = asked / most
    stable = share < 1
    low, high = np.zeros_like(asked), places.copy()
    late = float(engines.schedules_ahead)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        seen = cycle_of(work, engines, np.minimum(1 + middle, places), late_steps=late)
        too_few = middle < asked * seen.seconds
        low, high = np.where(too_few, middle, low), np.where(too_few, high, middle)
    running = np.where(stable, np.minimum(1 + low, places), places)
    cycle = cycle_of(work, engines, running, late_steps=late)
    rate = np.minimum(asked, most)
    busy = np.minimum(-np.expm1(-low), 1.0)
    step = (cycle.reads * cycle.read_seconds**2 + cycle.writes * cycle.write_seconds**2) / np.maximum(
        2 * cycle.seconds, 1e-12
    )
    variation = load.burstiness + work.prompt_variation**2
    service = cycle.read_seconds * np.minimum(work.new_tokens / engines.max_step_tokens, 1.0)
    reader = queue_seconds(service, np.minimum(rate * service, 0.999), 1.0, variation)
    place = queue_seconds(full.seconds, share, places, load.burstiness + work.answer_variation**2)
    growing = growing_queue_seconds(load.num_requests / engines.engines, most, asked)
    tail = reader + np.where(stable, place, 0.0)
    queue = 2 * growing
    least = request_seconds + cycle.first_seconds - cycle.late_seconds * (1 - busy)
    one = np.ones_like(rate)
    parts = [Part(one, least, queue + 2 * busy * step, tail)]
    finite = np.isfinite(load.num_requests)
    return _Balance(
        cycle, parts, rate, engines.engines, stable, share >= 1, np.where(stable, busy, 1.0),
        np.where(finite, cycle.seconds, 0.0),
    )  # fmt: skip


def _state(
    work: RequestWork,
    engines: EngineColumns,
    balance: _Balance,
    answers: Lengths,
    load: LoadColumns,
    memory_first: Flags,
) -> SteadyState:
    cycle = balance.cycle
    rate = balance.rate * balance.engines
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = load.num_requests / rate
        share = np.where(np.isfinite(alone), alone / (alone + balance.more_seconds), 1.0)
    rate = rate * share
    held = cycle.running * work.held_tokens / engines.kv_tokens
    of_all = np.minimum(balance.engines / engines.engines, 1.0)
    return SteadyState(
        time_to_first_token=mixed_latency(balance.first, load.num_requests),
        time_per_output_token=token_latency(
            cycle.answer_seconds, cycle.stall_deviation_seconds, work.further_tokens
        ),
        end_to_end=whole_latency(
            balance.first,
            cycle.answer_seconds,
            cycle.stall_deviation_seconds,
            answers,
            load.num_requests,
        ),
        requests_per_second=rate,
        output_tokens_per_second=rate * work.answer_tokens,
        input_tokens_per_second=rate * work.prompt_tokens,
        mean_batch=of_all * balance.rate * (cycle.seconds - cycle.late_seconds),
        kv_share=np.minimum(held, 1.0) * of_all,
        bound_by=_bounds(engines, cycle, balance, memory_first),
        is_stable=balance.is_stable,
    )


def _bounds(
    engines: EngineColumns, cycle: Cycle, balance: _Balance, memory_first: Flags
) -> dict[str, Floats]:
    """Shares of time: idle engines, places that wait for memory, and of the rest what bounds its steps."""
    memory = balance.busy * (balance.waits_for_place & memory_first)
    steps = balance.busy - memory
    found = {"queue": 1 - balance.busy, "kv_memory": memory}
    seconds = engines.times.stages * (
        cycle.reads[:, None] * engines.times.seconds_by_bound(cycle.reading)
        + cycle.writes[:, None] * engines.times.seconds_by_bound(cycle.writing)
    )
    shares = seconds / np.maximum(seconds.sum(axis=1), 1e-30)[:, None]
    return found | {name: steps * shares[:, at] for at, name in enumerate(BOUNDS)}
