"""What all schedulers share: a queue, a cache in blocks, sequences that are read and that write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field

from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import Scheduling, Speculation
from perfcast.core.serving.step import StepBatch
from perfcast.errors import InputError
from perfcast.simulate.serving.sequence import Sequence
from perfcast.simulate.serving.writers import Writers


@dataclass(slots=True)
class Completed:
    """What a step, or a run of equal steps, left behind.

    Attributes:
        first: Sequences whose first token is there.
        finished: Whose answer is complete.
    """

    first: list[Sequence] = field(default_factory=list)
    finished: list[Sequence] = field(default_factory=list)


class Scheduler(ABC):
    """One engine: ``plan`` a step, ask how often it may be repeated, ``complete`` it.

    Args:
        scheduling: Its limits.
        speculation: Tokens drafted ahead in each step of a sequence that writes.
        hands_over: Whether sequences leave with their first token, and hold their blocks until released.
    """

    def __init__(
        self, scheduling: Scheduling, speculation: Speculation | None = None, *, hands_over: bool = False
    ) -> None:
        self.scheduling = scheduling
        self.drafted = speculation.drafted_tokens if speculation is not None else 0
        rate = speculation.tokens_per_step if speculation is not None else 1.0
        self.waiting: deque[Sequence] = deque()
        self.running: dict[int, Sequence] = {}
        self.readers: dict[int, Sequence] = {}
        self.loading: dict[int, Sequence] = {}
        self.writers = Writers(scheduling.block_tokens, rate, self.drafted)
        self.hands_over = hands_over
        self.holds_prompts = False
        self.capacity = scheduling.kv_tokens // scheduling.block_tokens
        self.other_blocks = 0
        self.max_sequences = min(
            scheduling.max_sequences, max(1, scheduling.max_step_tokens // (1 + self.drafted))
        )
        self.started: list[Sequence] = []
        self.preempted: list[Sequence] = []
        self._read_tokens = self._freed = 0
        self._chunks: list[tuple[Sequence, int]] = []
        self._writes = False

    # -- what it holds

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return self.capacity - self.writers.blocks - self.other_blocks

    @property
    def freed_blocks(self) -> int:
        """Blocks that were given back so far, counted as often as that happened."""
        return self._freed + self.writers.freed

    @property
    def kept_tokens(self) -> int:
        """Tokens whose keys and values are held."""
        return self._read_tokens + self.writers.kept_tokens

    @property
    def outstanding(self) -> int:
        """Requests that it has to answer."""
        return len(self.waiting) + len(self.running) + len(self.loading)

    @property
    def places(self) -> int:
        """For sequences beside those that run or are loaded."""
        return self.max_sequences - len(self.running) - len(self.loading)

    def has_prompt(self) -> bool:
        """Whether it would read one in the next step, were there tokens enough."""
        return bool(self.readers) or (len(self.waiting) > 0 and self.places > 0)

    def has_place(self) -> bool:
        """Whether a request that comes now could be started at the next step."""
        return not self.waiting and self.places > 0

    def blocks_for(self, tokens: int) -> int:
        """Blocks of a sequence of which so many tokens are read."""
        return -(-(tokens + self.drafted) // self.scheduling.block_tokens)

    # -- a step

    def plan(self) -> StepBatch | None:
        """What the next step computes; None: nothing to do."""
        self._chunks, self._writes = [], False
        self.choose()
        self._writes = self._writes and len(self.writers) > 0
        if not self._writes and not self._chunks:
            return None
        prompts = tokens = ended = 0
        pairs = 0.0
        for sequence, chunk in self._chunks:
            prompts += 1
            tokens += chunk
            pairs += chunk * sequence.read + chunk * (chunk + 1) / 2
            ended += chunk == sequence.unread
        writers = self.writers
        if not self._writes:
            return StepBatch(0, 0.0, prompts, tokens, pairs, ended)
        return StepBatch(len(writers), float(writers.attended_tokens), prompts, tokens, pairs, ended)

    @abstractmethod
    def choose(self) -> None:
        """Call ``write`` and ``read`` for what the next step computes, and ``preempt`` who must give way."""

    def most_steps(self) -> int:
        """How often the planned step may be done before something changes by itself."""
        if self._chunks or not self._writes or self.preempted:
            return 1  # after a step in which someone lost a place, others may start
        return self.writers.steps_that_fit(self.free_blocks, self.writers.steps_to_first_end()) or 1

    def later(self, batch: StepBatch, steps: int) -> StepBatch:
        """The planned step when so many of its kind are done."""
        gained = self.writers.ticks_after(steps) - self.writers.ticks
        return StepBatch(batch.sequences, batch.cached_tokens + batch.sequences * gained)

    def complete(self, steps: int) -> Completed:
        """The planned step is done so often."""
        done = Completed()
        if self._writes:
            for sequence in self.writers.advance(steps):
                self._leave(sequence, done)
        for sequence, chunk in self._chunks:
            sequence.read += chunk
            self._read_tokens += chunk
            if not sequence.unread:
                self._end_of_prompt(sequence, done)
        return done

    def _end_of_prompt(self, sequence: Sequence, done: Completed) -> None:
        """A prompt is read: its sequence writes from now on, has ended, or is handed over."""
        del self.readers[sequence.number]
        self._read_tokens -= sequence.read
        sequence.read = 0
        sequence.written += 1
        if sequence.written == 1:
            done.first.append(sequence)
        if self.hands_over or sequence.written == sequence.answer:
            if not self.hands_over:
                self.release(sequence)
            else:
                self._read_tokens += sequence.prompt
            self._leave(sequence, done)
        else:
            self._freed += sequence.blocks
            self.other_blocks -= sequence.blocks
            self.writers.add(sequence)
            self._freed -= self.writers.blocks_of(sequence)

    def _leave(self, sequence: Sequence, done: Completed) -> None:
        del self.running[sequence.number]
        self.left(sequence)
        done.finished.append(sequence)

    def left(self, sequence: Sequence) -> None:  # noqa: B027
        """A sequence runs no more: what a policy keeps of it is forgotten."""

    # -- what policies do

    def write(self) -> None:
        """All that write gain their next tokens in this step; there is room for them."""
        self.writers.grow()
        self._writes = True

    def read(self, sequence: Sequence, chunk: int) -> None:
        """So many tokens more of a prompt in this step; there is room for them."""
        blocks = self.blocks_for(sequence.read + chunk)
        self.other_blocks += blocks - sequence.blocks
        sequence.blocks = blocks
        self._chunks.append((sequence, chunk))

    def start(self, found_tokens: int | None = None) -> Sequence:
        """The first of the queue has a place from now on; so many of its tokens need not be read."""
        sequence = self.waiting.popleft()
        sequence.read = sequence.cached if found_tokens is None else found_tokens
        sequence.blocks = 0
        self._read_tokens += sequence.read
        self.running[sequence.number] = sequence
        self.readers[sequence.number] = sequence
        self.started.append(sequence)
        return sequence

    def preempt(self, sequence: Sequence) -> None:
        """It loses its place and its blocks, and will be read again."""
        del self.running[sequence.number]
        if self.readers.pop(sequence.number, None) is not None:
            self._chunks = [each for each in self._chunks if each[0] is not sequence]
            self._read_tokens -= sequence.read
            self.other_blocks -= sequence.blocks
            self._freed += sequence.blocks
        else:
            self.writers.remove(sequence)
        sequence.read = sequence.blocks = 0
        self.preempted.append(sequence)
        self.left(sequence)

    # -- hand-over

    def release(self, sequence: Sequence) -> None:
        """Blocks that it holds beside those that write are free."""
        if self.hands_over:
            self._read_tokens -= sequence.prompt
        self.other_blocks -= sequence.blocks
        self._freed += sequence.blocks
        sequence.blocks = 0

    def reserve(self, sequence: Sequence) -> bool:
        """Take place and blocks for a sequence that was read elsewhere; False: there is no room."""
        blocks = self.blocks_for(sequence.prompt)
        if self.places < 1 or blocks > self.room_for_loading(sequence):
            return False
        sequence.blocks = blocks
        self.other_blocks += blocks
        self.loading[sequence.number] = sequence
        return True

    def room_for_loading(self, sequence: Sequence) -> int:
        """Blocks that a sequence from elsewhere may take."""
        return self.free_blocks

    def join(self, sequence: Sequence) -> None:
        """Its keys and values are here: it writes from now on."""
        self.other_blocks -= sequence.blocks
        sequence.blocks = 0
        self.running[sequence.number] = self.loading.pop(sequence.number)
        self.writers.add(sequence)

    # -- what cannot be

    def check(self, requests: Requests) -> None:
        """Requests that it could never answer.

        Raises:
            InputError: One is longer than the cache, or than a step where prompts are read whole.
        """
        longest = int((requests.prompt_tokens + requests.answer_tokens).max())
        if self.blocks_for(longest) > self.capacity:
            raise InputError(
                f"a request of {longest:,} tokens, but the memory holds keys and values of "
                f"{self.scheduling.kv_tokens:,}"
            )
        limit, chunks = self.scheduling.max_step_tokens, self.scheduling.chunks_prompts
        prompt = int(requests.prompt_tokens.max())
        if not chunks and prompt > limit:
            raise InputError(
                f"a prompt of {prompt:,} tokens, but a step reads {limit:,} and prompts are read whole: let "
                "them be read in chunks, or allow more tokens in a step"
            )
