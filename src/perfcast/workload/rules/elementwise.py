"""Element-wise operators: so many elementary operations per element of the output.

A primitive (add, multiply, compare, exp, tanh, sqrt …) counts 1, as in PyTorch's and the field's
convention; a composed one counts its primitives. Time is nearly always memory's, so the convention
matters little.
"""

from __future__ import annotations

from math import log2, prod

from perfcast.core.dtype import DType
from perfcast.core.operation import OperationKind
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, Rule, RuleTable

ELEMENTWISE = RuleTable()

_ONE = (
    "add sub rsub mul div neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos "
    "tan tanh erf floor ceil round trunc sign relu clamp clamp_min clamp_max clip maximum minimum "
    "fmod remainder floor_divide eq ne lt le gt ge logical_and logical_or logical_not logical_xor "
    "bitwise_and bitwise_or bitwise_not bitwise_xor __and__ __or__ __xor__ __lshift__ __rshift__ "
    "bitwise_left_shift bitwise_right_shift where masked_fill isnan isinf isfinite threshold "
    "threshold_backward atan atan2 tril triu sgn square frac polar view_as_complex hypot nan_to_num "
    "isin isposinf isneginf conj_physical"
).split()

_SEVERAL = {
    "pow": 2,
    "sigmoid": 3,
    "silu": 4,
    "silu_backward": 8,
    "sigmoid_backward": 3,
    "tanh_backward": 3,
    "gelu": 6,
    "gelu_backward": 14,
    "leaky_relu": 2,
    "leaky_relu_backward": 2,
    "elu": 3,
    "elu_backward": 3,
    "hardtanh": 2,
    "hardtanh_backward": 2,
    "hardswish": 4,
    "hardswish_backward": 4,
    "hardsigmoid": 3,
    "hardsigmoid_backward": 2,
    "mish": 6,
    "mish_backward": 12,
    "softplus": 4,
    "softplus_backward": 4,
    "log_sigmoid_forward": 4,
    "log_sigmoid_backward": 5,
    "glu": 4,
    "glu_backward": 8,
    "addcmul": 3,
    "addcdiv": 3,
    "lerp": 3,
    "xlogy": 2,
    "logaddexp": 4,
    "native_dropout_backward": 2,
    "_prelu_kernel": 2,
    "_prelu_kernel_backward": 3,
}


def _per_output_element(flops_per_element: int) -> Rule:
    def rule(call: OperatorCall) -> OperatorWork:
        out = call.outputs or call.inputs[:1]
        return OperatorWork(OperationKind.ELEMENTWISE, flops=flops_per_element * out[0].num_elements)

    return rule


for _name in _ONE:
    ELEMENTWISE[_name] = _per_output_element(1)
for _name, _flops in _SEVERAL.items():
    ELEMENTWISE[_name] = _per_output_element(_flops)


@ELEMENTWISE.rule("dequantise_nf4")
def dequantise(call: OperatorCall) -> OperatorWork:
    """A value of a table of sixteen, times its scale; what is read are four bits a weight and the scales."""
    return OperatorWork(OperationKind.ELEMENTWISE, flops=2 * call.outputs[0].num_elements)


@ELEMENTWISE.rule(
    "bernoulli",
    "native_dropout",
    "normal",
    "uniform",
    "rand",
    "randn",
    "randint",
    "random",
    "rand_like",
    "randn_like",
    "exponential",
    "randperm",
    "multinomial",
    "normal_functional",
)
def random(call: OperatorCall) -> OperatorWork:
    """A counter-based generator: some ten integer operations per element."""
    return OperatorWork(OperationKind.RANDOM, flops=10 * call.outputs[0].num_elements)


@ELEMENTWISE.rule("_fft_c2c", "_fft_r2c", "_fft_c2r")
def fourier_transform(call: OperatorCall) -> OperatorWork:
    """5 n log2 n flops for n complex values (the FFTW project's convention), half of it for n real ones.

    n is the product of the transformed sizes of the larger side: the real one, or either of two complex ones.
    """
    sides = [*call.inputs[:1], *call.outputs[:1]]
    whole = max(sides, key=lambda side: side.num_elements)
    dims = call.arg(1, "dim", (-1,))
    points = prod(whole.shape[dim] for dim in (dims if isinstance(dims, tuple) else (dims,)))
    per_point = 5.0 if call.operator == "_fft_c2c" else 2.5
    flops = round(per_point * whole.num_elements * log2(max(points, 1)))
    return OperatorWork(OperationKind.ELEMENTWISE, flops=flops, compute_dtype=DType.FP32)


@ELEMENTWISE.rule("_euclidean_dist", "_cdist_forward", "_cdist_backward")
def distances(call: OperatorCall) -> OperatorWork:
    """Of each pair of points: a difference, its power and the sum over their width.

    ``_cdist_backward(gradient of the distances, one side, other side, …)``.
    """
    is_backward = call.operator == "_cdist_backward"
    pairs = (call.inputs if is_backward else call.outputs)[0]
    width = call.inputs[int(is_backward)].shape[-1]
    return OperatorWork(OperationKind.ELEMENTWISE, flops=3 * width * pairs.num_elements)
