"""Which layers of a pipeline stage are computed again in the backward, and which keep all."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.plan import Plan
from perfcast.core.transformer import Transformer
from perfcast.core.weights import StageWeights, split_evenly


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Layers of a rank of which only the input waits for the backward."""

    num_dense: int = 0
    num_expert: int = 0

    @property
    def num_layers(self) -> int:
        """All of them."""
        return self.num_dense + self.num_expert

    def plus(self, other: Recomputed) -> Recomputed:
        """Those of two parts of the model on one rank."""
        return Recomputed(self.num_dense + other.num_dense, self.num_expert + other.num_expert)


def recomputed_layers(
    model: Transformer, plan: Plan, weights: StageWeights, first: int, count: int
) -> Recomputed:
    """Of a stage of ``count`` layers, the ``first`` of which is its place in the model.

    With ``Plan.recompute_layers`` the first so many of each chunk (Megatron-LM: --recompute-method block);
    further prediction layers keep all then.
    """
    if plan.recompute != "full":
        return Recomputed()
    if plan.recompute_layers is None:
        return Recomputed(weights.num_dense_layers, weights.num_expert_layers)
    num_dense = model.num_layers if model.experts is None else model.experts.num_dense_layers
    found, start = Recomputed(), first
    for size in split_evenly(count, plan.virtual_stages_per_rank):
        again = min(plan.recompute_layers, size)
        dense = min(max(num_dense - start, 0), again)
        found = found.plus(Recomputed(dense, again - dense))
        start += size
    return found
