"""What decides which requests a step computes: limits, order, how memory for keys and values is dealt out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from perfcast.errors import InputError

#: Whose rules a scheduler follows (``simulate/serving/schedulers`` has one file each).
SchedulerPolicy = Literal["vllm", "vllm_v0", "sglang", "trtllm"]
SCHEDULER_POLICIES: tuple[SchedulerPolicy, ...] = get_args(SchedulerPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """The scheduler of one engine: of a replica, or of each attention data-parallel rank of it.

    Attributes:
        policy: Whose rules.
        max_sequences: That run at once.
        max_step_tokens: New tokens of one step.
        chunks_prompts: Whether a prompt may be read in several steps, beside the tokens of answers.
        kv_tokens: Tokens whose keys and values the memory holds.
        block_tokens: Of one block of that memory.
        schedules_ahead: Whether a step is scheduled while the one before it runs ('overlap', 'async'
            scheduling): what comes or ends during a step then counts from the second next one.
        reserves_prompts: Whether a request starts only where its whole prompt has room, and not just what
            the step reads of it (vLLM).
        reuses_blocks: Whether a request that lost its place finds again what nobody has overwritten of its
            keys and values (vLLM's prefix cache).
        polls_every_steps: Steps of writing after which requests that have come are looked at, at once after a
            step that reads (SGLang: --scheduler-recv-interval).
        rank_wait_steps: For how many steps at most prompts wait until every attention data-parallel rank has
            one to read (TensorRT-LLM: timeout_iters of attention_dp_config with enable_balance); 0: not at
            all.
        reserved_answers: Of what running answers may still write, the share that SGLang keeps room for.
    """

    policy: SchedulerPolicy
    max_sequences: int
    max_step_tokens: int
    kv_tokens: int
    chunks_prompts: bool = True
    block_tokens: int = 16
    schedules_ahead: bool = False
    reserves_prompts: bool = False
    reuses_blocks: bool = False
    polls_every_steps: int = 1
    rank_wait_steps: int = 0
    reserved_answers: float = 0.7

    def __post_init__(self) -> None:
        for name in ("max_sequences", "max_step_tokens", "kv_tokens", "block_tokens", "polls_every_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name.replace('_', ' ')} {getattr(self, name)}: must be at least 1")
        if self.rank_wait_steps < 0:
            raise InputError(f"rank wait steps {self.rank_wait_steps}: 0 or more")
        if not 0 <= self.reserved_answers <= 1:
            raise InputError(f"reserved answers {self.reserved_answers:g}: a share between 0 and 1")


@dataclass(frozen=True, slots=True)
class Speculation:
    """Tokens drafted ahead, which one step then checks (Leviathan et al., ICML 2023).

    Attributes:
        drafted_tokens: In each step and sequence.
        acceptance: Probability that a drafted token is kept, given that all before it were.
    """

    drafted_tokens: int
    acceptance: float

    def __post_init__(self) -> None:
        if not 1 <= self.drafted_tokens <= 64:
            raise InputError(f"{self.drafted_tokens} drafted tokens: between 1 and 64")
        if not 0 <= self.acceptance <= 1:
            raise InputError(f"acceptance {self.acceptance:g}: between 0 and 1")

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a sequence gains in a step, expected: (1 - a^(k+1)) / (1 - a) (equation 1 there).

        >>> Speculation(1, 0.8).tokens_per_step
        1.8
        """
        return sum(self.acceptance**count for count in range(self.drafted_tokens + 1))
