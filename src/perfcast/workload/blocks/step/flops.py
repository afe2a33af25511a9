"""Model flops of a step, and what is computed twice.

Of a token: 2 flops a weight of the products that it meets in the forward, twice as many in the backward; of
attention 2·s·a·(d + e) for its s keys with a heads of sizes d and e, masked or not, in the forward, twice as
many in the backward (Chowdhery et al.: PaLM, 2022, appendix B; Narayanan et al.: SC 2021, section 5.1).
"""

from __future__ import annotations

from functools import lru_cache

from perfcast.core.plan import Plan
from perfcast.core.transformer import Transformer
from perfcast.core.weights import Weight, kinds_of_layer
from perfcast.core.work import Layer, LayerRun, StageWork


@lru_cache(maxsize=1024)
def flops_per_sequence(model: Transformer, sequence_length: int) -> int:
    """Forward and backward of one sequence."""
    dense, expert = kinds_of_layer(model, Plan())
    num_dense = model.num_layers - model.num_expert_layers
    num_expert = model.num_expert_layers
    extra = model.num_prediction_layers
    if model.experts is None:
        num_dense += extra
    else:
        num_expert += extra
    weights = num_dense * _active(model, dense) + num_expert * _active(model, expert)
    table = model.vocab_size * (model.embedding_size or model.hidden_size)
    weights += (1 + extra) * table + extra * 2 * model.hidden_size**2
    weights += 2 * model.embedding_size * model.hidden_size
    weights += model.hidden_size**2 if model.has_head_transform else 0
    return 6 * sequence_length * weights + 3 * _attention(model, sequence_length, extra)


def _active(model: Transformer, layer: tuple[Weight, ...]) -> int:
    """Weights of products that one token meets."""
    share = model.experts.experts_per_token / model.experts.num_experts if model.experts else 1
    return round(sum(w.num_elements * (share if w.is_expert else 1) for w in layer if _is_product(w)))


def _is_product(weight: Weight) -> bool:
    return weight.columns > 1 or weight.name == "gate of shared experts"


def _attention(model: Transformer, sequence_length: int, extra: int) -> int:
    """Forward of all layers."""
    latent = model.latent_attention
    sizes = 2 * model.head_size
    if latent is not None:
        sizes = latent.nope_head_size + latent.rope_head_size + latent.value_head_size
    window = min(model.sliding_window or sequence_length, sequence_length)
    keys = (model.num_layers + extra - model.num_window_layers) * sequence_length
    keys += model.num_window_layers * window
    return 2 * sequence_length * keys * model.num_attention_heads * sizes


def recomputed_flops(layers: tuple[Layer, ...], stages: tuple[StageWork, ...], plan: Plan) -> int:
    """Products and attention that the backward runs a second time, over all devices of a step."""
    of_layer = [
        sum(
            call.count * call.operation.flops
            for call in layer.backward
            if call.is_recomputed and call.operation.uses_matrix_units
        )
        for layer in layers
    ]
    runs: list[LayerRun] = [run for stage in stages for chunk in stage.chunks for run in chunk]
    of_rank = sum(run.count * of_layer[run.layer] for run in runs)
    return of_rank * plan.num_micro_batches * plan.ranks_per_stage
