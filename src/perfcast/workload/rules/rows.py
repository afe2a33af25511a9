"""Operators that pass over rows: reductions, softmax, norms, pooling, losses, sorting."""

from __future__ import annotations

import math

from perfcast.core.operation import OperationKind
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, Rule, RuleTable, bytes_of

ROWS = RuleTable()

_REDUCTIONS = (
    "sum mean amax amin max min var std var_mean std_mean norm linalg_vector_norm prod logsumexp all "
    "any argmax argmin nansum count_nonzero _local_scalar_dense equal is_nonzero"
).split()

#: Arithmetic per input element: softmax subtracts the maximum, exponentiates, sums and divides, and
#: finds the maximum (5); its backward multiplies twice, sums and subtracts.
_SOFTMAX_FLOPS = {
    "_softmax": 5,
    "_safe_softmax": 6,
    "_log_softmax": 5,
    "_softmax_backward_data": 4,
    "_log_softmax_backward_data": 4,
    "_masked_softmax": 6,
}

#: Mean, variance, normalise, scale and shift; the backward has two sums and three products.
_NORM_FLOPS = {
    "native_layer_norm": 8,
    "_fused_rms_norm": 5,
    "_fused_rms_norm_backward": 10,
    "native_group_norm": 8,
    "native_group_norm_backward": 14,
    "native_batch_norm": 8,
    "cudnn_batch_norm": 8,
    "_native_batch_norm_legit": 8,
    "_native_batch_norm_legit_functional": 8,
    "_native_batch_norm_legit_no_training": 4,
    "_batch_norm_with_update": 8,
    "_batch_norm_no_update": 4,
    "native_batch_norm_backward": 14,
    "batch_norm_backward": 14,
    "cudnn_batch_norm_backward": 14,
}


def _per_input_element(kind: OperationKind, flops_per_element: int) -> Rule:
    def rule(call: OperatorCall) -> OperatorWork:
        elements = call.inputs[0].num_elements if call.inputs else 0
        row = call.inputs[0].shape[-1] if call.inputs and call.inputs[0].shape else 1
        return OperatorWork(kind, flops=flops_per_element * elements, attributes=(("row", row),))

    return rule


for _name in _REDUCTIONS:
    ROWS[_name] = _per_input_element(OperationKind.REDUCTION, 1)
for _name, _flops in _SOFTMAX_FLOPS.items():
    ROWS[_name] = _per_input_element(OperationKind.SOFTMAX, _flops)
for _name, _flops in _NORM_FLOPS.items():
    ROWS[_name] = _per_input_element(OperationKind.NORMALIZATION, _flops)


@ROWS.rule("native_layer_norm_backward")
def layer_norm_backward(call: OperatorCall) -> OperatorWork:
    """Two sums and three products an element; the gradients of the weights, if asked, in a second kernel."""
    x = call.inputs[0]
    wanted = call.arg(7, "output_mask", (True, True, True))
    weights = isinstance(wanted, tuple) and any(wanted[1:])
    return OperatorWork(
        OperationKind.NORMALIZATION,
        flops=14 * x.num_elements,
        attributes=(("kernels", 2 if weights else 1), ("row", x.shape[-1])),
    )


@ROWS.rule("cumsum", "cumprod", "logcumsumexp", "cummax")
def cumulative(call: OperatorCall) -> OperatorWork:
    """One addition per element."""
    return OperatorWork(OperationKind.REDUCTION, flops=call.inputs[0].num_elements)


@ROWS.rule(
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "avg_pool2d",
    "avg_pool3d",
    "_adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "_adaptive_avg_pool3d",
)
def pooling(call: OperatorCall) -> OperatorWork:
    """One comparison or addition per tap; adaptive pooling reads every input element once."""
    window = call.arg(1, "kernel_size")
    taps = math.prod(window) if isinstance(window, tuple) and not call.operator.startswith("_adaptive") else 1
    elements = max(call.outputs[0].num_elements * taps, call.inputs[0].num_elements)
    return OperatorWork(OperationKind.POOLING, flops=elements)


@ROWS.rule(
    "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices_backward",
    "avg_pool2d_backward",
    "_adaptive_avg_pool2d_backward",
    "adaptive_max_pool2d_backward",
)
def pooling_backward(call: OperatorCall) -> OperatorWork:
    """One addition per element of the gradient that comes in."""
    return OperatorWork(OperationKind.POOLING, flops=call.inputs[0].num_elements)


@ROWS.rule("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(call: OperatorCall) -> OperatorWork:
    """Picks one element per row: reads the rows' targets, not the rows."""
    targets = call.inputs[1]
    return OperatorWork(
        OperationKind.LOSS,
        flops=targets.num_elements,
        read_bytes=targets.num_bytes + call.inputs[0].dtype.bytes_of(targets.num_elements),
    )


@ROWS.rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(call: OperatorCall) -> OperatorWork:
    """Fills the rows with zeros and sets one element in each."""
    targets = next(t for t in call.inputs[2:] if t.dtype.label == "int64")
    return OperatorWork(
        OperationKind.LOSS, read_bytes=targets.num_bytes, written_bytes=bytes_of(call.outputs)
    )


@ROWS.rule(
    "mse_loss",
    "mse_loss_backward",
    "binary_cross_entropy",
    "binary_cross_entropy_backward",
    "binary_cross_entropy_with_logits",
    "smooth_l1_loss",
    "smooth_l1_loss_backward",
    "huber_loss",
    "huber_loss_backward",
    "soft_margin_loss",
    "soft_margin_loss_backward",
)
def elementwise_loss(call: OperatorCall) -> OperatorWork:
    """Some four operations per element (a difference and a square; two logarithms and their sum)."""
    return OperatorWork(OperationKind.LOSS, flops=4 * call.inputs[0].num_elements)


@ROWS.rule(
    "sort", "topk", "argsort", "kthvalue", "searchsorted", "bucketize", "histc", "bincount", "unique_dim"
)
def sorting(call: OperatorCall) -> OperatorWork:
    """Traffic of one pass; comparisons are not arithmetic. Real sorts make several passes."""
    return OperatorWork(OperationKind.SORT)
