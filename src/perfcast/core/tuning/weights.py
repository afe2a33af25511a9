"""The weights of a rank by what happens to them: trained, frozen, or frozen in four bits; and adapters' own.

Under tensor parallelism an adapter is cut as its linear layer is: beside a column-parallel layer A along its
rank and B along the outputs, beside a row-parallel one A along the inputs and B along the outputs
(NVIDIA Megatron Bridge: peft/utils.py, ParallelLinearAdapter).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from perfcast.core.model.attention_weights import Weight
from perfcast.core.model.heads import heads_of_rank
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.tuning.trained import PARTS_OF_LAYERS, Adapters, Part, Target, Tuning
from perfcast.errors import PlanError


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter as a rank has it.

    Attributes:
        module: Of the linear layer it stands beside: 'attention.qkv', 'mlp.down' …
        inputs, outputs: Elements of a token on this rank, of the linear layer.
        is_row: Whether the linear layer has a part of its inputs on this rank, else of its outputs.
        cuts: Ranks among which it is cut.
    """

    module: str
    rank: int
    inputs: int
    outputs: int
    is_row: bool
    cuts: int

    @property
    def own_rank(self) -> int:
        """Rows of A on this rank: a part of the rank beside column-parallel layers."""
        return self.rank if self.is_row else math.ceil(self.rank / self.cuts)

    @property
    def own_outputs(self) -> int:
        """Rows of B on this rank."""
        return math.ceil(self.outputs / self.cuts) if self.is_row else self.outputs

    @property
    def weights(self) -> tuple[Weight, Weight]:
        """A and B."""
        return (
            Weight(f"adapter A of {self.module}", self.own_rank, self.inputs),
            Weight(f"adapter B of {self.module}", self.own_outputs, self.rank),
        )


@lru_cache(maxsize=4096)
def layer_adapters(
    model: Transformer,
    plan: Plan,
    adapters: Adapters | None,
    *,
    has_experts: bool,
    joins_projections: bool = False,
) -> tuple[Adapter, ...]:
    """Adapters of one layer on a rank, in the order of its linear layers.

    Args:
        joins_projections: Whether one product makes queries, keys and values, and gate and up, as that of
            some models does anyway (``_joins``).

    Raises:
        PlanError: 2-D tensor parallelism.
    """
    if adapters is None:
        return ()
    if plan.tensor_parallel_inputs > 1:
        raise PlanError(f"tp_inputs={plan.tensor_parallel_inputs} with adapters: take tp_inputs=1")
    found = [
        *_attention(
            model,
            plan,
            adapters,
            joins=_joins(joins_projections, model.has_fused_qkv, adapters, ("q", "k", "v")),
        )
    ]
    mlp, ffn = "mlp", model.ffn_hidden_size
    if has_experts:
        mlp, ffn = "shared", model.experts.shared_ffn_hidden_size if model.experts else 0
    if ffn:
        joins = _joins(joins_projections, model.has_fused_gate, adapters, ("gate", "up"))
        found += _mlp(model, plan, adapters, mlp, ffn // plan.tensor_parallel, joins=joins)
    return tuple(found)


def _joins(program: bool, model: bool, adapters: Adapters, parts: tuple[Target, ...]) -> bool:
    """Whether parts of one product have one adapter: where the program joins them, all must be targets
    (Megatron Bridge: peft/canonical_lora.py else); where the model does, any (PEFT names the module)."""
    named = [part in adapters.targets for part in parts]
    return (program and all(named)) or (model and any(named))


def _attention(model: Transformer, plan: Plan, adapters: Adapters, *, joins: bool) -> Iterable[Adapter]:
    hidden, cuts, targets = model.hidden_size, plan.tensor_parallel, adapters.targets
    heads, latent = heads_of_rank(model, cuts), model.latent_attention

    def column(module: str, inputs: int, outputs: int, over: int = cuts) -> Adapter:
        return Adapter(module, adapters.rank, inputs, outputs, False, over)

    if latent is not None:
        if "q" in targets and latent.query_rank is not None:
            yield column("attention.queries", hidden, latent.query_rank, 1)
        if "q" in targets:
            yield column("attention.queries", latent.query_rank or hidden, heads.query_width)
        if "k" in targets:
            up = heads.queries * (latent.nope_head_size + latent.value_head_size)
            yield column("attention.keys_values", hidden, latent.kv_rank + latent.rope_head_size, 1)
            yield column("attention.keys_values", latent.kv_rank, up)
    else:
        widths: dict[Target, int] = {"q": heads.query_width, "k": heads.key_width, "v": heads.value_width}
        if joins:
            yield column("attention.qkv", hidden, heads.joint_width)
        else:
            yield from (column("attention.qkv", hidden, widths[t]) for t in widths if t in targets)
    if "o" in targets:
        yield Adapter("attention.output", adapters.rank, heads.output_width, hidden, True, cuts)


def _mlp(
    model: Transformer, plan: Plan, adapters: Adapters, module: str, width: int, *, joins: bool
) -> Iterable[Adapter]:
    rank, hidden, cuts = adapters.rank, model.hidden_size, plan.tensor_parallel
    names: tuple[Target, ...] = ("gate", "up") if model.is_gated else ("up",)
    named = [name for name in names if name in adapters.targets]
    if joins and named:
        yield Adapter(f"{module}.up", rank, hidden, len(names) * width, False, cuts)
    else:
        yield from (Adapter(f"{module}.up", rank, hidden, width, False, cuts) for _ in named)
    if "down" in adapters.targets:
        yield Adapter(f"{module}.down", rank, width, hidden, True, cuts)


@dataclass(frozen=True, slots=True)
class SplitWeights:
    """Weights of a layer, or of an end, by what happens to them."""

    trained: tuple[Weight, ...]
    frozen: tuple[Weight, ...] = ()
    quantised: tuple[Weight, ...] = ()


def split_weights(
    tuning: Tuning,
    weights: tuple[Weight, ...],
    adapters: tuple[Adapter, ...] = (),
    *,
    is_frozen: bool = False,
) -> SplitWeights:
    """The model's own weights, and adapters beside them.

    Args:
        is_frozen: Whether they are of a layer that is frozen as a whole.
    """
    if tuning.is_full:
        return SplitWeights(weights)
    trained, frozen, quantised = [], [], []
    for weight in weights:
        part = part_of(weight)
        if tuning.trains(part) and not is_frozen:
            trained.append(weight)
        elif tuning.is_quantised and weight.columns > 1 and part in ("attention", "mlp", "experts"):
            quantised.append(weight)
        else:
            frozen.append(weight)
    own = tuple(weight for adapter in adapters for weight in adapter.weights)
    return SplitWeights((*trained, *own), tuple(frozen), tuple(quantised))


def part_of(weight: Weight) -> Part:
    """The part of a model that a weight belongs to."""
    name = weight.name
    if weight.is_expert:
        return "experts"
    if name in _ENDS:
        return _ENDS[name]
    if "norm" in name:
        return "norms"
    if name == "router":
        return "router"
    return "mlp" if "MLP" in name or name == "gate of shared experts" else "attention"


#: Weights beside the layers (``core.model.weights``); their norms are norms.
_ENDS: dict[str, Part] = {
    "embedding": "embedding",
    "positions": "embedding",
    "token types": "embedding",
    "projection from the embedding": "embedding",
    "norm of the embedding": "embedding",
    "head": "head",
    "bias of the head": "head",
    "projection to the embedding": "head",
    "transform before the head": "head",
    "bias of the transform": "head",
    "norm of the transform": "head",
    "joined": "head",
}
#: Modules of kernels, by the first word of their names, and the part whose weights they read.
_MODULES: dict[str, Part] = {
    "embedding": "embedding",
    "attention": "attention",
    "mlp": "mlp",
    "shared": "mlp",
    "experts": "experts",
    "norm": "norms",
    "head": "head",
    "prediction": "head",
}


def part_of_module(module: str) -> Part:
    """The part of a model whose weights a kernel of a module reads: 'mlp.up' → 'mlp'."""
    if module == "experts.router":
        return "router"
    return "norms" if "norm" in module else _MODULES[module.partition(".")[0]]


def check_tuning(model: Transformer, tuning: Tuning) -> None:
    """Refuse what a model does not have.

    Raises:
        PlanError: Frozen layers beyond its last, a part or target that it has none of, one end of a tied
            table frozen without the other, nothing left to train.
    """
    if tuning.is_full:
        return
    if tuning.adapters is not None:
        _check_targets(model, tuning.adapters)
        return
    has_experts = model.experts is not None
    for part in tuning.frozen_parts:
        if part in ("experts", "router") and not has_experts:
            raise PlanError(f"--freeze {part}: the model has no experts")
    if model.ties_embeddings and tuning.trains("embedding") != tuning.trains("head"):
        raise PlanError(
            "--freeze of one end: the head is the embedding (tied); freeze embedding and head, or none"
        )
    row = tuning.frozen_layers
    if row is not None and row[1] >= model.num_layers:
        raise PlanError(
            f"--freeze layers:{row[0]}-{row[1]}: the model has layers 0 to {model.num_layers - 1}"
        )
    has_layers = row is None or row != (0, model.num_layers - 1)
    trains_layers = has_layers and any(tuning.trains(part) for part in PARTS_OF_LAYERS)
    if not (trains_layers or tuning.trains("embedding") or tuning.trains("head")):
        raise PlanError("everything is frozen; nothing trains")


def _check_targets(model: Transformer, adapters: Adapters) -> None:
    targets = set(adapters.targets)
    if model.latent_attention is not None and len(targets & {"k", "v"}) == 1:
        raise PlanError("targets=k+v: latent attention makes keys and values by the same matrices; name both")
    if not model.is_gated and targets == {"gate"}:
        raise PlanError("targets=gate: the model's MLP has none; take up+down")
    found = [
        *layer_adapters(model, Plan(), adapters, has_experts=False),
        *layer_adapters(model, Plan(), adapters, has_experts=True),
    ]
    has_dense = model.experts is None or model.experts.num_dense_layers > 0
    if not any(has_dense or not adapter.module.startswith("mlp") for adapter in found):
        raise PlanError(
            "targets of an MLP alone: experts that a router chooses have no adapters; take attention"
        )
