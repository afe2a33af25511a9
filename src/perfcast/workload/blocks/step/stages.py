"""Which layers each part of the model has, where a part is a pipeline stage or one of its virtual stages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from perfcast.core.plan import Plan
from perfcast.core.transformer import Transformer
from perfcast.core.weights import layers_of_parts


@dataclass(frozen=True, slots=True)
class LayerSort:
    """What tells one layer from another."""

    has_experts: bool
    has_window: bool
    #: Whether it keeps all for its backward, in a plan that computes other layers again.
    keeps_all: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A row of layers, by their sorts; and whether it begins with the embedding or ends with the head."""

    layers: tuple[tuple[LayerSort, int], ...]
    has_embedding: bool
    has_head: bool


def split_model(model: Transformer, plan: Plan, *, balances: bool) -> tuple[Part, ...]:
    """All parts in the order of the model.

    Args:
        balances: Whether the head counts when layers are dealt out (``core.weights.balance_layers``).

    Raises:
        PlanError: Stages whose layers do not add up to the model's; fewer layers than parts.
    """
    counts = layers_of_parts(model, plan, balances_head=balances)
    parts, first = [], 0
    for place, count in enumerate(counts):
        again = count if plan.recompute_layers is None else plan.recompute_layers
        sorts = Counter(
            _sort_of(model, first + at, keeps_all=at >= again and plan.recompute == "full")
            for at in range(count)
        )
        is_last = place == len(counts) - 1
        if is_last and model.num_prediction_layers:
            keeps_all = plan.recompute_layers is not None
            sorts[_sort_of(model, model.num_layers - 1, keeps_all=keeps_all)] += model.num_prediction_layers
        parts.append(Part(tuple(sorts.items()), has_embedding=place == 0, has_head=is_last))
        first += count
    return tuple(parts)


def _sort_of(model: Transformer, layer: int, *, keeps_all: bool) -> LayerSort:
    """Experts follow the dense layers; windows are spread evenly over all."""
    num_windows = model.num_window_layers
    has_window = (layer + 1) * num_windows // model.num_layers > layer * num_windows // model.num_layers
    return LayerSort(
        has_experts=model.experts is not None and layer >= model.experts.num_dense_layers,
        has_window=has_window,
        keeps_all=keeps_all,
    )
