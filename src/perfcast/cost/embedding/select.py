"""Which cost of embedding lookups a device has."""

from __future__ import annotations

from perfcast.core.machine.hardware import Device
from perfcast.cost.embedding.heuristic import HeuristicEmbeddingPricer
from perfcast.cost.embedding.learned import load_learned_pricer
from perfcast.cost.embedding.model import EmbeddingPricer
from perfcast.errors import UnknownNameError

EMBEDDING_COSTS = ("heuristic", "learned")


def embedding_pricer(device: Device, *, optimizer: str = "sgd", name: str | None = None) -> EmbeddingPricer:
    """A pricer by name; by default 'learned' for a processor and 'heuristic' for everything else.

    Raises:
        UnknownNameError: No such cost, or an optimizer that it does not know.
        PlanError: 'heuristic' for a processor, 'learned' for anything else.
        CalibrationError: The fitted weights cannot be read.
    """
    chosen = name or ("learned" if device.is_cpu else "heuristic")
    if chosen == "learned":
        return load_learned_pricer(device, optimizer)
    if chosen == "heuristic":
        return HeuristicEmbeddingPricer(device, optimizer)
    raise UnknownNameError("embedding cost", chosen, EMBEDDING_COSTS, f"Known: {', '.join(EMBEDDING_COSTS)}.")
