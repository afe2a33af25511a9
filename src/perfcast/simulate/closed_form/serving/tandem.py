"""Two pools in balance: one reads prompts, the other writes what was read.

With b sequences that write in each of E engines, a step of t(b) and s steps an answer, X = b E / (s t(b))
requests a second are written: what comes in at the other pool, by balance. So b is sought at which X times
all that a request goes through are the clients (Little's law), or X the stream; a pool that cannot keep up
bounds X, and what remains of clients waits in front of it. ``simulate.serving`` says when the first token
counts as there: with the keys and values (SGLang), or with the first step of the pool that writes (vLLM,
TensorRT-LLM).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.steady import EngineColumns, LoadColumns, SteadyState
from perfcast.core.serving.tabulated import BOUNDS
from perfcast.simulate.closed_form.serving.cycle import batches_of, poisson_burst, step_seconds
from perfcast.simulate.closed_form.serving.figures import (
    Part,
    mixed_latency,
    token_latency,
    whole_latency,
)
from perfcast.simulate.closed_form.serving.steady import of_batches
from perfcast.simulate.closed_form.serving.wait import growing_queue_seconds, queue_seconds
from perfcast.simulate.closed_form.serving.work import RequestWork, places_of, work_of

_BISECTIONS = 40
#: Of what a pool can do at most, the share that is asked of it where more would come.
_FULL = 0.9999
#: Squared coefficient of variation of the time between requests of clients that wait for their answers.
_OF_CLIENTS = 0.6


@dataclass(frozen=True, eq=False)
class _Flow:
    """What goes on with b sequences that write in each engine, in columns of shape (n,)."""

    rate: Floats
    is_too_much: Flags
    burst: Floats
    read_step: Floats
    read: Floats
    reader_wait: Floats
    write_step: Floats
    beside: Floats
    answer: Floats

    @property
    def whole(self) -> Floats:
        """From sending to the last token."""
        return self.read + self.reader_wait + self.beside + self.answer


@dataclass(frozen=True, eq=False)
class _Pools:
    """Both pools with what requests ask of them."""

    work: RequestWork
    prefill: EngineColumns
    decode: EngineColumns
    places: Floats
    transfer_seconds: Floats | float
    request_seconds: float
    variation: float
    together: Floats

    def read_step(self, prompts: Floats) -> Floats:
        """Seconds of a step that reads so many prompts, or a part of one."""
        return step_seconds(self.prefill, batches_of(self.work, np.zeros_like(prompts), prompts))

    @property
    def most_prompts(self) -> Floats:
        """That a step reads, or a part of one."""
        most = self.prefill.max_step_tokens / self.work.new_tokens
        return most if self.prefill.chunks_prompts else np.maximum(np.floor(most), 1.0)

    @property
    def most_read(self) -> Floats:
        """Prompts a second that the first pool reads at most."""
        return self.prefill.engines * self.most_prompts / self.read_step(self.most_prompts)

    def flow(self, writers: Floats) -> _Flow:
        """With so many sequences that write in each engine of the second pool."""
        work, policy = self.work, self.decode.policy
        step = step_seconds(self.decode, batches_of(work, writers, np.zeros_like(writers)))
        more = {"vllm": 1.0, "vllm_v0": 1.0, "trtllm": 0.0, "sglang": 0.5}[policy]
        stays = work.steps + more
        written = writers * self.decode.engines / (stays * step)
        rate = np.minimum(written, self.most_read * _FULL)
        most = self.most_prompts
        longest = self.read_step(most)
        alone = self.read_step(np.minimum(most, 1.0))
        if work.is_even:
            burst = np.clip(self.together, 1.0, np.maximum(most, 1.0))
        else:
            burst = np.minimum(poisson_burst(rate / self.prefill.engines * alone), np.maximum(most, 1.0))
        prompts = np.minimum(burst, most)
        read_step = self.read_step(prompts)
        service = longest / most
        busy = rate * service / self.prefill.engines
        # who goes to the engine with the fewest requests waits as before many; in turn, as before one
        servers = 1.0 if self.prefill.policy == "sglang" else self.prefill.engines
        wait = np.zeros_like(busy) if work.is_even else queue_seconds(service, busy, servers, self.variation)
        lone = policy == "sglang"
        seen = -np.expm1(-writers)  # whether a step is under way when keys and values are offered, and come
        waits = 0.5 if lone else np.where(np.asarray(self.transfer_seconds) > 0, 1.0, 1.5)
        return _Flow(
            rate=rate,
            is_too_much=written > self.most_read * _FULL,
            burst=burst,
            read_step=read_step,
            read=read_step * np.ceil(np.maximum(1 / most, 1.0) - 1e-9),
            reader_wait=wait + (0.0 if work.is_even else busy * read_step / 2),
            write_step=step,
            beside=self.request_seconds + self.transfer_seconds + (waits * seen + (not lone)) * step,
            answer=(work.steps + (0.5 * seen if lone else 0.0 if policy != "trtllm" else -1.0)) * step,
        )


def tandem_columns(
    load: LoadColumns,
    prompts: Lengths,
    answers: Lengths,
    prefill: EngineColumns,
    decode: EngineColumns,
    *,
    transfer_seconds: Floats | float = 0.0,
    request_seconds: float = 0.0,
    prefix_hit_share: float = 0.0,
) -> SteadyState:
    """The steady state of n deployments of two pools.

    Args:
        transfer_seconds: Of the keys and values of one prompt.
        request_seconds: From a client to an engine's queue.
        prefix_hit_share: Of a prompt's tokens, those that are not read.
    """
    work = work_of(
        prompts, answers, prefix_hit_share=prefix_hit_share, tokens_per_step=decode.tokens_per_step
    )
    prefill, decode = of_batches(prefill), of_batches(decode)
    places, by_memory = places_of(work, decode)
    variation = (load.burstiness if load.kind == "open" else _OF_CLIENTS) + work.prompt_variation**2
    together = np.ones_like(places) if load.kind == "open" else load.amount / prefill.engines
    pools = _Pools(work, prefill, decode, places, transfer_seconds, request_seconds, variation, together)
    full = pools.flow(places)
    low, high = np.zeros_like(places), places.copy()
    asked = np.where(load.kind == "saturated", np.inf, load.amount)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        flow = pools.flow(middle)
        found = flow.rate if load.kind == "open" else flow.rate * flow.whole
        found = np.where(flow.is_too_much, np.inf, found)
        low, high = np.where(found < asked, middle, low), np.where(found < asked, high, middle)
    flow = pools.flow(low)
    rate, stable, queue, waves = _in_front(load, flow, full)
    parts = _parts(pools, flow, load, queue, waves)
    none = np.zeros_like(rate)
    if load.kind != "open":  # the last answers end one after the other
        with np.errstate(invalid="ignore"):
            alone = load.num_requests / rate
            end = alone + flow.answer * work.answer_variation
            rate = np.where(np.isfinite(alone), rate * alone / end, rate)
    return SteadyState(
        time_to_first_token=mixed_latency(parts, load.num_requests),
        time_per_output_token=token_latency(flow.answer, none, work.further_tokens),
        end_to_end=whole_latency(parts, flow.answer, none, answers, load.num_requests),
        requests_per_second=rate,
        output_tokens_per_second=rate * work.answer_tokens,
        input_tokens_per_second=rate * work.prompt_tokens,
        mean_batch=low,
        kv_share=np.minimum(low * work.held_tokens / decode.kv_tokens, 1.0),
        bound_by=_bounds(pools, flow, low, np.asarray((queue > 0) & (low >= _FULL * by_memory))),
        is_stable=stable,
    )


def _in_front(load: LoadColumns, flow: _Flow, full: _Flow) -> tuple[Floats, Flags, Floats, Floats]:
    """Requests a second, whether no queue grows, the mean wait before the pools, requests of a client."""
    if load.kind == "open":
        stable = load.amount < full.rate
        queue = growing_queue_seconds(load.num_requests, full.rate, load.amount)
        return np.minimum(load.amount, full.rate), stable, queue, np.full_like(queue, np.inf)
    clients = load.num_requests if load.kind == "saturated" else load.amount
    queue = np.maximum(clients / flow.rate - flow.whole, 0.0)
    waves = np.ones_like(queue) if load.kind == "saturated" else load.num_requests / load.amount
    return flow.rate, np.isfinite(clients), queue, np.maximum(waves, 1.0)


def _parts(pools: _Pools, flow: _Flow, load: LoadColumns, queue: Floats, waves: Floats) -> list[Part]:
    """Of the time to the first token: of the first wave, and of what follows."""
    none = np.zeros_like(queue)
    even = flow.rate / pools.most_read  # of the wait of clients, what all of them have in common
    fixed = flow.read + flow.beside + queue + flow.reader_wait * even
    steady = Part(1 - 1 / waves, fixed, none, flow.reader_wait * (1 - even))
    if load.kind == "open":
        return [Part(np.ones_like(queue), flow.read + flow.beside, 2 * queue, flow.reader_wait)]
    amount = load.num_requests if load.kind == "saturated" else load.amount
    each = np.maximum(amount / pools.prefill.engines, 1.0)
    steps = np.maximum(each / pools.most_prompts, 1.0)
    reading = steps * pools.read_step(np.minimum(pools.most_prompts, each))
    begin = np.minimum(pools.read_step(np.minimum(pools.most_prompts, each)), reading) * np.ceil(
        np.maximum(1 / pools.most_prompts, 1.0)
    )
    by_place = np.maximum(amount - pools.places * pools.decode.engines, 0.0) / flow.rate
    rest = np.maximum(np.maximum(reading - begin, by_place), 0.0)
    return [Part(1 / waves, begin + flow.beside, rest, none), steady]


def _bounds(pools: _Pools, flow: _Flow, writers: Floats, by_memory: Flags) -> dict[str, Floats]:
    """Shares of both pools' time, by their engines."""
    prefill, decode = pools.prefill.engines, pools.decode.engines
    total = prefill + decode
    reads = np.minimum(flow.rate / pools.most_read, 1.0) * prefill / total
    writes = np.minimum(writers, 1.0) * decode / total
    reading = pools.prefill.times.seconds_by_bound(
        batches_of(pools.work, np.zeros_like(writers), np.minimum(flow.burst, pools.most_prompts))
    )
    writing = pools.decode.times.seconds_by_bound(batches_of(pools.work, writers, np.zeros_like(writers)))
    memory = np.where(by_memory, writes, 0.0)
    found = {"queue": 1 - reads - writes, "kv_memory": memory}
    for at, name in enumerate(BOUNDS):
        found[name] = reads * reading[:, at] / reading.sum(axis=1) + (writes - memory) * writing[
            :, at
        ] / writing.sum(axis=1)
    return found
