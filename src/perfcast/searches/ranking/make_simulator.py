"""What the shown plans of a search are played with, by the program that runs their steps."""

from __future__ import annotations

from perfcast.core.mode import Method
from perfcast.prediction.step.timer import make_timer
from perfcast.searches.ranking.captured import CapturedSimulator
from perfcast.searches.ranking.simulator import Simulator
from perfcast.searches.resolve import ResolvedSearch


def make_simulator(search: ResolvedSearch, method: Method = "simulated") -> Simulator | CapturedSimulator:
    """Of kernels built from the model's sizes, or of its own modules.

    Args:
        method: 'simulated' or 'closed_form'.
    """
    training = search.request.training
    if search.is_captured:
        return CapturedSimulator(
            search.model,
            training,
            search.sequence_length,
            search.cluster,
            search.cost_model,
            search.constants,
            method,
            search.request.max_memory_fraction * search.device.memory_bytes,
        )
    return Simulator(
        search.sizes,
        training,
        search.sequence_length,
        search.cluster,
        search.device,
        search.cost_model,
        make_timer(method, "train", training, search.cost_model, search.constants),
    )
