"""What the ranks of a plan run: calls on streams, layers of calls, stages of layers.

A step on thousands of devices repeats itself: ranks of one pipeline stage do the same, layers of one kind
do, micro-batches do. Here each different layer stands once, with counts beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan


class Stream(Enum):
    """Where a call runs. Streams run side by side; one stream runs its calls in order."""

    COMPUTE = "compute"
    TENSOR = "tensor"
    CONTEXT = "context"
    EXPERT = "expert"
    DATA = "data"
    PIPELINE = "pipeline"
    COPY = "copy"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Call:
    """One issue of an operation, a kernel or a collective, on one rank.

    It starts when the call before it on its stream has ended and all calls in ``after`` have.

    Attributes:
        after: Indices of earlier calls of the same sequence, on other streams. Of
            ``Layer.gradient_reduction``: of the calls of ``Layer.backward``, which stand before it.
        module: What asked for it, such as 'attention.output'.
        count: How often it runs in a row.
        share: Part of one run that is this sequence's: gradients of several layers travel together.
        num_launches: Kernels that the host issues for one run; 0 where the host does nothing.
        is_recomputed: Whether it repeats work of the forward.
        is_weight_gradient: Whether only the optimizer waits for it, so that a schedule may put it off.
        host_waits: Whether the host waits for its end before it issues the next: it reads a result back.
    """

    operation: Operation
    stream: Stream = Stream.COMPUTE
    after: tuple[int, ...] = ()
    module: str = ""
    count: int = 1
    share: float = 1.0
    num_launches: int = 1
    is_recomputed: bool = False
    is_weight_gradient: bool = False
    host_waits: bool = False

    @property
    def num_runs(self) -> float:
        """Runs of the operation that this call stands for."""
        return self.count * self.share

    @property
    def is_collective(self) -> bool:
        """Whether ranks exchange data."""
        return self.operation.kind is OperationKind.COLLECTIVE

    def behind(self, after: tuple[int, ...]) -> Call:
        """The same call behind these; written out, since searches build calls by the ten thousand."""
        return self._changed(after, self.is_recomputed)

    def recomputed(self) -> Call:
        """The same call as a repetition of the forward's."""
        return self._changed(self.after, True)

    def _changed(self, after: tuple[int, ...], is_recomputed: bool) -> Call:
        return Call(
            self.operation,
            self.stream,
            after,
            self.module,
            self.count,
            self.share,
            self.num_launches,
            is_recomputed,
            self.is_weight_gradient,
            self.host_waits,
        )


Calls = tuple[Call, ...]


@dataclass(frozen=True)
class Layer:
    """A layer of the model, or one of its ends, as one rank runs it for one micro-batch.

    Attributes:
        name: 'embedding', 'layer', 'expert layer', 'head' …
        forward, backward: The backward begins with what it computes again.
        gather: Before its forward, what collects sharded weights (ZeRO 3).
        gather_again: The same before its backward, where they were given up in between.
        gradient_reduction: What reduces its gradients over data-parallel ranks; ``after`` points into
            ``backward``.
        overlaps_passes: Whether its dispatches of tokens run beside another micro-batch's opposite pass.
    """

    name: str
    forward: Calls
    backward: Calls = ()
    gather: Calls = ()
    gather_again: Calls = ()
    gradient_reduction: Calls = ()
    overlaps_passes: bool = False

    def parts(self) -> Iterator[Calls]:
        """All sequences of calls."""
        yield from (self.forward, self.backward, self.gather, self.gather_again, self.gradient_reduction)


@dataclass(frozen=True, slots=True)
class LayerRun:
    """``count`` equal layers in a row; ``layer`` is an index into ``StepWork.layers``."""

    layer: int
    count: int


@dataclass(frozen=True)
class StageWork:
    """What a rank of one pipeline stage holds: its chunks (one, or one for each virtual stage), each a row
    of layers in the order of the forward; and what it runs once a step, after the last backward."""

    chunks: tuple[tuple[LayerRun, ...], ...]
    optimizer: Calls = ()


@dataclass(frozen=True)
class StepWork:
    """A step of a plan.

    Attributes:
        layers: The different ones.
        stages: One for each pipeline stage. Chunk c of stage s holds the (c · pp + s)-th part of the model
            (but 'dualpipe': stage s runs its own part forwards and that of stage pp - 1 - s mirrored).
        boundary: What one stage sends the next for one micro-batch, and gets back in the backward; None
            where there is one stage.
        reduces_gradients_each_micro_batch: Whether every micro-batch reduces gradients (else the last).
        gathers_each_micro_batch: Whether sharded weights are gathered for every micro-batch.
        overlaps_gradient_reduction, overlaps_gather: Whether those run beside the compute.
        overlaps_boundary: Whether a stage computes on while it sends to another; else it waits for the send.
        host_waits: Whether the host waits for every message between stages, so that it begins to issue a pass
            when the pass may begin; else it runs ahead.
        num_tokens: Of the whole step, over all replicas.
        flops: Model flops of the whole step, over all devices; nothing that is computed twice.
        recompute_flops: What is computed twice, over all devices.
        assumptions: For the reader of the result.
    """

    plan: Plan
    layers: tuple[Layer, ...]
    stages: tuple[StageWork, ...]
    boundary: Operation | None = None
    reduces_gradients_each_micro_batch: bool = False
    gathers_each_micro_batch: bool = True
    overlaps_gradient_reduction: bool = True
    overlaps_gather: bool = True
    overlaps_boundary: bool = True
    host_waits: bool = False
    num_tokens: int = 0
    flops: int = 0
    recompute_flops: int = 0
    assumptions: tuple[str, ...] = field(default=())

    def operations(self) -> tuple[Operation, ...]:
        """Different operations of all calls, each once, in a fixed order."""
        found: dict[Operation, None] = {}
        for layer in self.layers:
            for calls in layer.parts():
                found.update((call.operation, None) for call in calls)
        for stage in self.stages:
            found.update((call.operation, None) for call in stage.optimizer)
        if self.boundary is not None:
            found[self.boundary] = None
        return tuple(found)


def shifted(calls: Sequence[Call], by: int) -> Calls:
    """The same calls behind ``by`` others: their ``after`` moves along."""
    return tuple(call.behind(tuple(at + by for at in call.after)) for call in calls)
