"""Plain PyTorch beside adapters, and with frozen parts: what the eager closed form becomes.

Beside adapters the model's own weights, and so its residual stream, are in the products' format. Autocast
makes no copies of weights then, adapters share the input of the layers they stand beside, and norms keep
their input in fp32: four bytes an element where a fused one keeps two, twice a layer. 'gelu_new', written
out, keeps fourteen bytes of an element where one kernel keeps two. The loss makes fp32 copies: logits, their
log-softmax and its gradient (``pytorch.step``, ``pytorch.modules``).
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.forecast.footprint import PeakCandidate, Term
from perfcast.core.model.attention_weights import Weight, count_elements
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import count_parameters, stage_weights
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.tuning.trained import Tuning
from perfcast.core.tuning.weights import check_tuning, split_weights
from perfcast.frameworks.profile import MemoryProfile
from perfcast.memory_use.footprint.pytorch.optimizer import DENOMINATORS

_BESIDE_ADAPTERS = MemoryProfile(
    weight_bytes=4.0,
    compute_weight_bytes=2,
    gradient_bytes=4.0,
    has_master_weights=False,
    keeps_dummy_gradients=False,
    softmax_bytes=10.0,
    keeps_joint_qkv=False,
    keeps_gate=True,
    further_width=2.0,
    has_second_workspace=False,
    assumption="frozen weights in the products' format, fp32 adapters, modules run eagerly",
    source="huggingface/peft: tuners/lora/layer.py; transformers: models/*/modeling_*.py; PyTorch: amp",
)


def beside_adapters(model: Transformer) -> MemoryProfile:
    """What is kept, per parameter and activation, where adapters alone train."""
    written_out = (
        12 * model.ffn_hidden_size / (2 * model.hidden_size) if model.activation == "gelu_new" else 0.0
    )
    return replace(_BESIDE_ADAPTERS, further_width=_BESIDE_ADAPTERS.further_width + written_out)


def trained_share(model: Transformer, tuning: Tuning) -> float:
    """Parameters that train, over all.

    Raises:
        PlanError: What the model does not have.
    """
    check_tuning(model, tuning)
    whole = stage_weights(model, Plan(), 0, vocab_size=model.vocab_size)
    trained = count(tuning, (*whole.embedding, *whole.head))
    for at in range(model.num_layers):
        layer = whole.dense_layer if at < whole.num_dense_layers else whole.expert_layer
        trained += count(tuning, layer, is_frozen=tuning.freezes_layer(at))
    return min(1.0, trained / count_parameters(model))


def count(tuning: Tuning, weights: tuple[Weight, ...], *, is_frozen: bool = False) -> int:
    """Elements that train of some weights."""
    return count_elements(split_weights(tuning, weights, is_frozen=is_frozen).trained)


def of_trained(candidates: tuple[PeakCandidate, ...], share: float) -> tuple[PeakCandidate, ...]:
    """Gradients and states of a share of the parameters; activations as if all trained, which is the most."""

    def cut(term: Term) -> Term:
        is_of_update = term.category == Category.OPTIMIZER_STATE or term.name == DENOMINATORS
        if not is_of_update and term.category != Category.GRADIENT:
            return term
        return replace(
            term, num_bytes=round(share * term.num_bytes), formula=f"{share:.3g} · ({term.formula})"
        )

    return tuple(replace(one, terms=tuple(cut(term) for term in one.terms)) for one in candidates)
