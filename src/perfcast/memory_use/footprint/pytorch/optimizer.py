"""What ``torch.optim`` keeps between steps and works with in one, for fp32 parameters."""

from __future__ import annotations

from perfcast.core.forecast.footprint import Term
from perfcast.core.tensor import Category
from perfcast.core.training import OPTIMIZER_IMPLEMENTATIONS
from perfcast.errors import UnknownNameError
from perfcast.memory_use.footprint.states import MOMENT_BYTES

OPTIMIZERS = ("none", "sgd", "momentum", "adam", "adamw")
_SOURCE = "PyTorch: torch/optim/adam.py, sgd.py"
#: The name of the term that an update adds.
DENOMINATORS = "denominators of the update"


def state_term(optimizer: str, num_parameters: int) -> tuple[Term, ...]:
    """Two fp32 moments for each parameter with Adam, one with momentum.

    Raises:
        UnknownNameError: No such optimizer.
    """
    if optimizer not in OPTIMIZERS:
        raise UnknownNameError("optimizer", optimizer, OPTIMIZERS, f"Known: {', '.join(OPTIMIZERS)}.")
    count = round(MOMENT_BYTES[optimizer] / 4)
    if not count:
        return ()
    size = 4 * count * num_parameters
    return (Term("optimizer state", Category.OPTIMIZER_STATE, size, f"{count}·{num_parameters}·4", _SOURCE),)


def optimizer_terms(
    optimizer: str, implementation: str, num_parameters: int, largest: int
) -> tuple[Term, ...]:
    """What the update makes besides: with Adam the denominators, √v, of all parameters at once ('foreach'),
    or √v and its quotient of one after the other ('loop'); nothing where one kernel does it ('fused').

    Args:
        largest: Elements of the largest parameter.

    Raises:
        UnknownNameError: No such implementation.
    """
    if implementation not in OPTIMIZER_IMPLEMENTATIONS:
        raise UnknownNameError("optimizer implementation", implementation, OPTIMIZER_IMPLEMENTATIONS)
    if optimizer not in ("adam", "adamw") or implementation == "fused":
        return ()
    elements = num_parameters if implementation == "foreach" else 2 * largest
    return (Term(DENOMINATORS, Category.TEMPORARY, 4 * elements, f"{elements}·4", _SOURCE),)
