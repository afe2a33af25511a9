"""A transformer's sizes as arguments of Megatron-LM, and what it cannot be told of a model.

Names and meanings after NVIDIA/Megatron-LM at commit 000c4ac24f61 (megatron/training/arguments.py:
_add_network_size_args, _add_moe_args, _add_mla_args). A word count is given without the one word that
NullTokenizer adds (megatron/training/tokenizer/tokenizer.py).
"""

from __future__ import annotations

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile
from perfcast.searches.handover.job import spoken

#: Names of arguments with their values; None for switches.
Arguments = tuple[tuple[str, str | None], ...]

_NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
_POSITIONS = {"rope": "rope", "learned": "learned_absolute", "none": "none"}
#: Function, and whether the MLP has a gate → the switch that asks for it.
_ACTIVATIONS: dict[tuple[str, bool], Arguments] = {
    ("gelu", False): (),
    ("gelu_new", False): (),
    ("gelu_pytorch_tanh", False): (),
    ("relu2", False): (("--squared-relu", None),),
    ("silu", True): (("--swiglu", None),),
}
_DROPOUT = "0.1"


def find_model_obstacles(model: Transformer, plan: Plan, training: Training) -> tuple[str, ...]:
    """What of a model Megatron-LM has no argument for."""
    tp, groups, experts = plan.tensor_parallel, model.num_kv_heads, model.experts
    gate = " with a gate" if model.is_gated else ""
    return spoken(
        [
            ((model.activation, model.is_gated) not in _ACTIVATIONS, f"an MLP of {model.activation}{gate}"),
            (
                model.norm_placement != "before" or model.has_embedding_norm or not model.has_final_norm,
                f"norms '{model.norm_placement}' each block, or around the stack",
            ),
            (not model.is_causal or model.num_token_types > 0, "a model that is not causal"),
            (
                model.has_mlp_bias not in (None, model.has_linear_bias)
                or model.has_head_bias
                or model.has_head_transform,
                "biases of the MLP or of the head alone, or layers before the head",
            ),
            (model.has_linear_bias and not model.has_qkv_bias, "biases everywhere but in queries and keys"),
            (model.embedding_size not in (0, model.hidden_size), "an embedding of another width"),
            (model.caps_logits or model.caps_scores, "capped logits or scores"),
            (groups % tp != 0 and tp % groups != 0, f"{groups} kv heads with tp={tp}"),
            (experts is not None and experts.has_shared_gate, "a gate of the shared experts"),
            (experts is not None and training.dtype == "fp16" and plan.expert_parallel > 1, "ep with fp16"),
            (
                experts is not None and tp > 1 and not plan.sequence_parallel,
                f"experts with tp={tp} and without sp",
            ),
            (plan.overlaps_shared_experts and not (experts and experts.shared_ffn_hidden_size), _OVERLAP),
            (
                plan.overlaps_experts and (experts is None or plan.expert_parallel == 1),
                "dispatches of tokens beside another micro-batch, of which there are none",
            ),
            (
                plan.overlaps_experts
                and (plan.recompute == "full" or plan.virtual_stages_per_rank == 1 < plan.pipeline_parallel),
                "dispatches beside another micro-batch with full recomputation, or with stages that are not "
                "interleaved",
            ),
            (
                plan.overlaps_experts and plan.overlaps_shared_experts,
                "dispatches beside shared experts and beside another micro-batch at once",
            ),
        ]
    )


_OVERLAP = "dispatches of tokens beside shared experts, of which the model has none"


def left_to_you(model: Transformer) -> tuple[str, ...]:
    """What Megatron-LM has arguments for and a transformer's sizes do not state."""
    return spoken(
        [
            (True, "--norm-epsilon and the initial weights (--init-method-std)"),
            (model.positions == "rope", "--rotary-base and the scaling of rotary positions"),
            (
                model.experts is not None,
                "the router (--moe-router-score-function, --moe-router-group-topk, "
                "--moe-router-enable-expert-bias, --moe-aux-loss-coeff, which is 0 unless given): the "
                "forecast takes experts as evenly loaded",
            ),
        ]
    )


def model_arguments(model: Transformer, plan: Plan, sequence_length: int, training: Training) -> Arguments:
    """The arguments that describe a model."""
    positions = max(sequence_length, model.max_positions)
    arguments = [
        ("--num-layers", str(model.num_layers)),
        ("--hidden-size", str(model.hidden_size)),
        ("--ffn-hidden-size", str(model.ffn_hidden_size)),
        ("--num-attention-heads", str(model.num_attention_heads)),
        ("--seq-length", str(sequence_length)),
        ("--max-position-embeddings", str(positions)),
        ("--position-embedding-type", _POSITIONS[model.positions]),
        ("--normalization", _NORMS[model.norm]),
        ("--tokenizer-type", "NullTokenizer"),
        ("--vocab-size", str(model.vocab_size - 1)),
        ("--hidden-dropout", _DROPOUT if model.has_dropout else "0.0"),
        ("--attention-dropout", _DROPOUT if model.has_attention_dropout else "0.0"),
        *_ACTIVATIONS[model.activation, model.is_gated],
        *_attention_arguments(model),
    ]
    if not model.ties_embeddings:
        arguments.append(("--untie-embeddings-and-output-weights", None))
    if not model.has_linear_bias:
        arguments.append(("--disable-bias-linear", None))
        if model.has_qkv_bias:
            arguments.append(("--add-qkv-bias", None))
    if model.num_prediction_layers:
        arguments.append(("--mtp-num-layers", str(model.num_prediction_layers)))
    return (*arguments, *_expert_arguments(model, plan, training))


def _attention_arguments(model: Transformer) -> Arguments:
    latent = model.latent_attention
    if latent is not None:
        query: Arguments = () if latent.query_rank is None else (("--q-lora-rank", str(latent.query_rank)),)
        return (
            ("--multi-latent-attention", None),
            *query,
            ("--kv-lora-rank", str(latent.kv_rank)),
            ("--qk-head-dim", str(latent.nope_head_size)),
            ("--qk-pos-emb-head-dim", str(latent.rope_head_size)),
            ("--v-head-dim", str(latent.value_head_size)),
            ("--qk-layernorm", None),
        )
    arguments: list[tuple[str, str | None]] = [("--kv-channels", str(model.head_size))]
    if model.num_kv_heads != model.num_attention_heads:
        arguments += [("--group-query-attention", None), ("--num-query-groups", str(model.num_kv_heads))]
    if model.has_head_norms:
        arguments.append(("--qk-layernorm", None))
    if model.positions == "rope" and model.rope_size not in (0, model.head_size):
        arguments.append(("--rotary-percent", str(model.rope_size / model.head_size)))
    return (*arguments, *_window_arguments(model))


def _window_arguments(model: Transformer) -> Arguments:
    """A token and the ones before it, in all layers or by a pattern (1: with the window)."""
    if not model.num_window_layers:
        return ()
    size: Arguments = (("--window-size", f"{model.sliding_window - 1},0"),)
    count, windows = model.num_layers, model.num_window_layers
    if windows == count:
        return size
    has = [int((layer + 1) * windows // count > layer * windows // count) for layer in range(count)]
    return (*size, ("--window-attn-skip-freq", f"[{','.join(map(str, has))}]"))


def _dispatch_arguments(plan: Plan) -> Arguments:
    """DeepEP takes probabilities in fp32 alone (core/transformer/moe/token_dispatcher.py)."""
    dispatch = plan.dispatch or load_training_profile("megatron").kernels.dispatch
    if plan.expert_parallel == 1 or dispatch in ("alltoall", "allgather"):
        return (("--moe-token-dispatcher-type", "allgather" if dispatch == "allgather" else "alltoall"),)
    return (
        ("--moe-token-dispatcher-type", "flex"),
        ("--moe-flex-dispatcher-backend", "deepep"),
        ("--moe-router-dtype", "fp32"),
    )


def _expert_arguments(model: Transformer, plan: Plan, training: Training) -> Arguments:
    experts = model.experts
    if experts is None:
        return ()
    arguments: list[tuple[str, str | None]] = [
        ("--num-experts", str(experts.num_experts)),
        ("--moe-ffn-hidden-size", str(experts.ffn_hidden_size)),
        ("--moe-router-topk", str(experts.experts_per_token)),
        ("--moe-router-load-balancing-type", "aux_loss"),
        *_dispatch_arguments(plan),
    ]
    if experts.num_dense_layers:
        sparse = model.num_layers - experts.num_dense_layers
        arguments.append(("--moe-layer-freq", f"([0]*{experts.num_dense_layers}+[1]*{sparse})"))
    if experts.shared_ffn_hidden_size:
        arguments.append(("--moe-shared-expert-intermediate-size", str(experts.shared_ffn_hidden_size)))
    if plan.overlaps_shared_experts:
        arguments.append(("--moe-shared-expert-overlap", None))
    if plan.overlaps_experts:
        arguments.append(("--overlap-moe-expert-parallel-comm", None))
    if training.dtype in ("bf16", "fp8"):
        arguments.append(("--moe-grouped-gemm", None))
    if plan.capacity_factor is not None:
        arguments.append(("--moe-expert-capacity-factor", str(plan.capacity_factor)))
    return tuple(arguments)
