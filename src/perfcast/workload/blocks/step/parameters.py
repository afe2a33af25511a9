"""What a rank holds of a layer or an end of a model: what travels, and what trains."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.model.attention_weights import Weight, count_elements
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.tuning.trained import NF4_BYTES
from perfcast.core.tuning.weights import Adapter, layer_adapters, split_weights
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.blocks.local import weight_type
from perfcast.workload.blocks.step.data_parallel import ParameterCounts


@dataclass(frozen=True, slots=True)
class HeldParameters:
    """Parameters of a layer or an end on a rank.

    Attributes:
        held: All, in elements as the products read them: those in four bits count by their bytes.
        trained: Those that have gradients.
        num_tensors: Of the trained ones.
        num_norms: Elements of trained norms.
    """

    held: ParameterCounts
    trained: ParameterCounts
    num_tensors: int
    num_norms: int

    def gathered(self, plan: Plan) -> ParameterCounts:
        """What is collected from its shards: with ZeRO 3 everything, else what an update changed."""
        return self.held if plan.zero_stage == 3 else self.trained


def hold(
    training: Training,
    weights: tuple[Weight, ...],
    adapters: tuple[Adapter, ...] = (),
    *,
    is_frozen: bool = False,
) -> HeldParameters:
    """Count the weights of a layer or an end, and the adapters beside them.

    Args:
        is_frozen: Whether they are of a layer that is frozen as a whole.
    """
    split = split_weights(training.tuning, weights, adapters, is_frozen=is_frozen)
    narrow = NF4_BYTES / weight_type(training).bytes_of(1)
    held = _counts((*split.trained, *split.frozen)) + _counts(split.quantised).scaled(narrow)
    return HeldParameters(
        held=held,
        trained=_counts(split.trained),
        num_tensors=sum(w.count for w in split.trained),
        num_norms=sum(w.num_elements for w in split.trained if "norm" in w.name),
    )


def adapters_of_layer(
    model: Transformer, plan: Plan, training: Training, *, has_experts: bool
) -> tuple[Adapter, ...]:
    """Adapters of one layer as the training's program joins its products."""
    joins = load_training_profile(training.framework).kernels.joins_projections
    return layer_adapters(
        model, plan, training.tuning.adapters, has_experts=has_experts, joins_projections=joins
    )


def _counts(weights: tuple[Weight, ...]) -> ParameterCounts:
    return ParameterCounts(count_elements(weights, is_expert=False), count_elements(weights, is_expert=True))
