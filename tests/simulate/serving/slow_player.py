"""A slow player of one engine, for comparison: every sequence by itself, one step at a time, no sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import Scheduling
from perfcast.core.serving.step import StepBatch, StepTimes


@dataclass(eq=False)
class Slow:
    """A request: tokens whose keys and values are held, tokens written, and blocks."""

    number: int
    prompt: int
    answer: int
    cached: int
    written: int = 0
    kept: int = 0
    held: list[int] = field(default_factory=list)
    left: list[tuple[int, int]] = field(default_factory=list)
    left_tokens: int = 0
    preemptions: int = 0
    writes: bool = False
    first: float = math.nan
    finished: float = math.nan

    @property
    def blocks(self) -> int:
        return len(self.held)

    @property
    def unread(self) -> int:
        return self.prompt + self.written - self.kept


class SlowEngine:
    """vLLM's, SGLang's and TensorRT-LLM's rules, written down once more, closed loop, without speculation."""

    def __init__(self, requests: Requests, clients: int, limits: Scheduling, times: StepTimes) -> None:
        columns = (requests.prompt_tokens, requests.answer_tokens, requests.cached_tokens)
        self.requests = [
            Slow(number, *row)
            for number, row in enumerate(zip(*(each.tolist() for each in columns), strict=True))
        ]
        self.limits, self.times, self.now, self.steps = limits, times, 0.0, 0
        self.unsent = self.requests[clients:]
        self.waiting = self.requests[:clients]
        self.running: list[Slow] = []
        capacity = limits.kv_tokens // limits.block_tokens
        self.pool = list(range(capacity))  # free blocks: taken from the head, given back at the end
        self.uses = [0] * capacity
        self.ratio, self.full = limits.reserved_answers, False

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_tokens)

    @property
    def free(self) -> int:
        return len(self.pool)

    def play(self) -> None:
        while self.waiting or self.running:
            chunks = {"vllm": self.vllm, "vllm_v0": self.v0, "sglang": self.sglang, "trtllm": self.trtllm}[
                self.limits.policy
            ]()
            assert chunks
            self.step(chunks)

    def step(self, chunks: dict[Slow, int]) -> None:
        writers = [each for each in chunks if each.writes]
        readers = [each for each in chunks if not each.writes]
        self.now += self.times.seconds(
            StepBatch(
                len(writers),
                float(sum(each.prompt + each.written for each in writers)),
                len(readers),
                sum(chunks[each] for each in readers),
                sum(chunks[each] * each.kept + chunks[each] * (chunks[each] + 1) / 2 for each in readers),
                sum(chunks[each] == each.unread for each in readers),
            )
        )
        self.steps += 1
        for each, chunk in chunks.items():
            each.kept += chunk
            if each.unread == 0:
                each.written += 1
                each.writes = True
                each.first = self.now if each.written == 1 else each.first
        for each in [each for each in chunks if each.written == each.answer]:
            each.finished = self.now
            self.running.remove(each)
            self.give_back(each)
            self.full = False
            if self.unsent:
                self.waiting.append(self.unsent.pop(0))

    def give(self, each: Slow, chunk: int) -> bool:
        more = self.blocks(each.kept + chunk) - each.blocks
        if more > self.free:
            return False
        for _ in range(more):
            block = self.pool.pop(0)
            self.uses[block] += 1
            each.held.append(block)
        return True

    def give_back(self, each: Slow) -> None:
        each.left = [(block, self.uses[block]) for block in each.held]
        each.left_tokens = each.kept
        self.pool.extend(reversed(each.held))
        each.held = []

    def start(self, found: int = 0) -> Slow:
        each = self.waiting.pop(0)
        each.kept = each.cached
        if found > each.cached:
            each.kept = found
            each.held = [block for block, _ in each.left[: found // self.limits.block_tokens]]
            self.pool = [block for block in self.pool if block not in each.held]
        self.running.append(each)
        return each

    def found(self, each: Slow) -> int:
        """Tokens in the blocks that are as it left them, from the first on."""
        size, count = self.limits.block_tokens, 0
        if not self.limits.reuses_blocks:
            return each.cached
        for block, use in each.left[: each.left_tokens // size]:
            if self.uses[block] != use or block not in self.pool:
                break
            count += 1
        return max(each.cached, count * size)

    def drop(self, each: Slow, place: int) -> None:
        self.running.remove(each)
        self.give_back(each)
        each.kept = 0
        each.preemptions += 1
        each.writes = False
        self.waiting.insert(place, each)

    # -- rules

    def vllm(self) -> dict[Slow, int]:
        budget, chunks, dropped = self.limits.max_step_tokens, dict[Slow, int](), False
        order = [each for each in self.running if each.writes] + [
            each for each in self.running if not each.writes
        ]
        for each in order:
            chunk = min(each.unread, budget)
            if each not in self.running or chunk <= 0:
                continue
            while each in self.running and not self.give(each, chunk):
                last = self.running[-1]
                budget += chunks.pop(last, 0)
                self.drop(last, 0)
                dropped = True
            if each in self.running:
                chunks[each] = chunk
                budget -= chunk
        while not dropped and self.waiting and budget > 0 and len(self.running) < self.limits.max_sequences:
            each = self.waiting[0]
            found = self.found(each)
            chunk = min(each.prompt + each.written - found, budget)
            tokens = each.prompt + each.written if self.limits.reserves_prompts else found + chunk
            if self.blocks(tokens) > self.free:
                break
            self.give(self.start(found), chunk)
            chunks[each] = chunk
            budget -= chunk
        return chunks

    def v0(self) -> dict[Slow, int]:
        budget, chunks = self.limits.max_step_tokens, dict[Slow, int]()
        capacity = self.limits.kv_tokens // self.limits.block_tokens
        while self.waiting and len(self.running) < self.limits.max_sequences:
            each = self.waiting[0]
            unread = each.prompt + each.written - each.cached
            spare = int(0.01 * capacity) if self.running else 0
            if unread > budget and (self.running or chunks):
                break
            if self.blocks(each.prompt + each.written) > self.free - spare:
                break
            self.give(self.start(), unread)
            chunks[each] = unread
            budget -= unread
        return chunks or self.writers_of_vllm()

    def writers_of_vllm(self) -> dict[Slow, int]:
        chunks = dict[Slow, int]()
        for each in list(self.running):
            while each in self.running and not self.give(each, 1):
                last = self.running[-1]
                chunks.pop(last, 0)
                self.drop(last, 0)
            if each in self.running:
                chunks[each] = 1
        return chunks

    def trtllm(self) -> dict[Slow, int]:
        budget = self.limits.max_step_tokens
        chunks = {each: 1 for each in self.running if each.writes}
        budget -= len(chunks)

        def take(unread: int) -> int:
            if self.limits.chunks_prompts:
                return max(0, min(unread, budget))
            return unread if unread <= budget else 0

        for each in self.running:
            if not each.writes:
                chunk = take(each.unread)
                if not chunk:
                    break
                chunks[each] = chunk
                budget -= chunk
        else:
            while self.waiting and len(self.running) < self.limits.max_sequences:
                each = self.waiting[0]
                promised = sum(self.blocks(other.prompt + other.answer) for other in [*self.running, each])
                chunk = take(each.prompt - each.cached)
                if not chunk or promised > self.limits.kv_tokens // self.limits.block_tokens:
                    break
                chunks[self.start()] = chunk
                budget -= chunk
        for each, chunk in chunks.items():
            assert self.give(each, chunk)
        return chunks

    def sglang(self) -> dict[Slow, int]:
        budget, chunks = self.limits.max_step_tokens, dict[Slow, int]()
        for each in self.running:
            if not each.writes:
                chunk = min(each.unread, budget)
                if not self.give(each, chunk):
                    return self.decode()
                chunks[each] = chunk
                budget -= chunk
        if not self.full:
            self.extend(chunks, budget)
        return chunks or self.decode()

    def extend(self, chunks: dict[Slow, int], budget: int) -> None:
        room = self.free * self.limits.block_tokens
        for each in self.running:
            if each.writes:
                room -= self.ratio * min(each.answer - each.written, 4096)
            else:
                room -= each.unread + min(each.answer - each.written, 4096)
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_sequences:
            each = self.waiting[0]
            unread = each.prompt + each.written - each.cached
            needed = self.blocks(each.cached) * self.limits.block_tokens + unread
            needed += min(each.answer - each.written, 4096)
            if needed >= room and self.running:
                self.full = True
                break
            chunk = min(unread, budget)
            if self.blocks(each.cached + chunk) > self.free:
                break
            self.give(self.start(), chunk)
            chunks[each] = chunk
            budget -= chunk
            room -= needed

    def decode(self) -> dict[Slow, int]:
        writers = [each for each in self.running if each.writes]

        def fits() -> bool:
            return sum(self.blocks(each.kept + 1) - each.blocks for each in writers) <= self.free

        if not fits():
            writers.sort(key=lambda each: (-each.written, each.prompt, -each.number))
            while len(writers) > 1 and not fits():
                self.drop(writers.pop(), len(self.waiting))
                self.full = False
            written = sum(each.written for each in writers)
            answers = sum(each.answer for each in writers)
            self.ratio = min(1.0, (written + 20 * len(writers)) / (answers + 1))
        least = 0.14 * self.limits.reserved_answers
        self.ratio = max(least, self.ratio - (self.limits.reserved_answers - least) / 600)
        chunks = dict.fromkeys(writers, 1)
        for each in writers:
            assert self.give(each, 1)
        return chunks
