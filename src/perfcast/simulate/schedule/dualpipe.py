"""DualPipe: micro-batches enter from both ends of the pipeline.

Rank r of p holds part r of the model for the micro-batches that enter at rank 0 (chunk 0) and part p - 1 - r
for those that enter at rank p - 1 (chunk 1): the weights twice. In the steady state a forward of one
direction runs together with a backward of the other, each hiding the collectives of the other (DeepSeek-AI:
DeepSeek-V3 technical report, 2024, section 3.2.1; github.com/deepseek-ai/DualPipe).
"""

from __future__ import annotations

from collections import deque

from perfcast.errors import PlanError
from perfcast.simulate.schedule.action import Action, Actions, Pass


def dualpipe(num_stages: int, stage: int, num_micro_batches: int) -> Actions:
    """Actions of one rank; micro-batches of chunk 1 are numbered behind those of chunk 0.

    With h the rank's distance from the nearer end, 'near' the direction that entered there and 'far' the
    other: near forwards; near and far forwards in turn; far backwards, split, each with a far forward;
    joined pairs; far backwards with joined pairs; backwards of both; what is left of gradients of weights.

    Raises:
        PlanError: An odd number of stages or micro-batches, or fewer than two micro-batches a stage.
    """
    check_dualpipe(num_stages, num_micro_batches)
    half = num_stages // 2
    depth = min(stage, num_stages - 1 - stage)
    rest, near = half - depth - 1, int(stage >= half)
    far, is_middle = 1 - near, depth == half - 1
    row = _Row(num_micro_batches // 2)
    for _ in range(2 * rest):
        row.forward(near)
    for _ in range(depth + 1):
        row.forward(near)
        row.forward(far)
    for _ in range(rest):
        row.backward(far, is_split=True)
        row.weights()
        row.forward(far)
    for at in range(num_micro_batches // 2 - num_stages + depth + 1):
        row.forward(near, joins_next=not (is_middle and at == 0))
        row.backward(far)
        row.forward(far, joins_next=True)
        row.backward(near)
    for _ in range(rest):
        row.backward(far)
        row.forward(far, joins_next=True)
        row.backward(near)
    row.drain(near, far, depth)
    for _ in range(rest):
        row.weights()
        row.backward(near, is_split=True)
    for _ in range(depth + 1):
        row.weights()
    return tuple(row.actions)


def check_dualpipe(num_stages: int, num_micro_batches: int) -> None:
    """Whether the schedule exists.

    Raises:
        PlanError: It does not.
    """
    if num_stages % 2 or num_micro_batches % 2 or num_micro_batches < 2 * num_stages:
        raise PlanError(
            f"schedule=dualpipe with pp={num_stages} and {num_micro_batches} micro-batches: both must be "
            f"even, and there must be at least 2 · pp = {2 * num_stages} micro-batches"
        )


class _Row:
    """Actions of a rank, numbered as they come."""

    def __init__(self, per_direction: int) -> None:
        self.actions: list[Action] = []
        self._per_direction = per_direction
        self._forwards, self._backwards = [0, 0], [0, 0]
        self._put_off: deque[tuple[int, int]] = deque()

    def forward(self, chunk: int, *, joins_next: bool = False) -> None:
        micro_batch = chunk * self._per_direction + self._forwards[chunk]
        self._forwards[chunk] += 1
        self.actions.append(Action(Pass.FORWARD, micro_batch, chunk, joins_next))

    def backward(self, chunk: int, *, is_split: bool = False) -> None:
        micro_batch = chunk * self._per_direction + self._backwards[chunk]
        self._backwards[chunk] += 1
        self.actions.append(Action(Pass.INPUT_GRADIENT if is_split else Pass.BACKWARD, micro_batch, chunk))
        if is_split:
            self._put_off.append((micro_batch, chunk))

    def weights(self) -> None:
        """The oldest gradients of weights that were put off."""
        self.actions.append(Action(Pass.WEIGHT_GRADIENT, *self._put_off.popleft()))

    def drain(self, near: int, far: int, depth: int) -> None:
        """Backwards of both directions in turn; from the middle on they are split."""
        is_split = False
        for at in range(depth + 1):
            is_middle = at == (depth + 1) // 2
            is_split |= is_middle and depth % 2 == 1
            self.backward(far, is_split=is_split)
            is_split |= is_middle and depth % 2 == 0
            self.backward(near, is_split=is_split)
