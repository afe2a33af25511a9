"""The core of attention of one rank whose sequence is cut, and what all ways of joining the parts share."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.model.heads import Heads
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.work import Stream
from perfcast.frameworks.profile import ContextProgram
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.tape import Tape

CORE, KEYS, HEADS = "attention.core", "attention.keys", "attention.heads"


@dataclass(frozen=True, slots=True)
class ContextSetting:
    """The core of attention of one rank.

    Attributes:
        sequence: Tokens of one sequence on this rank.
        heads: Of the rank, cut by tensor parallelism.
        window: Tokens that a query looks back; 0: all.
        program: Whose ring attention.
    """

    plan: Plan
    batch: int
    sequence: int
    heads: Heads
    element: DType
    is_causal: bool = True
    window: int = 0
    program: ContextProgram = "transformer_engine"

    @property
    def parts(self) -> int:
        """Ranks that share a sequence."""
        return self.plan.context_parallel

    @property
    def key_bytes(self) -> int:
        """Keys and values of this rank's tokens."""
        width = self.heads.key_width + self.heads.value_width
        return self.element.bytes_of(self.batch * self.sequence * width)


def send_keys(tape: Tape, setting: ContextSetting, num_bytes: int, *, is_awaited: bool = False) -> int | None:
    """To the next rank of the ring; the longest hop of the ring decides."""
    return tape.collective(
        "send", num_bytes, group_of(setting.plan, "context"), Stream.CONTEXT, KEYS,
        world_size=setting.plan.world_size, dtype=setting.element, is_awaited=is_awaited,
    )  # fmt: skip


def ring_block(setting: ContextSetting, step: int, *, is_backward: bool) -> Operation:
    """The own block, half of its pairs masked; another one: all its queries against half its keys."""
    is_own = step == 0 and setting.is_causal
    keys = setting.sequence // 2 if setting.is_causal and step else setting.sequence
    return block_attention(setting, setting.heads, setting.sequence, max(keys, 1), is_own, is_backward)


def collect_keys(
    tape: Tape, setting: ContextSetting, collective: str, message_bytes: int, *, is_awaited: bool = True
) -> int | None:
    """Among all ranks of the sequence."""
    return tape.collective(
        collective, message_bytes, group_of(setting.plan, "context"), Stream.CONTEXT, KEYS,
        world_size=setting.plan.world_size, dtype=setting.element, is_awaited=is_awaited,
    )  # fmt: skip


def block_attention(
    setting: ContextSetting,
    heads: Heads,
    queries: int,
    keys: int,
    is_causal: bool,
    is_backward: bool,
) -> Operation:
    """One kernel; a window leaves its keys to each query."""
    is_windowed = 0 < setting.window < keys
    return kernels.attention(
        setting.batch,
        heads.queries,
        heads.keys,
        queries,
        setting.window if is_windowed else keys,
        heads.size,
        setting.element,
        causal=is_causal and not is_windowed,
        is_backward=is_backward,
        value_head_size=heads.value_size,
    )
