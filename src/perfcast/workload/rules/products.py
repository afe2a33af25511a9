"""Matrix products, plain, batched and grouped: C[m, n] = A[m, k] · B[k, n], 2·m·n·k flops."""

from __future__ import annotations

import math

from perfcast.core.operation import OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, RuleTable

PRODUCTS = RuleTable()


def _layout(a: TensorType, b: TensorType) -> str:
    """'n' or 't' for each operand, as BLAS names them: 't' is stored with its rows scattered."""
    return ("t" if a.is_transposed else "n") + ("t" if b.is_transposed else "n")


def _product(kind: OperationKind, a: TensorType, b: TensorType) -> OperatorWork:
    batch, (m, k), n = math.prod(a.shape[:-2]), a.shape[-2:], b.shape[-1]
    return OperatorWork(
        kind,
        flops=2 * batch * m * n * k,
        attributes=(("batch", batch), ("m", m), ("n", n), ("k", k), ("layout", _layout(a, b))),
    )


@PRODUCTS.rule("mm", "_scaled_mm")
def mm(call: OperatorCall) -> OperatorWork:
    """2·m·n·k."""
    return _product(OperationKind.MATMUL, call.args[0], call.args[1])


@PRODUCTS.rule("addmm", "_addmm_activation")
def addmm(call: OperatorCall) -> OperatorWork:
    """2·m·n·k; the addition of the bias is part of the store."""
    return _product(OperationKind.MATMUL, call.args[1], call.args[2])


@PRODUCTS.rule("bmm")
def bmm(call: OperatorCall) -> OperatorWork:
    """2·batch·m·n·k."""
    return _product(OperationKind.BATCHED_MATMUL, call.args[0], call.args[1])


@PRODUCTS.rule("baddbmm", "addbmm")
def baddbmm(call: OperatorCall) -> OperatorWork:
    """2·batch·m·n·k; the addition is part of the store."""
    return _product(OperationKind.BATCHED_MATMUL, call.args[1], call.args[2])


@PRODUCTS.rule("mv", "dot", "vdot", "addmv")
def mv(call: OperatorCall) -> OperatorWork:
    """2 flops per element of the matrix (or of one vector)."""
    largest = max(t.num_elements for t in call.inputs)
    return OperatorWork(
        OperationKind.MATMUL, flops=2 * largest, attributes=(("m", 1), ("n", 1), ("k", largest))
    )


@PRODUCTS.rule("_grouped_mm", "_scaled_grouped_mm")
def grouped_mm(call: OperatorCall) -> OperatorWork:
    """Products whose rows are split over groups: every row meets one group's matrix.

    a[t, k] · b[g, k, n] with t rows in all is 2·t·k·n, however the rows are split. With a 2-D b
    (the weight gradient: a[m, t] · b[t, n], split along t) it is 2·m·t·n. With fewer rows than groups,
    only as many matrices as rows are read.
    """
    a, b = call.args[0], call.args[1]
    flops = 2 * math.prod(a.shape) * b.shape[-1]
    groups = b.shape[0] if len(b.shape) == 3 else call.outputs[0].shape[0]
    m, k = a.shape[-2:]
    attributes = (("groups", groups), ("m", m), ("n", b.shape[-1]), ("k", k), ("layout", _layout(a, b)))
    weights = b.num_bytes * min(groups, m) // groups if len(b.shape) == 3 else b.num_bytes
    return OperatorWork(
        OperationKind.GROUPED_MATMUL, flops=flops, read_bytes=a.num_bytes + weights, attributes=attributes
    )
