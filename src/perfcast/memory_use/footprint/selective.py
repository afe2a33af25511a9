"""What a layer keeps under a plan's recomputation, and what its backward makes again.

``recompute=selective`` is another thing in each program (``frameworks.profile.SelectiveRecompute``):

attention_core   all but the core of attention is kept (Korthikanti et al., MLSys 2023, section 5), or all but
                 what the named modules make (Megatron-LM: --recompute-modules)
operators        the layer's input, the outputs of every second matrix product in the order in which the layer
                 runs them, the output of attention with its row statistics, and what was reduced and
                 scattered, or sent between experts (torchtitan: distributed/activation_checkpoint.py,
                 _apply_op_sac; PyTorch: utils/checkpoint.py keeps what a policy names, whether or not the
                 backward reads it)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from perfcast.core.model.heads import heads_of_rank
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan, RecomputeModule
from perfcast.core.training import Training
from perfcast.frameworks.choice import recomputed_modules
from perfcast.frameworks.profile import TrainingProfile
from perfcast.memory_use.footprint.activations import (
    Layout,
    Saved,
    attention_core,
    expert_visits,
    layer_activations,
)

_GATE = "input of the activation"
_BOTH_NORMS = "before and after their norm"
_SHARED = frozenset({"input of the shared experts' activation", "input of shared experts down"})
#: Tensors that a module makes, and its backward makes again.
_MADE_BY: Mapping[RecomputeModule, frozenset[str]] = MappingProxyType(
    {
        "core_attn": frozenset(
            {
                "row statistics of attention", "softmax of the scores", "dropout mask of the scores",
                "scores after dropout",
            }
        ),
        "moe_act": frozenset({"input of experts down"}),
        "shared_experts": _SHARED,
        "mlp": frozenset({_GATE, "input of MLP down", "the gate behind its activation"}),
        "moe": _SHARED
        | {
            "scores of the router", "tokens sent to experts", "input of the experts' activation",
            "input of experts down",
        },
    }
)  # fmt: skip
_OUTPUT = "output of attention"
_NORM_INPUTS = ("input of the attention norm", "input of the MLP norm")
_MLP_PRODUCT, _MLP_SCATTERED = "product behind the MLP", "what the MLP reduced and scattered"
#: Of what a selective recomputation by operators names, what no backward reads.
_UNREAD = (_MLP_PRODUCT, _MLP_SCATTERED)


def saved_tensors(
    model: Transformer,
    plan: Plan,
    training: Training,
    profile: TrainingProfile,
    layout: Layout,
    *,
    has_experts: bool,
    is_frozen: bool = False,
) -> tuple[Saved, ...]:
    """What a layer keeps from its forward to its backward, unless all of it is computed again.

    Args:
        is_frozen: Whether the layer's weights stay as they are.
    """
    if plan.recompute == "selective" and profile.selective == "operators":
        found = _kept_operators(model, plan, training, layout, has_experts=has_experts)
        drops = _UNREAD if not profile.memory_of(training.dtype).keeps_unread_products else ()
        return tuple(tensor for tensor in found if tensor.name not in drops)
    memory, modules = profile.memory_of(training.dtype), recomputed_modules(profile, plan)
    whole = layer_activations(
        model,
        plan,
        training,
        memory,
        layout,
        has_experts=has_experts,
        joins_projections=profile.kernels.joins_projections,
        is_frozen=is_frozen,
    )
    kept = _kept_of_modules(model, modules, whole, has_experts=has_experts)
    if memory.narrows_activations and layout.product_bytes < layout.element_bytes:
        kept = (_narrowed(tensor, layout) for tensor in kept if tensor.name != f"{_OUTPUT} in fp8")
    if model.norm == "rmsnorm" and memory.keeps_steps_of_norms and training.dtype not in ("fp32", "tf32"):
        return tuple(_in_steps(kept))
    return tuple(kept)


def _in_steps(saved: Iterable[Saved]) -> Iterator[Saved]:
    """An RMS norm in steps keeps its input in fp32, and its rows before the weight (PyTorch:
    ATen/native/layer_norm.cpp, rms_norm: pow and the product with the root's inverse read the wide input)."""
    for tensor in saved:
        if tensor.name not in _NORM_INPUTS:
            yield tensor
            continue
        yield Saved(tensor.name, 2 * tensor.num_bytes)
        yield Saved(f"{tensor.name}, normed", tensor.num_bytes)


def _narrowed(tensor: Saved, layout: Layout) -> Saved:
    """Inputs of activation functions as products keep theirs (DeepSeek-V3, section 3.3.3)."""
    if not tensor.name.endswith("activation"):
        return tensor
    return Saved(tensor.name, round(tensor.num_bytes * layout.product_bytes / layout.element_bytes))


def _kept_of_modules(
    model: Transformer, modules: tuple[RecomputeModule, ...], whole: tuple[Saved, ...], *, has_experts: bool
) -> Iterator[Saved]:
    """What modules that are computed again do not make; see ``workload.blocks.layer.recomputed``."""
    is_latent, gone = model.latent_attention is not None, set[str]()
    if "layernorm" in modules:
        gone |= {"input of attention"} if is_latent else set()
        gone |= {"input of router and experts"} if has_experts else set()
    for module in modules:
        gone |= _MADE_BY.get(module, frozenset())
    makes_up = is_latent and "mla_up_proj" in modules
    for tensor in whole:
        if tensor.name in gone or (makes_up and tensor.name in ("queries", "keys", "values")):
            continue
        if makes_up and tensor.name.endswith(_BOTH_NORMS):
            yield Saved(tensor.name.replace(_BOTH_NORMS, "before their norm"), tensor.num_bytes // 2)
        else:
            yield tensor


def made_again_bytes(kept: tuple[Saved, ...], every: tuple[Saved, ...]) -> int:
    """Bytes of a layer's tensors that were not kept, when its backward has them all again."""
    held = Counter[str]()
    for tensor in kept:
        held[tensor.name] += tensor.num_bytes
    whole = Counter[str]()
    for tensor in every:
        whole[tensor.name] += tensor.num_bytes
    return sum(max(0, whole[name] - held[name]) for name in whole)


def _kept_operators(
    model: Transformer, plan: Plan, training: Training, layout: Layout, *, has_experts: bool
) -> Iterator[Saved]:
    yield Saved("input of the attention norm", layout.norm_rows(model.hidden_size))
    products = (*_attention_products(model, layout), *_mlp_products(model, layout, has_experts=has_experts))
    yield from products[::2]
    yield Saved(_OUTPUT, layout.rows(heads_of_rank(model, layout.tensor_parallel).output_width))
    if training.attention == "flash":
        yield from attention_core(model, training, layout)
    if plan.sequence_parallel and layout.tensor_parallel > 1:
        scattered = layout.norm_rows(model.hidden_size)
        yield Saved("what attention reduced and scattered", scattered)
        yield Saved(_MLP_SCATTERED, scattered)
    if has_experts and model.experts is not None and plan.expert_parallel > 1:
        rows = expert_visits(model.experts, plan, layout)
        sent = round(layout.element_bytes * rows * model.hidden_size)
        yield Saved("tokens sent to experts", sent)
        yield Saved("tokens sent back from experts", sent)


def _attention_products(model: Transformer, layout: Layout) -> Iterator[Saved]:
    """Outputs of the products around attention, in their order."""
    heads, latent = heads_of_rank(model, layout.tensor_parallel), model.latent_attention
    if latent is not None:
        if latent.query_rank is not None:
            yield Saved("compressed queries", layout.norm_rows(latent.query_rank))
        yield Saved("queries before their rotation", layout.rows(heads.query_width))
        yield Saved("compressed keys and values", layout.norm_rows(latent.kv_rank + latent.rope_head_size))
        expanded = heads.queries * (latent.nope_head_size + latent.value_head_size)
        yield Saved("expanded keys and values", layout.rows(expanded))
    elif model.has_fused_qkv:
        yield Saved("the joint projection", layout.rows(heads.joint_width))
    else:
        changes = model.positions == "rope" or model.has_head_norms
        before = " before their rotation" if changes else ""
        yield Saved(f"queries{before}", layout.rows(heads.query_width))
        yield Saved(f"keys{before}", layout.rows(heads.key_width))
        yield Saved("values", layout.rows(heads.value_width))
    yield Saved("product behind attention", layout.rows(model.hidden_size))


def _mlp_products(model: Transformer, layout: Layout, *, has_experts: bool) -> Iterator[Saved]:
    """Outputs of the MLP's products, in their order; grouped ones of experts are none, nor the router's."""
    width = model.ffn_hidden_size
    if has_experts:
        assert model.experts is not None
        width = model.experts.shared_ffn_hidden_size
        if not width:
            return
    name = "input of the shared experts' activation" if has_experts else _GATE
    gates = 2 if model.is_gated else 1
    each = layout.rows(width / layout.tensor_parallel)
    if model.has_fused_gate:
        yield Saved(name, gates * each)
    else:
        yield from [Saved(name, each)] * gates
    yield Saved(_MLP_PRODUCT, layout.rows(model.hidden_size))
