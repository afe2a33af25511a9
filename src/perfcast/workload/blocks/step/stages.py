"""Which layers each part of the model has, where a part is a pipeline stage or one of its virtual stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.core.model.layer import num_linear_before
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import layers_of_parts
from perfcast.core.plan import Plan
from perfcast.core.tuning.trained import FULL, Tuning
from perfcast.core.work import LayerRun
from perfcast.workload.blocks.ends.training import EMBEDDING, HEAD, PREDICTION


@dataclass(frozen=True, slots=True)
class LayerSort:
    """What tells one layer from another."""

    has_experts: bool
    has_window: bool
    #: Whether linear attention stands in attention's place.
    has_linear: bool = False
    #: Whether it keeps all for its backward, in a plan that computes other layers again.
    keeps_all: bool = False
    #: Whether its weights stay as they are, as a whole.
    is_frozen: bool = False
    #: Whether no gradient reaches it: it has no backward.
    is_idle: bool = False

    @property
    def name(self) -> str:
        """In words."""
        kind = "expert layer" if self.has_experts else "layer"
        frozen = "idle " if self.is_idle else "frozen " * self.is_frozen
        attends = "linear " if self.has_linear else "windowed " * self.has_window
        return f"{frozen}{'kept ' * self.keeps_all}{attends}{kind}"


#: A sort of layer, or an end of the model by its name.
LayerKey = LayerSort | str


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A row of layers, by their sorts; and whether it begins with the embedding or ends with the head.

    Attributes:
        num_predictions: Layers that predict a token further, which stand before the head.
    """

    layers: tuple[tuple[LayerSort, int], ...]
    has_embedding: bool
    has_head: bool
    num_predictions: int = 0

    def contents(self) -> tuple[tuple[LayerKey, int], ...]:
        """Ends and layers in order, each with how many stand in a row."""
        held: list[tuple[LayerKey, int]] = [(EMBEDDING, 1)] if self.has_embedding else []
        held += self.layers
        if self.num_predictions:
            held.append((PREDICTION, self.num_predictions))
        return (*held, (HEAD, 1)) if self.has_head else tuple(held)


def split_model(
    model: Transformer, plan: Plan, *, balances: bool, tuning: Tuning = FULL
) -> tuple[ModelPart, ...]:
    """All parts in the order of the model.

    Args:
        balances: Whether the head counts when layers are dealt out (``core.model.weights.balance_layers``).
        tuning: Which layers train.

    Raises:
        PlanError: Stages whose layers do not add up to the model's; fewer layers than parts.
    """
    counts = layers_of_parts(model, plan, balances_head=balances)
    parts, first = [], 0
    for place, count in enumerate(counts):
        again = count if plan.recompute_layers is None else plan.recompute_layers
        sorts = Counter(
            _sort_of(model, tuning, first + at, keeps_all=at >= again and plan.recompute == "full")
            for at in range(count)
        )
        is_last = place == len(counts) - 1
        further = model.num_prediction_layers if is_last else 0
        if further:
            keeps_all = plan.recompute_layers is not None
            sorts[_sort_of(model, tuning, model.num_layers - 1, keeps_all=keeps_all)] += further
        parts.append(ModelPart(tuple(sorts.items()), place == 0, is_last, further))
        first += count
    return tuple(parts)


def runs_of(part: ModelPart, order: Mapping[LayerKey, int]) -> tuple[LayerRun, ...]:
    """The runs of a part; ``order``: the place of each different layer in its step."""
    return tuple(LayerRun(order[key], count) for key, count in part.contents())


def _sort_of(model: Transformer, tuning: Tuning, layer: int, *, keeps_all: bool) -> LayerSort:
    """Experts follow the dense layers; windows are spread evenly over all."""
    num_windows = model.num_window_layers
    has_window = (layer + 1) * num_windows // model.num_layers > layer * num_windows // model.num_layers
    is_idle = not tuning.has_gradient(layer)
    return LayerSort(
        has_experts=model.experts is not None and layer >= model.experts.num_dense_layers,
        has_window=has_window,
        has_linear=num_linear_before(model, layer + 1) > num_linear_before(model, layer),
        keeps_all=keeps_all and not is_idle,
        is_frozen=tuning.freezes_layer(layer),
        is_idle=is_idle,
    )
