"""What is asked of inference over batch sizes and contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.errors import InputError
from perfcast.ranges import BATCH, TOKENS_OF_SEQUENCE, Range

if TYPE_CHECKING:
    from perfcast.core.machine.cluster import Cluster
    from perfcast.cost.model import CostModel
    from perfcast.prediction.model import Model

#: Of inference, where no batches are asked for.
SEQUENCES_OF_A_REPLICA = (1, 8, 64)


#: Cells of a grid, each of which is a forecast.
_CELLS = Range(1, 1000, "take fewer of either")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesRequest:
    """Inference of a model under a plan, every batch size with every context.

    Attributes:
        plan: Its degrees; micro-batches follow from the batch. None: the smallest that fits.
        batch_sizes: Sequences that are answered at once, over all devices; empty: few, some and many of each
            replica (``SEQUENCES_OF_A_REPLICA``).
        context_lengths: Tokens of each prompt, and of the cache when a token is written.
        modes: What is forecast of 'prefill' and 'decode'.
        dtype: Of weights; 'auto' takes what is usual for model and device.
        kv_cache_dtype: Of keys and values; None or 'auto': what the framework keeps beside ``dtype``.
        framework: Whose program answers; None: what is usual for the model.
    """

    model: Model
    cluster: Cluster
    context_lengths: tuple[int, ...]
    plan: Plan | None = None
    batch_sizes: tuple[int, ...] = ()
    modes: tuple[Mode, ...] = ("prefill", "decode")
    dtype: str = AUTO
    kv_cache_dtype: str | None = None
    framework: str | None = None
    cost_model: str | CostModel | None = None

    def __post_init__(self) -> None:
        numbers = (*self.batch_sizes, *self.context_lengths)
        if not self.context_lengths or min(numbers) < 1:
            raise InputError(
                "a sweep needs batch sizes and contexts of at least 1, such as 1,8,64 and 2048,8192"
            )

        for count in self.batch_sizes:
            BATCH.check("--batch-sizes", count)
        for length in self.context_lengths:
            TOKENS_OF_SEQUENCE.check("--contexts", length)
        cells = max(len(self.batch_sizes), 1) * len(self.context_lengths)
        _CELLS.check("cells of --batch-sizes and --contexts:", cells)

    def batches_of(self, plan: Plan) -> tuple[int, ...]:
        """Sequences that are answered at once under a plan, over all devices."""
        return self.batch_sizes or tuple(share * plan.data_parallel for share in SEQUENCES_OF_A_REPLICA)
