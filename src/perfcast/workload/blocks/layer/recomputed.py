"""Which calls of a layer's forward run again in front of its backward, as the framework's profile says.

The core of attention, where 'selective' means that alone, is run again by attention's own backward
(``attention.standard``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from perfcast.core.operation import OperationKind
from perfcast.core.plan import RecomputeModule
from perfcast.core.work import Call, Calls
from perfcast.frameworks.choice import recomputed_modules
from perfcast.workload.blocks.attention import context_setting
from perfcast.workload.blocks.experts.training import ROUTER
from perfcast.workload.blocks.layer.norm import NORM
from perfcast.workload.blocks.local import Local

#: Collectives whose results a selective recomputation by operators keeps.
_KEPT_COLLECTIVES = ("reduce_scatter", "all_to_all")
#: Modules whose calls are one fused operator, whose result is kept.
_CORE = (context_setting.CORE, context_setting.KEYS, context_setting.HEADS)
#: Calls of modules by how their names begin.
_PREFIXES: Mapping[RecomputeModule, tuple[str, ...]] = MappingProxyType(
    {
        "moe_act": ("experts.activation",),
        "shared_experts": ("shared.",),
        "mlp": ("mlp.",),
        "moe": ("experts.", "shared."),
    }
)
_PATHS, _ROPE = ("attention.queries", "attention.keys_values"), "attention.rope"
#: Products that are not counted: they always run again.
_UNCOUNTED = (ROUTER,)


def computed_again(local: Local, forward: Calls) -> Calls:
    """All of the forward, what a selective recomputation by operators does not keep of it, or nothing."""
    if local.plan.recompute == "full":
        return _until_last_kept(local, forward)
    if local.plan.recompute == "selective" and local.framework.selective == "operators":
        return _without(forward, _kept(forward))
    modules = recomputed_modules(local.framework, local.plan)
    again = _of_modules(local, forward, modules) if set(modules) - {"core_attn"} else set[int]()
    return _without(forward, set(range(len(forward))) - again) if again else ()


def _until_last_kept(local: Local, forward: Calls) -> Calls:
    """The whole forward; where recomputing ends with the last kept tensor, not its last product.

    What the last product reads is the last that the backward needs, unless dropout follows, whose mask is
    kept (PyTorch: utils/checkpoint.py, early stop).
    """
    if not local.profile.stops_recompute_early or local.model.has_dropout:
        return forward
    last = max((at for at, call in enumerate(forward) if call.operation.uses_matrix_units), default=-1)
    return forward if last < 0 else forward[:last]


def _kept(forward: Calls) -> set[int]:
    """Calls whose results are kept: every second product, the core of attention, what is scattered or sent.

    Products of the router and grouped ones of experts run again (torchtitan:
    distributed/activation_checkpoint.py, _apply_op_sac; models/llama3/infra/parallelize.py,
    _op_sac_save_list).
    """
    kept, num_products = set(), 0
    is_fused = any(call.operation.kind is OperationKind.ATTENTION for call in forward)
    for at, call in enumerate(forward):
        if call.operation.kind is OperationKind.MATMUL and call.module not in _UNCOUNTED:
            num_products += 1
            if num_products % 2:
                kept.add(at)
        elif (is_fused and call.module in _CORE) or call.operation.name in _KEPT_COLLECTIVES:
            kept.add(at)
    return kept


def _of_modules(local: Local, forward: Calls, modules: Sequence[RecomputeModule]) -> set[int]:
    """Calls of named modules (Megatron-LM: core/transformer/transformer_layer.py, moe/experts.py,
    moe/moe_layer.py, multi_latent_attention.py).

    A norm is a module of its own before latent attention and before experts; before other products it is part
    of those, and what it makes is not given up.
    """
    found = set()
    norms = [at for at, call in enumerate(forward) if call.module == NORM]
    has_experts = any(call.module.startswith("experts.") for call in forward)
    if "layernorm" in modules:
        apart = (local.model.latent_attention is not None, has_experts)
        found |= {at for at, is_apart in zip(norms, apart, strict=False) if is_apart}
    if "mla_up_proj" in modules and local.model.latent_attention is not None:
        found |= _up_projections(forward)
    for module in modules:
        prefixes = _PREFIXES.get(module, ())
        found |= (
            {at for at, call in enumerate(forward) if call.module.startswith(prefixes)} if prefixes else set()
        )
    return found


def _up_projections(forward: Calls) -> set[int]:
    """From the norms of the compressed vectors on: all but the first product of each path."""
    found, begun = set(), set[str]()
    for at, call in enumerate(forward):
        if call.module in (*_PATHS, _ROPE):
            if call.module in begun or call.module == _ROPE:
                found.add(at)
            begun.add(call.module)
    return found


def _without(forward: Calls, kept: set[int]) -> Calls:
    """The calls that are left; what waited for one that is kept waits for what that waited for."""
    found: list[Call] = []
    place: dict[int, tuple[int, ...]] = {}
    for at, call in enumerate(forward):
        after = tuple(sorted({new for old in call.after for new in place[old]}))
        if at in kept:
            place[at] = after
            continue
        place[at] = (len(found),)
        found.append(call.behind(after))
    return tuple(found)
