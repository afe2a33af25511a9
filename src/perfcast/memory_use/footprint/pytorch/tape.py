"""What autograd keeps of a forward, and what its backward holds while it runs, from sizes alone.

A tape lists the differentiable steps of a program in the order in which the program takes them, each with
the blocks that it saves for its backward. The engine runs backwards in reverse order, hands gradients on,
lets go of what a step saved when its backward is done, and adds up gradients that meet (PyTorch,
"Autograd mechanics"). ``run_backward`` follows that and keeps the instant at which most is held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

STREAM_GRADIENTS = "gradients of activations"


@dataclass(eq=False, slots=True)
class Block:
    """One allocation; blocks of equal name are added up in a report.

    ``formula`` gives the bytes as factors: '2048·4096·4'.
    """

    name: str
    num_bytes: int
    formula: str = ""


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of the program: ``rows`` of ``features`` in a block that views may share.

    ``is_parameter`` values receive a gradient that stays.
    """

    rows: int
    features: int
    element_bytes: int
    block: Block
    is_parameter: bool = False

    @property
    def num_bytes(self) -> int:
        """Bytes of this tensor alone."""
        return self.rows * self.features * self.element_bytes


@dataclass(eq=False, slots=True)
class Step:
    """One differentiable operation.

    Attributes:
        inputs: Each with the bytes of the gradient that its backward makes; 0 hands the gradient of the
            output on as it is.
        temporary_bytes: What the backward holds besides, while it runs.
    """

    name: str
    inputs: tuple[tuple[Value, int], ...]
    outputs: tuple[Value, ...]
    saved: tuple[Block, ...]
    temporary_bytes: int = 0


@dataclass(eq=False, slots=True)
class AutogradTape:
    """Steps in the order of the program."""

    steps: list[Step] = field(default_factory=list)

    def record(
        self,
        name: str,
        inputs: Iterable[tuple[Value, int]],
        outputs: Value | tuple[Value, ...],
        saved: Iterable[Block] = (),
        temporary_bytes: int = 0,
    ) -> None:
        """Append a step."""
        made = outputs if isinstance(outputs, tuple) else (outputs,)
        self.steps.append(Step(name, tuple(inputs), made, tuple(saved), temporary_bytes))

    @property
    def saved(self) -> tuple[Block, ...]:
        """Blocks saved for the backward, each once."""
        return tuple(dict.fromkeys(block for step in self.steps for block in step.saved))

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the parameters' gradients that the backward leaves."""
        return sum(made for step in self.steps for value, made in step.inputs if value.is_parameter and made)

    @property
    def largest_gradient_bytes(self) -> int:
        """Bytes of the largest gradient of a parameter; 0 without any."""
        made = (made for step in self.steps for value, made in step.inputs if value.is_parameter)
        return max(made, default=0)


@dataclass(frozen=True)
class Instant:
    """What is held while one backward step runs: saved blocks, gradients of both kinds."""

    step: str
    saved: tuple[Block, ...]
    gradient_bytes: int
    stream_bytes: int

    @property
    def num_bytes(self) -> int:
        """Bytes of everything."""
        return sum(b.num_bytes for b in self.saved) + self.gradient_bytes + self.stream_bytes


def run_backward(tape: AutogradTape, output: Value, waiting: Mapping[Value, Block] | None = None) -> Instant:
    """The instant of a tape's backward that holds most, given the gradient of its output.

    Args:
        waiting: Gradients that other parts of the program have handed to values of this one.
    """
    engine = _Engine(tape, output, waiting or {})
    for step in reversed(tape.steps):
        engine.run(step)
    assert engine.most is not None
    return engine.most


class _Engine:
    """Follows one backward; gradients are blocks, so that one handed on to two inputs counts once."""

    def __init__(self, tape: AutogradTape, output: Value, waiting: Mapping[Value, Block]) -> None:
        self._uses = Counter(block for step in tape.steps for block in dict.fromkeys(step.saved))
        self._pending = {output: Block(STREAM_GRADIENTS, output.num_bytes), **waiting}
        self._left_bytes = 0
        self.most: Instant | None = None

    def run(self, step: Step) -> None:
        received = [self._pending.pop(v) for v in step.outputs if v in self._pending]
        made: list[tuple[Value, Block]] = []
        for value, num_bytes in step.inputs:
            if num_bytes:
                made.append((value, Block(STREAM_GRADIENTS, num_bytes)))
            elif received:
                made.append((value, received[0]))
        self._observe(step.name, received, [b for _, b in made], step.temporary_bytes)
        for block in dict.fromkeys(step.saved):
            self._uses[block] -= 1
            if not self._uses[block]:
                del self._uses[block]
        for i, (value, block) in enumerate(made):
            self._deliver(step.name, value, block, [b for _, b in made[i + 1 :]])

    def _deliver(self, name: str, value: Value, block: Block, waiting: Sequence[Block]) -> None:
        if value.is_parameter:
            self._left_bytes += block.num_bytes
            return
        earlier = self._pending.get(value)
        if earlier is None:
            self._pending[value] = block
            return
        total = Block(STREAM_GRADIENTS, value.num_bytes)
        self._observe(f"sum of gradients behind {name}", [block, total], waiting, 0)
        self._pending[value] = total

    def _observe(self, name: str, held: Sequence[Block], also: Sequence[Block], temporary_bytes: int) -> None:
        gradients = set(held) | set(also) | set(self._pending.values())
        stream_bytes = sum(b.num_bytes for b in gradients) + temporary_bytes
        instant = Instant(name, tuple(self._uses), self._left_bytes, stream_bytes)
        if self.most is None or instant.num_bytes > self.most.num_bytes:
            self.most = instant
