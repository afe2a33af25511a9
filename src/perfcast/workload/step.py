"""The programs that are forecast: one training step, one prefill, one decode step.

Each is an ordinary PyTorch program that runs on real tensors as well as on symbolic ones, so that
what is forecast, what is measured and what a memory tracker sees are one and the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from perfcast.core.captured import StepSizes
from perfcast.core.graph import Phase
from perfcast.errors import InputError, UnknownNameError
from perfcast.torch_internals.eager import tree_leaves

LossFunction = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Program:
    """A module with the arguments of one call.

    Attributes:
        loss_function: Output → scalar; None takes the output's own loss (see ``default_loss``).
        batch_size, sequence_length: For reports; ``sequence_length`` is None where it means nothing.
        notes: Assumptions made while building it.
        symbolic_context: Entered around a symbolic run: answers, as real values would, what the program
            asks of values.
        run: Forward and backward of one step, where the program orders them itself (a pipeline schedule);
            arguments and loss function are then its own.
    """

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    loss_function: LossFunction | None = None
    batch_size: int = 1
    sequence_length: int | None = None
    notes: tuple[str, ...] = ()
    symbolic_context: Callable[[], AbstractContextManager[None]] = nullcontext
    run: Callable[[], Any] | None = None

    @property
    def sizes(self) -> StepSizes:
        """On what one forward runs."""
        return StepSizes(self.batch_size, self.sequence_length)


def _ignore_phase(phase: Phase) -> None:
    pass


def run_training_step(
    program: Program,
    optimizer: Optimizer,
    num_micro_batches: int = 1,
    on_phase: Callable[[Phase], None] = _ignore_phase,
) -> None:
    """One step in steady state: forward, loss, backward, optimizer, gradients set to None.

    The output is dropped as soon as the loss is computed and the loss after its backward, as the
    Hugging Face Trainer does.
    """
    for _ in range(num_micro_batches):
        run_forward_backward(program, on_phase)
    on_phase(Phase.OPTIMIZER)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _run_backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def run_forward_backward(
    program: Program,
    on_phase: Callable[[Phase], None] = _ignore_phase,
    run_backward: Callable[[Tensor], None] = _run_backward,
) -> None:
    """Forward and backward of one micro-batch; gradients accumulate in ``.grad``."""
    on_phase(Phase.FORWARD)
    if program.run is not None:
        program.run()
        return
    loss_function = program.loss_function or default_loss
    loss = loss_function(program.module(*program.args, **program.kwargs))
    on_phase(Phase.BACKWARD)
    run_backward(loss)


def run_forward(program: Program) -> Any:
    """One call without gradients: a prefill or decode step, or an encoder's inference."""
    with torch.no_grad():
        if program.run is not None:
            return program.run()
        return program.module(*program.args, **program.kwargs)


def default_loss(output: Any) -> Tensor:
    """The ``loss`` of an output that has one, a scalar as it is, else the sum of the first tensor.

    Raises:
        InputError: The output holds no floating-point tensor.
    """
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    for value in tree_leaves(output):
        if isinstance(value, Tensor) and value.is_floating_point():
            return value if value.ndim == 0 else value.sum()
    raise InputError("the module's output holds no floating-point tensor to derive a loss from")


class Steps(Protocol):
    """What a step asks of an optimizer."""

    @property
    def state(self) -> Mapping[Any, dict[str, Any]]:
        """Tensors by parameter and name."""
        ...

    def step(self) -> Any:
        """Update the parameters."""
        ...

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients are gone."""
        ...


@dataclass(frozen=True)
class OptimizerChoice:
    """An optimizer by name and implementation ('fused', 'foreach' or 'loop')."""

    name: str = "adamw"
    implementation: str = "foreach"


OPTIMIZER_NAMES = ("sgd", "momentum", "adam", "adamw", "none")


def build_optimizer(choice: OptimizerChoice, module: nn.Module) -> Optimizer:
    """The optimizer over all parameters that need a gradient.

    Raises:
        UnknownNameError: No such optimizer.
    """
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise InputError("the module has no parameter that needs a gradient; nothing to train")
    how: dict[str, Any] = {
        "foreach": choice.implementation == "foreach",
        "fused": choice.implementation == "fused",
    }
    match choice.name:
        case "sgd":
            return torch.optim.SGD(parameters, lr=1e-3, **how)
        case "momentum":
            return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, **how)
        case "adam":
            return torch.optim.Adam(parameters, lr=1e-3, **how)
        case "adamw":
            return torch.optim.AdamW(parameters, lr=1e-3, **how)
    raise UnknownNameError("optimizer", choice.name, OPTIMIZER_NAMES)
