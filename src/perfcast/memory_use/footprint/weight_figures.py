"""Weights that a rank holds of each part of a model, under many plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from perfcast.core.arrays import Floats
from perfcast.core.model.attention_weights import Weight
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import embedding_weights, head_weights, kinds_of_layer, pad_vocabulary
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable
from perfcast.core.tuning.trained import FULL, NF4_BYTES, Tuning
from perfcast.core.tuning.weights import Adapter, SplitWeights, layer_adapters, split_weights
from perfcast.memory_use.footprint.combinations import ByCombination, Combinations

#: Columns on which the cut of a weight depends.
_DEGREES = ("tensor_parallel", "expert_parallel", "expert_tensor_parallel")
_OUTSIDE = ("embedding", "head", "head_alone")

#: Weights by the names of ``PartFigures``.
Parts = Mapping[str, tuple[Weight, ...]]


@dataclass(frozen=True, eq=False, slots=True)
class PartFigures:
    """A figure of each part of a model on a rank; shape [n] or, by combination, [k] each.

    Attributes:
        dense_layer: A layer without experts.
        shared_layer, experts: A layer with experts: all but them, and those of this rank.
        head: Behind a pipeline, where it has a table of its own.
        head_alone: Where a rank holds the embedding too: without the table, if it is tied.
    """

    dense_layer: Floats
    shared_layer: Floats
    experts: Floats
    embedding: Floats
    head: Floats
    head_alone: Floats


@dataclass(frozen=True, eq=False, slots=True)
class KindFigures:
    """A figure of layers without experts, with them, and of both; shape [n] or, by combination, [k] each."""

    dense: Floats
    expert: Floats
    both: Floats


@dataclass(frozen=True, eq=False, slots=True)
class WeightFigures:
    """Weights of a rank under n plans.

    Attributes:
        elements: Parameters, adapters among them.
        trained: Those that have gradients, in layers that are not frozen as a whole.
        frozen, quantised: Of a model beside adapters: those kept in the products' format, and in four bits.
        travelling: All in elements as the products read them: those in four bits count by their bytes.
        widest: Elements of the largest matrix in four bits, which is widened for a product; shape [n].
        moment_bytes: Of the optimizer, where they depend on the shape of a weight (``moment_bytes``); else 0.
        table: Elements of the embedding's table, or of the head's; shape [n].
        shape_elements: Of one matrix of each shape that the layers have.
        num_shapes: Those shapes.
    """

    elements: PartFigures
    trained: PartFigures
    frozen: PartFigures
    quantised: PartFigures
    travelling: PartFigures
    moment_bytes: PartFigures
    widest: Floats
    table: Floats
    shape_elements: KindFigures
    num_shapes: KindFigures


def weight_figures(
    model: Transformer,
    plans: PlanTable,
    *,
    vocabulary_multiple: int = 1,
    optimizer: str = "none",
    tuning: Tuning = FULL,
    joins_projections: bool = False,
    compute_weight_bytes: int = 2,
) -> ByCombination[WeightFigures]:
    """Weights as the plans cut them.

    Args:
        vocabulary_multiple: What the vocabulary is padded to a multiple of, times the tensor parallelism.
        tuning: Which of them train.
        joins_projections: Whether the program makes queries, keys and values by one product.
        compute_weight_bytes: Of a parameter as the forward reads it.

    Raises:
        PlanError: A degree that does not divide what it cuts.
    """

    @cache
    def whole(plan: Plan) -> Parts:
        return _parts(model, plan, vocabulary_multiple)

    @cache
    def split(plan: Plan) -> Mapping[str, SplitWeights]:
        return _split(model, plan, whole(plan), tuning, joins_projections=joins_projections)

    def some(plan: Plan, fate: str) -> Parts:
        return {name: getattr(weights, fate) for name, weights in split(plan).items()}

    def trained(plan: Plan) -> Parts:
        return some(plan, "trained")

    def of_all(figure: Callable[[Plan], Mapping[str, float]]) -> PartFigures:
        return PartFigures(**cuts.columns(figure))

    cuts = Combinations(plans, _DEGREES)
    figures = WeightFigures(
        elements=of_all(lambda plan: _elements_of(split(plan))),
        trained=of_all(lambda plan: count_parts(trained(plan), _elements)),
        frozen=of_all(lambda plan: count_parts(some(plan, "frozen"), _elements)),
        quantised=of_all(lambda plan: count_parts(some(plan, "quantised"), _elements)),
        travelling=of_all(lambda plan: _elements_of(split(plan), NF4_BYTES / compute_weight_bytes)),
        moment_bytes=of_all(lambda plan: moment_bytes(trained(plan), optimizer)),
        widest=cuts.columns(lambda plan: {"widest": _widest(some(plan, "quantised"))})["widest"],
        table=cuts.columns(lambda plan: {"table": whole(plan)["embedding"][0].num_elements})["table"],
        shape_elements=KindFigures(**cuts.columns(lambda plan: shapes(trained(plan), _area))),
        num_shapes=KindFigures(**cuts.columns(lambda plan: shapes(trained(plan), _one))),
    )
    return ByCombination(figures, cuts.place)


def _split(
    model: Transformer, plan: Plan, parts: Parts, tuning: Tuning, *, joins_projections: bool
) -> dict[str, SplitWeights]:
    """Weights of each part by what happens to them, adapters beside those of the layers."""

    def adapters(has_experts: bool) -> tuple[Adapter, ...]:
        own = tuning.adapters
        return layer_adapters(model, plan, own, has_experts=has_experts, joins_projections=joins_projections)

    beside = {"dense_layer": adapters(False)}
    if model.experts is not None:
        beside["shared_layer"] = adapters(True)
    return {name: split_weights(tuning, weights, beside.get(name, ())) for name, weights in parts.items()}


def _elements_of(parts: Mapping[str, SplitWeights], of_quantised: float = 1.0) -> dict[str, float]:
    """All elements of each part; those in four bits by a factor."""
    found: dict[str, float] = {}
    for name, weights in parts.items():
        own = sum(map(_elements, (*weights.trained, *weights.frozen)))
        found[name] = own + math.ceil(of_quantised * sum(map(_elements, weights.quantised)))
    return found


def _widest(parts: Parts) -> float:
    """Elements of the largest matrix; all experts of a rank are widened at once."""
    return max((weight.num_elements for weights in parts.values() for weight in weights), default=0)


def _parts(model: Transformer, plan: Plan, vocabulary_multiple: int) -> Parts:
    dense, expert = kinds_of_layer(model, plan)
    degree = plan.tensor_parallel
    vocabulary = pad_vocabulary(model.vocab_size, degree, vocabulary_multiple)
    return {
        "dense_layer": dense,
        "shared_layer": tuple(weight for weight in expert if not weight.is_expert),
        "experts": tuple(weight for weight in expert if weight.is_expert),
        "embedding": embedding_weights(model, degree, vocabulary),
        "head": head_weights(model, degree, vocabulary, has_table=True),
        "head_alone": head_weights(model, degree, vocabulary, has_table=not model.ties_embeddings),
    }


def count_parts(parts: Parts, figure: Callable[[Weight], int]) -> dict[str, float]:
    """Sum of a figure over the weights of each part."""
    return {name: sum(map(figure, weights)) for name, weights in parts.items()}


def _elements(weight: Weight) -> int:
    return weight.num_elements


def moment_bytes(parts: Parts, optimizer: str) -> dict[str, float]:
    """Bytes that an optimizer keeps to which a matrix is more than its elements; 0 for others.

    'muon': one momentum of the layers' matrices, Adam's two of all else (Jordan et al., 2024).
    'adafactor': a number for each row and column (Shazeer and Stern, ICML 2018, section 3).
    """
    by_shape = {"muon": _momentum_bytes, "adafactor": _factored_bytes}.get(optimizer)
    if by_shape is None:
        return count_parts(parts, lambda weight: 0)
    found = count_parts(parts, by_shape)
    if optimizer == "muon":
        found |= count_parts({name: parts[name] for name in _OUTSIDE}, lambda weight: 8 * weight.num_elements)
    return found


def _momentum_bytes(weight: Weight) -> int:
    return (4 if weight.columns > 1 else 8) * weight.num_elements


def _factored_bytes(weight: Weight) -> int:
    return 4 * weight.count * (weight.rows + (weight.columns if weight.columns > 1 else 0))


def _area(rows: int, columns: int) -> int:
    return rows * columns


def _one(rows: int, columns: int) -> int:
    return 1


def shapes(parts: Parts, figure: Callable[[int, int], int]) -> dict[str, float]:
    """Sum of a figure over the different shapes of the layers' matrices but routers and adapters."""
    dense, expert = (
        {
            (w.rows, w.columns)
            for name in names
            for w in parts[name]
            if w.columns > 1 and w.name != "router" and "adapter" not in w.name
        }
        for names in (("dense_layer",), ("shared_layer", "experts"))
    )
    kinds = {"dense": dense, "expert": expert, "both": dense | expert}
    return {kind: sum(figure(*shape) for shape in found) for kind, found in kinds.items()}
