"""The weights that one rank holds: matrices and vectors, cut as tensor and expert parallelism cut them.

A column-parallel matrix is cut along its outputs, a row-parallel one along its inputs; norms, routers and the
down-projections of latent attention are whole on every rank (Shoeybi et al.: Megatron-LM, 2019, section 3;
Liu et al.: DeepSeek-V2, 2024, section 2.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from perfcast.core.model.attention_weights import (
    Weight,
    attention_weights,
    count_elements,
    linear_excess,
    norm_weight,
    vector,
)
from perfcast.core.model.layer import layer_parts, num_linear_before
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Plan
from perfcast.errors import PlanError


@dataclass(frozen=True, slots=True)
class StageWeights:
    """What a rank of a stage holds; the embedding and the head apart, since they are used differently.

    Attributes:
        num_linear_layers: Of both kinds, those with linear attention.
        linear_layer_excess: Elements that one of them holds beyond a layer with full attention.
    """

    num_dense_layers: int
    num_expert_layers: int
    dense_layer: tuple[Weight, ...]
    expert_layer: tuple[Weight, ...]
    embedding: tuple[Weight, ...]
    head: tuple[Weight, ...]
    holds_head: bool
    num_linear_layers: int = 0
    linear_layer_excess: int = 0

    @property
    def num_layers(self) -> int:
        """Layers of both kinds."""
        return self.num_dense_layers + self.num_expert_layers

    @property
    def num_dense_elements(self) -> int:
        """Parameters that every rank of a tensor-parallel group has its part of."""
        return (
            self.num_dense_layers * count_elements(self.dense_layer)
            + self.num_expert_layers * count_elements(self.expert_layer, is_expert=False)
            + count_elements(self.embedding)
            + count_elements(self.head)
            + self.num_linear_layers * self.linear_layer_excess
        )

    @property
    def num_expert_elements(self) -> int:
        """Parameters of experts, which have groups of their own."""
        return self.num_expert_layers * count_elements(self.expert_layer, is_expert=True)


def count_parameters(model: Transformer) -> int:
    """Parameters of the whole model; tied ones once."""
    whole = stage_weights(model, Plan(), 0, vocab_size=model.vocab_size)
    return whole.num_dense_elements + whole.num_expert_elements


def pad_vocabulary(vocab_size: int, tensor_parallel: int, multiple: int) -> int:
    """Rows of the embedding: padded up to what divides over the ranks (Megatron-LM's rule)."""
    step = multiple * tensor_parallel
    return math.ceil(vocab_size / step) * step


def split_layers(num_layers: int, num_stages: int) -> tuple[int, ...]:
    """Layers of each stage: equal; else one fewer in the first and the last, if that leaves equal ones
    between them; else one more in the first ones.

    Embedding and head then count as a layer each (Megatron-LM:
    --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split; torchtitan:
    distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part; The Llama 3 Herd of Models, 2024,
    section 3.3.2).

    Raises:
        PlanError: Fewer layers than stages.
    """
    if _ends_count_as_layers(num_layers, num_stages) and num_layers >= num_stages:
        return _with_short_ends(num_layers, num_stages)
    if num_layers < num_stages:
        raise PlanError(f"pp={num_stages} stages need at least as many layers; the model has {num_layers}")
    return split_evenly(num_layers, num_stages)


def _with_short_ends(num_layers: int, num_parts: int) -> tuple[int, ...]:
    each = (num_layers + 2) // num_parts
    return (each - 1, *(each,) * (num_parts - 2), each - 1)


def _ends_count_as_layers(num_layers: int, num_parts: int) -> bool:
    """Whether layers are dealt out equally only if embedding and head count as one each."""
    return num_parts > 1 and num_layers % num_parts != 0 and (num_layers + 2) % num_parts == 0


def balance_layers(model: Transformer, num_stages: int) -> tuple[int, ...]:
    """Layers of each stage where the head's product counts as well; late stages may have none.

    A stage takes layers until its share of all multiplications is passed (nanotron: models/base.py,
    build_model; the cost of a block is its number of weights).
    """
    head = model.vocab_size * model.hidden_size
    layer = sum(w.num_elements for w in _dense_layer(model, 1) if w.columns > 1)
    whole = layer * model.num_layers + head
    counts, stage, passed = [0] * num_stages, 0, 0
    for _ in range(model.num_layers):
        counts[stage] += 1
        passed += layer
        if stage < num_stages - 1 and passed * num_stages > whole * (stage + 1):
            stage += 1
    return tuple(counts)


def layers_of_parts(model: Transformer, plan: Plan, *, balances_head: bool = False) -> tuple[int, ...]:
    """Layers of each part of the model, in its order: part c · pp + s is chunk c of stage s.

    Args:
        balances_head: Whether the head counts when layers are dealt out (``balance_layers``), where the plan
            does not state them and stages hold one chunk.

    Raises:
        PlanError: Fewer layers than parts, or stated ones that do not add up to the model's.
    """
    stages, chunks = plan.pipeline_parallel, plan.virtual_stages_per_rank
    stated = plan.stage_layers
    if not stated:
        if balances_head and chunks == 1:
            return balance_layers(model, stages)
        if chunks > 1 and _ends_count_as_layers(model.num_layers, stages * chunks):
            return _with_short_ends(model.num_layers, stages * chunks)
        if chunks == 1 or not _ends_count_as_layers(model.num_layers, stages):
            return split_layers(model.num_layers, stages * chunks)
        stated = split_layers(model.num_layers, stages)
    if sum(stated) != model.num_layers:
        terms = " + ".join(map(str, stated))
        raise PlanError(f"stages of {terms} = {sum(stated)} layers; the model has {model.num_layers}")
    if len(stated) == stages * chunks:
        return stated
    cut = [split_evenly(count, chunks) for count in stated]
    return tuple(cut[stage][chunk] for chunk in range(chunks) for stage in range(stages))


def split_evenly(count: int, parts: int) -> tuple[int, ...]:
    """Equal, or one more in the first ones.

    >>> split_evenly(7, 3)
    (3, 2, 2)
    """
    each, more = divmod(count, parts)
    return tuple(each + (part < more) for part in range(parts))


def layers_of_stages(model: Transformer, plan: Plan, *, balances_head: bool = False) -> tuple[int, ...]:
    """Layers of each stage, all its chunks together.

    Raises:
        PlanError: See ``layers_of_parts``.
    """
    if plan.virtual_stages_per_rank > 1 and not plan.stage_layers:
        return split_layers(model.num_layers, plan.pipeline_parallel)
    parts = layers_of_parts(model, plan, balances_head=balances_head)
    return tuple(sum(parts[stage :: plan.pipeline_parallel]) for stage in range(plan.pipeline_parallel))


@lru_cache(maxsize=4096)
def stage_weights(
    model: Transformer, plan: Plan, stage: int, *, vocab_size: int, layers: tuple[int, ...] | None = None
) -> StageWeights:
    """Weights of a rank of one pipeline stage.

    Args:
        vocab_size: Rows of the embedding, padding included.
        layers: Layers of each stage; None splits evenly.

    Raises:
        PlanError: A degree that does not divide what it cuts; the message has the numbers.
    """
    dense, expert = kinds_of_layer(model, plan)
    layers = layers or split_layers(model.num_layers, plan.pipeline_parallel)
    first, count = sum(layers[:stage]), layers[stage]
    num_dense = model.num_layers if model.experts is None else model.experts.num_dense_layers
    dense_here = max(0, min(first + count, num_dense) - first)
    is_last = stage == plan.pipeline_parallel - 1
    tensor_parallel = plan.tensor_parallel
    extra = model.num_prediction_layers if is_last else 0
    has_table = not (model.ties_embeddings and plan.pipeline_parallel == 1)
    return StageWeights(
        num_dense_layers=dense_here + (0 if model.experts else extra),
        num_expert_layers=count - dense_here + (extra if model.experts else 0),
        dense_layer=dense,
        expert_layer=expert,
        embedding=embedding_weights(model, tensor_parallel, vocab_size) if stage == 0 else (),
        head=head_weights(model, tensor_parallel, vocab_size, has_table=has_table) if is_last else (),
        holds_head=is_last,
        num_linear_layers=num_linear_before(model, first + count) - num_linear_before(model, first),
        linear_layer_excess=linear_excess(model, tensor_parallel),
    )


@lru_cache(maxsize=64)
def kinds_of_layer(model: Transformer, plan: Plan) -> tuple[tuple[Weight, ...], tuple[Weight, ...]]:
    """A dense layer and one with experts, which are the same in all stages."""
    check_degrees(model, plan)
    return _dense_layer(model, plan.tensor_parallel), _expert_layer(model, plan)


def check_degrees(model: Transformer, plan: Plan) -> None:
    """Refuse a plan that cannot cut this model.

    Raises:
        PlanError: The equation that fails, with its numbers.
    """
    tensor_parallel = plan.tensor_parallel
    if model.num_attention_heads % tensor_parallel:
        raise PlanError(f"tp={tensor_parallel} does not divide {model.num_attention_heads} attention heads")
    if model.num_kv_heads % tensor_parallel and tensor_parallel % model.num_kv_heads:
        raise PlanError(
            f"tp={tensor_parallel} neither divides {model.num_kv_heads} kv heads nor is a multiple of them"
        )
    _check_context(model, plan)
    linear = model.linear_attention
    if linear is not None and linear.num_key_heads % tensor_parallel:
        raise PlanError(
            f"tp={tensor_parallel} does not divide {linear.num_key_heads} key heads of linear layers"
        )
    if model.ffn_hidden_size % tensor_parallel:
        raise PlanError(f"tp={tensor_parallel} does not divide an MLP of {model.ffn_hidden_size}")
    if model.experts is None:
        if plan.expert_parallel > 1:
            raise PlanError(f"ep={plan.expert_parallel}: the model has no experts")
    else:
        _check_expert_degrees(model.experts, plan)
    stages = plan.pipeline_parallel * plan.virtual_stages_per_rank
    too_few = model.num_layers < stages and not _ends_count_as_layers(model.num_layers, stages)
    if plan.virtual_stages_per_rank > 1 and not plan.stage_layers and too_few:
        raise PlanError(
            f"pp={plan.pipeline_parallel} · vp={plan.virtual_stages_per_rank} = {stages} chunks need at "
            f"least as many layers; the model has {model.num_layers}"
        )


def _check_context(model: Transformer, plan: Plan) -> None:
    """Where heads are traded for sequence, they must divide once more; keys and values travel uncut."""
    heads = model.num_attention_heads // plan.tensor_parallel
    if plan.context_communication == "ulysses" and heads % plan.context_parallel:
        raise PlanError(
            f"cp={plan.context_parallel} does not divide the {heads} attention heads of a rank, which "
            "cp_type=ulysses trades for sequence"
        )


def _check_expert_degrees(experts: Experts, plan: Plan) -> None:
    if experts.num_experts % plan.expert_parallel:
        raise PlanError(f"ep={plan.expert_parallel} does not divide {experts.num_experts} experts")
    if experts.ffn_hidden_size % plan.tensor_parallel_of_experts:
        raise PlanError(
            f"etp={plan.tensor_parallel_of_experts} does not divide experts of {experts.ffn_hidden_size}"
        )
    if experts.shared_ffn_hidden_size % plan.tensor_parallel:
        raise PlanError(
            f"tp={plan.tensor_parallel} does not divide shared experts of {experts.shared_ffn_hidden_size}"
        )


def _mlp(model: Transformer, ffn_rows: int, has_bias: bool) -> tuple[Weight, ...]:
    gates = 2 if model.is_gated else 1
    weights = [
        Weight("MLP up", gates * ffn_rows, model.hidden_size),
        Weight("MLP down", model.hidden_size, ffn_rows),
    ]
    if has_bias:
        weights += [
            Weight("bias of MLP up", gates * ffn_rows, 1),
            Weight("bias of MLP down", model.hidden_size, 1),
        ]
    return tuple(weights)


def _norms(model: Transformer) -> tuple[Weight, ...]:
    norms = [part for part in layer_parts(model) if part.is_norm]
    return tuple(norm_weight(model, part.value, model.hidden_size) for part in norms)


def _dense_layer(model: Transformer, tensor_parallel: int) -> tuple[Weight, ...]:
    has_bias = model.has_linear_bias if model.has_mlp_bias is None else model.has_mlp_bias
    mlp = _mlp(model, model.ffn_hidden_size // tensor_parallel, has_bias)
    return (*_norms(model), *attention_weights(model, tensor_parallel), *mlp)


def _expert_layer(model: Transformer, plan: Plan) -> tuple[Weight, ...]:
    experts = model.experts
    if experts is None:
        return ()
    local = experts.num_experts // plan.expert_parallel
    ffn_rows = experts.ffn_hidden_size // plan.tensor_parallel_of_experts
    gates = 2 if model.is_gated else 1
    weights = [
        *_norms(model),
        *attention_weights(model, plan.tensor_parallel),
        Weight("router", experts.num_experts, model.hidden_size),
        Weight("experts up", gates * ffn_rows, model.hidden_size, local, is_expert=True),
        Weight("experts down", model.hidden_size, ffn_rows, local, is_expert=True),
    ]
    if experts.has_bias:
        weights += [
            Weight("bias of router", experts.num_experts, 1),
            Weight("biases of experts up", gates * ffn_rows, 1, local, is_expert=True),
            Weight("biases of experts down", model.hidden_size, 1, local, is_expert=True),
        ]
    if experts.shared_ffn_hidden_size:
        weights += _mlp(model, experts.shared_ffn_hidden_size // plan.tensor_parallel, has_bias=False)
    if experts.has_shared_gate:
        weights.append(Weight("gate of shared experts", model.hidden_size, 1))
    return tuple(weights)


def _table(model: Transformer, name: str, tensor_parallel: int, vocab_size: int) -> Weight:
    return Weight(name, math.ceil(vocab_size / tensor_parallel), model.embedding_size or model.hidden_size)


def embedding_weights(model: Transformer, tensor_parallel: int, vocab_size: int) -> tuple[Weight, ...]:
    """What stands before the first layer on a rank; the table first.

    Args:
        vocab_size: Rows of the embedding, padding included.
    """
    weights = [_table(model, "embedding", tensor_parallel, vocab_size)]
    if model.positions == "learned":
        weights.append(Weight("positions", model.max_positions, model.hidden_size))
    if model.num_token_types:
        weights.append(Weight("token types", model.num_token_types, model.hidden_size))
    if model.embedding_size:
        weights.append(Weight("projection from the embedding", model.hidden_size, model.embedding_size))
    if model.has_embedding_norm:
        weights.append(norm_weight(model, "norm of the embedding", model.hidden_size))
    return tuple(weights)


def head_weights(
    model: Transformer, tensor_parallel: int, vocab_size: int, *, has_table: bool
) -> tuple[Weight, ...]:
    """What stands behind the last layer on a rank.

    Args:
        vocab_size: Rows of the head, padding included.
        has_table: Whether the rank holds a table for it; one with the embedding shares that if it is tied.
    """
    table = _table(model, "head", tensor_parallel, vocab_size)
    weights = [norm_weight(model, "last norm", model.hidden_size)] if model.has_final_norm else []
    if model.embedding_size:
        weights.append(Weight("projection to the embedding", model.embedding_size, model.hidden_size))
    if model.has_head_transform:
        weights.append(Weight("transform before the head", model.hidden_size, model.hidden_size))
        weights.append(vector("bias of the transform", model.hidden_size, has_bias=False))
        weights.append(norm_weight(model, "norm of the transform", model.hidden_size))
    if has_table:
        weights.append(table)
    if model.has_head_bias:
        weights.append(Weight("bias of the head", table.rows, 1))
    return tuple(weights)
