"""What plans have in common whose steps differ in numbers only."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.plan import Schedule
from perfcast.simulate.closed_form.figures import GATHER, GATHER_AGAIN, GRADIENT_REDUCTION
from perfcast.workload.plan_columns.cuts import Cut


@dataclass(frozen=True, kw_only=True)
class Group:
    """What plans have in common whose steps differ in numbers only.

    Attributes:
        cut: Which kinds of layers stand where.
        virtual: Chunks of a stage, which follow one another in the model.
        has_sides: Whether a kind of layer has calls beside it, [part][kind].
        gathers_each, reduces_each: Whether every micro-batch collects weights, reduces gradients.
        overlaps_gather, overlaps_gradient_reduction: Whether those run beside the compute.
        overlaps_boundary: Whether a stage computes on while it sends to another.
        host_waits: Whether the host waits for every message between stages.
        num_prefetched: Layers ahead of the one that runs whose weights are gathered, with ``gathers_each``.
        updates_together: Whether ranks of all stages wait for one another in the optimizer.
        slowdown: Factors of compute and of communication while both run.
        is_forward_only: Whether it is a step of inference.
    """

    cut: Cut
    schedule: Schedule
    virtual: int
    has_sides: tuple[tuple[bool, ...], ...]
    gathers_each: bool
    reduces_each: bool
    overlaps_gather: bool
    overlaps_gradient_reduction: bool
    overlaps_boundary: bool = True
    host_waits: bool = False
    num_prefetched: int
    updates_together: bool
    slowdown: tuple[float, float]
    is_forward_only: bool = False

    @property
    def num_stages(self) -> int:
        """Of the pipeline."""
        return len(self.cut.stage_kinds)

    @property
    def has_gathers(self) -> bool:
        """Whether any layer collects its weights."""
        return any(self.has_sides[GATHER]) or any(self.has_sides[GATHER_AGAIN])

    @property
    def has_reductions(self) -> bool:
        """Whether any layer reduces its gradients."""
        return any(self.has_sides[GRADIENT_REDUCTION])

    @property
    def splits_backward(self) -> bool:
        """Whether gradients of weights are put off."""
        return self.schedule in ("zero_bubble", "dualpipe")
