"""Optimizer kernels over lists of tensors: fused steps and the ``_foreach`` building blocks."""

from __future__ import annotations

from perfcast.core.operation import OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, RuleTable, bytes_of

OPTIMIZERS = RuleTable()

_FOREACH_FLOPS = {
    "_foreach_add": 1, "_foreach_sub": 1, "_foreach_mul": 1, "_foreach_div": 1, "_foreach_neg": 1,
    "_foreach_sqrt": 1, "_foreach_pow": 2, "_foreach_lerp": 3, "_foreach_addcmul": 3, "_foreach_addcdiv": 3,
    "_foreach_maximum": 1, "_foreach_minimum": 1, "_foreach_reciprocal": 1, "_foreach_abs": 1,
    "_foreach_exp": 1, "_foreach_sign": 1, "_foreach_clamp_max": 1, "_foreach_clamp_min": 1,
    "_foreach_rsqrt": 1, "_foreach_zero": 0, "_foreach_norm": 2, "_foreach_copy": 0,
}  # fmt: skip

#: Elementary operations per parameter of one update (Loshchilov and Hutter, arXiv 1711.05101, alg. 2).
_FUSED_FLOPS = {"_fused_adamw": 14, "_fused_adam": 14, "_fused_sgd": 4, "_fused_adagrad": 6}


def _elements(types: tuple[TensorType, ...]) -> int:
    return sum(t.num_elements for t in types)


def _first_list(call: OperatorCall) -> tuple[TensorType, ...]:
    return tuple(call.args[0])


@OPTIMIZERS.rule(*_FOREACH_FLOPS)
def foreach(call: OperatorCall) -> OperatorWork:
    """The same element-wise operation on every tensor of a list."""
    operator = call.operator.removesuffix("_")
    tensors = _first_list(call)
    written = bytes_of(tensors) if call.is_in_place else bytes_of(call.outputs)
    return OperatorWork(
        OperationKind.OPTIMIZER,
        flops=_FOREACH_FLOPS[operator] * _elements(tensors),
        read_bytes=0 if operator == "_foreach_zero" else bytes_of(call.inputs),
        written_bytes=written,
        attributes=(("num_tensors", len(tensors)),),
    )


@OPTIMIZERS.rule(*_FUSED_FLOPS)
def fused(call: OperatorCall) -> OperatorWork:
    """Reads parameters, gradients and states once and writes all but the gradients once."""
    lists = [value for value in call.args if isinstance(value, tuple)]
    parameters, gradients, *states = lists
    read = sum(bytes_of(tensors) for tensors in lists)
    return OperatorWork(
        OperationKind.OPTIMIZER,
        flops=_FUSED_FLOPS[call.operator.removesuffix("_")] * _elements(parameters),
        read_bytes=read,
        written_bytes=read - bytes_of(gradients),
        attributes=(("num_tensors", len(parameters)), ("num_states", len(states))),
    )
