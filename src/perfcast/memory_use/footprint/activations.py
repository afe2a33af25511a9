"""What a layer keeps for its backward, tensor by tensor.

Published as a sum: s·b·h·(34 + 5·a·s/h) bytes for a GPT layer with dropout and the matrix of scores
(Korthikanti et al.: Reducing Activation Recomputation in Large Transformer Models, MLSys 2023, equation 1;
tensor parallelism equation 2, sequence parallelism equation 4, selective recomputation equation 6). The
list here has the same tensors one by one, so that other layers (gates, fewer key-value heads, latent
attention, experts, no dropout, flash attention) follow from the same derivation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfcast.core.model.heads import heads_of_rank
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.tuning.trained import Part, Tuning
from perfcast.core.tuning.weights import Adapter, layer_adapters, part_of_module
from perfcast.errors import PlanError
from perfcast.frameworks.profile import MemoryProfile


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that one layer keeps from its forward to its backward, in bytes of one rank."""

    name: str
    num_bytes: int


def element_bytes(training: Training) -> int:
    """Bytes of an activation."""
    return 4 if training.dtype in ("fp32", "tf32") else 2


def product_bytes(training: Training) -> float:
    """Bytes of an element that is kept for the weight gradient of a product, with its share of a scale."""
    form = training.precision.products
    return form.activation.bytes_per_element if form.is_narrow else element_bytes(training)


@dataclass(frozen=True, slots=True)
class Layout:
    """How one micro-batch lies on a rank.

    Attributes:
        tokens: Of one rank: micro-batch × sequence / context-parallel.
        norm_tokens: Of the parts cut along the sequence where sequence parallelism is on.
        element_bytes: Of an activation.
        product_bytes: Of an element that is kept for a weight's gradient, with its share of a scale.
    """

    tokens: int
    norm_tokens: int
    sequence_length: int
    micro_batch_size: int
    tensor_parallel: int
    context_parallel: int
    element_bytes: int
    product_bytes: float

    def rows(self, width: float) -> int:
        """Bytes of tokens × width, whole on the rank."""
        return round(self.element_bytes * self.tokens * width)

    def product_rows(self, width: float) -> int:
        """The same for what a product keeps of its input."""
        return round(self.product_bytes * self.tokens * width)

    def norm_rows(self, width: float) -> int:
        """Bytes of tokens × width between the products: cut along the sequence with sequence parallelism."""
        return round(self.element_bytes * self.norm_tokens * width)

    def norm_product_rows(self, width: float) -> int:
        """The same for what a product keeps of its input."""
        return round(self.product_bytes * self.norm_tokens * width)


def lay_out(plan: Plan, training: Training, sequence_length: int) -> Layout:
    """The layout of one micro-batch.

    Raises:
        PlanError: A sequence that context or sequence parallelism cannot cut.
    """
    cuts = plan.context_parallel * (plan.tensor_parallel if plan.sequence_parallel else 1)
    if sequence_length % cuts:
        raise PlanError(
            f"a sequence of {sequence_length} is no multiple of the {cuts} parts that cp and sp cut"
        )
    tokens = math.ceil(plan.micro_batch_size * sequence_length / plan.context_parallel)
    parts = plan.tensor_parallel if plan.sequence_parallel else 1
    return Layout(
        tokens=tokens,
        norm_tokens=math.ceil(tokens / parts),
        sequence_length=sequence_length,
        micro_batch_size=plan.micro_batch_size,
        tensor_parallel=plan.tensor_parallel,
        context_parallel=plan.context_parallel,
        element_bytes=element_bytes(training),
        product_bytes=product_bytes(training),
    )


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Which weights of a layer ask for the inputs of their products.

    The gradient of a weight is made from its product's input, that of the input from the weight: a frozen
    weight's input is not kept.

    Attributes:
        is_frozen: Whether the layer is frozen as a whole.
    """

    tuning: Tuning
    adapters: tuple[Adapter, ...]
    has_experts: bool
    is_frozen: bool

    def train(self, part: Part) -> bool:
        """Whether the model's own weights of a part do."""
        return not self.is_frozen and self.tuning.trains(part)

    def adapts(self, module: str) -> bool:
        """Whether adapters of a module keep its input; behind dropout they keep what that left."""
        return not self.drops and any(adapter.module == module for adapter in self.adapters)

    def keep_input(self, module: str) -> bool:
        """Whether the input of a module's products is kept for them or for adapters."""
        return self.train(part_of_module(module)) or self.adapts(module)

    @property
    def drops(self) -> bool:
        """Whether adapters drop some of their input."""
        return self.tuning.adapters is not None and self.tuning.adapters.dropout > 0


def layer_activations(
    model: Transformer,
    plan: Plan,
    training: Training,
    profile: MemoryProfile,
    layout: Layout,
    *,
    has_experts: bool,
    joins_projections: bool = False,
    is_frozen: bool = False,
) -> tuple[Saved, ...]:
    """All that a layer keeps where nothing is computed again.

    Args:
        joins_projections: Whether the program makes queries, keys and values by one product.
        is_frozen: Whether the layer is frozen as a whole.
    """
    adapters = layer_adapters(
        model,
        plan,
        training.tuning.adapters,
        has_experts=has_experts,
        joins_projections=joins_projections,
    )
    weights = LayerWeights(training.tuning, adapters, has_experts, is_frozen)
    mlp = (
        _experts(model, plan, layout, weights)
        if weights.has_experts
        else _mlp(model, profile, layout, weights)
    )
    saved = [*_attention(model, plan, training, profile, layout, weights), *mlp, *_adapters(layout, weights)]
    if profile.further_width:
        width = profile.further_width * model.hidden_size / layout.tensor_parallel
        saved.append(Saved("further activations, found by measuring", layout.rows(width)))
    return tuple(saved)


def _adapters(layout: Layout, weights: LayerWeights) -> list[Saved]:
    """tokens × rank between the matrices of each; behind dropout its mask and what it leaves of the input."""
    if not weights.adapters:
        return []
    saved = [Saved("between adapters", sum(layout.rows(adapter.rank) for adapter in weights.adapters))]
    if weights.drops:
        inputs = sum(adapter.inputs for adapter in weights.adapters)
        saved.append(Saved("inputs of adapters behind dropout", layout.rows(inputs)))
        saved.append(Saved("dropout masks of adapters", layout.tokens * inputs))
    return saved


def _stream_input(
    name: str, module: str, model: Transformer, layout: Layout, weights: LayerWeights
) -> list[Saved]:
    """What products of the stream keep of it; an adapter keeps it as the products read it, gathered."""
    size = model.hidden_size
    if weights.adapts(module):
        return [Saved(name, layout.rows(size))]
    return [Saved(name, layout.norm_product_rows(size))] if weights.keep_input(module) else []


def _attention(
    model: Transformer,
    plan: Plan,
    training: Training,
    profile: MemoryProfile,
    layout: Layout,
    weights: LayerWeights,
) -> list[Saved]:
    latent = model.latent_attention is not None
    projection = "attention.queries" if latent else "attention.qkv"
    saved = [
        Saved("input of the attention norm", layout.norm_rows(model.hidden_size)),
        *_stream_input("input of attention", projection, model, layout, weights),
    ]
    if latent:
        saved += _latent_projections(model, layout)
    heads = heads_of_rank(model, layout.tensor_parallel)
    saved += [
        Saved("queries", layout.rows(heads.query_width)),
        Saved("keys", layout.rows(heads.key_width)),
        Saved("values", layout.rows(heads.value_width)),
    ]
    if profile.keeps_joint_qkv:
        rest = layout.rows(heads.key_width + heads.value_width)
        saved.append(Saved("the rest of the joint projection", rest))
    saved += attention_core(model, training, layout)
    output_width = heads.output_width
    saved.append(Saved("output of attention", layout.rows(output_width)))
    if layout.context_parallel > 1:
        saved.append(Saved("output of attention before its all-to-all", layout.rows(output_width)))
    elif training.precision.products.is_narrow and weights.train("attention"):
        saved.append(Saved(f"output of attention in {training.dtype}", layout.product_rows(output_width)))
    if profile.keeps_joint_qkv and layout.micro_batch_size > 1 and weights.keep_input("attention.output"):
        saved.append(Saved("output of attention, transposed", layout.rows(output_width)))
    return [*saved, *_dropout_mask(model, layout, "attention")]


def attention_core(model: Transformer, training: Training, layout: Layout) -> list[Saved]:
    """What attention keeps of its scores, and selective recomputation makes again."""
    heads = heads_of_rank(model, layout.tensor_parallel).queries
    if training.attention == "flash":
        return [Saved("row statistics of attention", 4 * layout.tokens * heads)]
    pairs = layout.tokens * layout.sequence_length * heads
    scores = [Saved("softmax of the scores", layout.element_bytes * pairs)]
    if model.has_attention_dropout:
        scores.append(Saved("dropout mask of the scores", pairs))
        scores.append(Saved("scores after dropout", layout.element_bytes * pairs))
    return scores


def _latent_projections(model: Transformer, layout: Layout) -> list[Saved]:
    latent = model.latent_attention
    assert latent is not None
    saved = []
    if latent.query_rank is not None:
        saved.append(
            Saved("compressed queries before and after their norm", 2 * layout.rows(latent.query_rank))
        )
    saved.append(
        Saved(
            "compressed keys and values before and after their norm",
            layout.rows(2 * latent.kv_rank + latent.rope_head_size),
        )
    )
    return saved


def _dropout_mask(model: Transformer, layout: Layout, where: str) -> list[Saved]:
    if not model.has_dropout:
        return []
    return [Saved(f"dropout mask behind {where}", layout.norm_tokens * model.hidden_size)]


def _mlp(model: Transformer, profile: MemoryProfile, layout: Layout, weights: LayerWeights) -> list[Saved]:
    gates = 2 if model.is_gated else 1
    width = model.ffn_hidden_size / layout.tensor_parallel
    saved = [
        Saved("input of the MLP norm", layout.norm_rows(model.hidden_size)),
        *_stream_input("input of the MLP", "mlp.up", model, layout, weights),
        *_inner_input("input of MLP down", "mlp.down", width, layout, weights),
    ]
    if model.activation != "relu":  # whose backward reads its output
        saved.append(Saved("input of the activation", layout.rows(gates * width)))
    if model.is_gated and profile.keeps_gate:
        saved.append(Saved("the gate behind its activation", layout.rows(width)))
    return [*saved, *_dropout_mask(model, layout, "the MLP")]


def _inner_input(name: str, module: str, width: float, layout: Layout, weights: LayerWeights) -> list[Saved]:
    """What the second product of an MLP keeps of its input."""
    if weights.adapts(module):
        return [Saved(name, layout.rows(width))]
    return [Saved(name, layout.product_rows(width))] if weights.keep_input(module) else []


def _experts(model: Transformer, plan: Plan, layout: Layout, weights: LayerWeights) -> list[Saved]:
    """Tokens spread evenly over the experts; each visits ``experts_per_token`` of them."""
    experts = model.experts
    assert experts is not None
    gates = 2 if model.is_gated else 1
    width = experts.ffn_hidden_size / plan.tensor_parallel_of_experts
    gathered = expert_visits(experts, plan, layout)
    size = layout.element_bytes
    reads_stream = any(weights.train(part) for part in ("router", "experts", "mlp"))
    saved = [Saved("input of the MLP norm", layout.norm_rows(model.hidden_size))]
    if reads_stream or weights.adapts("shared.up"):
        saved.append(Saved("input of router and experts", layout.norm_rows(model.hidden_size)))
    saved.append(Saved("scores of the router", 3 * 4 * layout.norm_tokens * experts.num_experts))
    if weights.train("experts"):
        saved.append(
            Saved("tokens sent to experts", round(layout.product_bytes * gathered * model.hidden_size))
        )
        saved.append(Saved("input of experts down", round(layout.product_bytes * gathered * width)))
    saved.append(Saved("input of the experts' activation", round(size * gathered * gates * width)))
    saved += _dropout_mask(model, layout, "the MLP")
    if experts.shared_ffn_hidden_size:
        shared = experts.shared_ffn_hidden_size / layout.tensor_parallel
        saved.append(Saved("input of the shared experts' activation", layout.rows(gates * shared)))
        saved += _inner_input("input of shared experts down", "shared.down", shared, layout, weights)
    return saved


def expert_visits(experts: Experts, plan: Plan, layout: Layout) -> float:
    """Rows of the busiest rank's experts, as its time counts them: tokens cut by tensor parallelism,
    gathered by that of experts."""
    own = layout.tokens / layout.tensor_parallel
    return experts.experts_per_token * own * plan.tensor_parallel_of_experts * plan.expert_load


def layer_bytes(saved: tuple[Saved, ...]) -> int:
    """Sum of a layer."""
    return sum(item.num_bytes for item in saved)
