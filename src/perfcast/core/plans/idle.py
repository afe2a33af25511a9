"""Keys of a plan that change nothing, since what they set does not happen under the rest of it: errors.

Whoever writes ``cp_type=ring`` without ``cp`` believes that something is cut; an answer that ignores it is
the answer to another question. A key counts as said where a text states it, and where a plan departs from the
usual. What merely says that a thing is off (``zero=0``, ``sp=0``, ``imbalance=1``) is never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from perfcast.core.mode import Mode
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.text import KEY_OF_FIELD, PLAN_KEYS
from perfcast.errors import PlanError

_USUAL = Plan()


@dataclass(frozen=True, slots=True)
class _Rule:
    """When a field of a plan changes nothing, and what to do about it.

    Attributes:
        why: '' where the field has an effect; else why not, and what would give it one.
        off: A value that asks for nothing, and may be said anywhere; None: there is none.
    """

    field: str
    why: Callable[[Plan], str]
    off: object = None


def _axes(plan: Plan) -> int:
    degrees = (
        plan.data_parallel,
        plan.tensor_parallel,
        plan.pipeline_parallel,
        plan.context_parallel,
    )
    return sum(degree > 1 for degree in degrees)


def _if(condition: Callable[[Plan], bool], reason: str) -> Callable[[Plan], str]:
    return lambda plan: reason if condition(plan) else ""


def _no_opposite_pass(plan: Plan) -> str:
    if plan.schedule == "dualpipe" or plan.expert_parallel == 1 or plan.overlaps_passes:
        return ""
    if plan.num_micro_batches == 1:
        return "one micro-batch has no other beside it; leave it out, or give a larger batch"
    return f"schedule={plan.schedule} runs no forward beside a backward; leave it out"


def _no_sharded_weights(plan: Plan) -> str:
    if plan.zero_stage == 3 or plan.offload == "parameters":
        return ""
    return f"zero={plan.zero_stage} gathers no weights; leave it out, or give zero=3"


_ONE_STAGE = _if(lambda plan: plan.pipeline_parallel == 1, "pp=1 has no pipeline; leave it out, or give pp")
_OF_ANY: Sequence[_Rule] = (
    _Rule(
        "context_communication",
        _if(lambda plan: plan.context_parallel == 1, "cp=1 cuts no sequence; leave it out, or give cp"),
    ),
    _Rule("virtual_stages_per_rank", _ONE_STAGE, 1),
    _Rule("schedule", _ONE_STAGE),
    _Rule("stage_layers", lambda plan: _ONE_STAGE(plan) if plan.stage_layers else ""),
    _Rule("order", _if(lambda plan: _axes(plan) < 2, "fewer than two axes have no order; leave it out")),
    _Rule(
        "sequence_parallel",
        _if(lambda plan: plan.tensor_parallel == 1, "tp=1 cuts nothing; leave it out, or give tp"),
        off=False,
    ),
    _Rule(
        "overlaps_tensor",
        _if(lambda plan: plan.tensor_parallel == 1, "tp=1 sends nothing; leave it out, or give tp"),
        off=False,
    ),
)
_OF_TRAINING: Sequence[_Rule] = (
    _Rule(
        "num_shards",
        _if(lambda plan: not plan.zero_stage, "zero=0 shards nothing; leave it out, or give zero"),
    ),
    _Rule("num_prefetched", _no_sharded_weights),
    _Rule("reshard_after_forward", _no_sharded_weights),
    _Rule(
        "bucket_bytes",
        _if(
            lambda plan: plan.num_dense_replicas == 1,
            "dp · cp = 1 replica reduces no gradients; leave it out",
        ),
    ),
)
_OF_PASSES = _Rule("overlaps_experts", _no_opposite_pass, off=False)
_TRAINS = _if(lambda _: True, "it is of a training; leave it out")
_OF_INFERENCE: Sequence[_Rule] = (
    _Rule("recompute", _TRAINS, "none"),
    _Rule("recompute_layers", _TRAINS),
    _Rule("recompute_modules", _TRAINS, ()),
    _Rule("overlaps_experts", _TRAINS, off=False),
    _Rule("overlaps_shared_experts", _TRAINS, off=False),
    _Rule("zero_stage", _TRAINS, 0),
    _Rule("offload", _TRAINS, "none"),
    _Rule("schedule", _TRAINS),
    _Rule("num_shards", _TRAINS),
    _Rule("num_prefetched", _TRAINS),
    _Rule("reshard_after_forward", _TRAINS),
    _Rule("bucket_bytes", _TRAINS),
)
_NO_EXPERTS = _if(lambda _: True, "the model has no experts; leave it out")
_OF_EXPERTS: Sequence[_Rule] = (
    _Rule("expert_parallel", _NO_EXPERTS, 1),
    _Rule(
        "expert_tensor_parallel",
        _if(
            lambda plan: plan.expert_tensor_parallel not in (None, 1, plan.tensor_parallel),
            "the model has no experts; leave it out",
        ),
    ),
    _Rule("capacity_factor", _NO_EXPERTS),
    _Rule("expert_imbalance", _NO_EXPERTS, 1.0),
    _Rule("overlaps_experts", _NO_EXPERTS, off=False),
    _Rule("overlaps_shared_experts", _NO_EXPERTS, off=False),
    _Rule("dispatch", _NO_EXPERTS),
)
_UNSPREAD = _if(lambda plan: plan.expert_parallel == 1, "ep=1 sends no tokens; leave it out, or give ep")
_OF_SPREAD_EXPERTS: Sequence[_Rule] = (
    _Rule("overlaps_experts", _UNSPREAD, off=False),
    _Rule("overlaps_shared_experts", _UNSPREAD, off=False),
    _Rule("dispatch", _UNSPREAD),
)


_NOT_SHARED = _Rule(
    "overlaps_shared_experts",
    _if(lambda _: True, "the model has no experts that every token visits; leave it out"),
    off=False,
)


def refuse_idle(
    plan: Plan,
    stated: Collection[str] = (),
    *,
    mode: Mode | None = None,
    model: Transformer | None = None,
) -> None:
    """Refuse a plan of which something has no effect.

    Args:
        stated: Fields that the user gave, also where that is the usual value.
        mode: None leaves open whether it is a training.
        model: None leaves open whether it has experts.

    Raises:
        PlanError: Names the first such key, why it changes nothing, and what to do.
    """
    for rule, why in _idle(plan, stated, mode, model):
        name = KEY_OF_FIELD[rule.field]
        value = PLAN_KEYS[name].write(getattr(plan, rule.field))
        raise PlanError(f"{name}={value} has no effect: {why}")


def without_idle(plan: Plan, *, mode: Mode | None = None, model: Transformer | None = None) -> Plan:
    """The plan with what has no effect as it usually is: for plans that a program makes up."""
    changes = {rule.field: getattr(_USUAL, rule.field) for rule, _ in _idle(plan, (), mode, model)}
    return replace(plan, **changes) if changes else plan


def _idle(
    plan: Plan, stated: Collection[str], mode: Mode | None, model: Transformer | None
) -> Iterator[tuple[_Rule, str]]:
    for rule in _rules(mode, model):
        value = getattr(plan, rule.field)
        is_said = rule.field in stated or value != getattr(_USUAL, rule.field)
        if is_said and (rule.off is None or value != rule.off) and (why := rule.why(plan)):
            yield rule, why


def _rules(mode: Mode | None, model: Transformer | None) -> Iterator[_Rule]:
    yield from _OF_ANY
    if mode is not None:
        yield from _OF_TRAINING if mode == "train" else _OF_INFERENCE
    if model is None:
        return
    yield from _OF_EXPERTS if model.experts is None else _OF_SPREAD_EXPERTS
    yield _Rule("recompute_modules", lambda plan: _missing_module(plan, model), ())
    if model.experts is None:
        return
    if not model.experts.shared_ffn_hidden_size:
        yield _NOT_SHARED
    if mode == "train":
        yield _OF_PASSES


def _missing_module(plan: Plan, model: Transformer) -> str:
    """What a model has none of among the modules that are to be computed again."""
    experts, latent = model.experts, model.latent_attention
    num_dense = model.num_layers - model.num_expert_layers
    has = {
        "moe": experts is not None,
        "moe_act": experts is not None,
        "shared_experts": experts is not None and experts.shared_ffn_hidden_size > 0,
        "mla_up_proj": latent is not None,
        "layernorm": latent is not None or experts is not None,
        "mlp": num_dense > 0,
    }
    missing = [module for module in plan.recompute_modules if not has.get(module, True)]
    if not missing:
        return ""
    if missing == ["layernorm"]:
        return "its norms are part of the products behind them; leave layernorm out"
    return f"the model has nothing that {' and '.join(missing)} means; leave it out"
