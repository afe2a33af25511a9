"""Products whose operand comes narrow out of the kernel before: their measured call, less its quantisation.

Serving frameworks' linear layers were timed from a 16-bit operand: the largest magnitude is found ('fp8'
alone), the operand scaled and rounded, then multiplied. Both steps were timed alone too; where a norm or an
activation has done them, they are taken off (as aiconfigurator derives static fp8 from its dynamic rows:
sdk/operations/gemm.py, ``query`` with ``low_precision_input``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelFamily, build_kernel_table
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.cost.learned.corrections.moved import MovedFamily
from perfcast.cost.learned.predictor import FittedFamily

#: No product is more than this much faster for having its operand quantised before.
_LEAST_SHARE = 0.4
#: Formats that are priced by fp8's calls, and whose kernel that looks for the scale is worth taking off
#: (vLLM's takes about 1 µs; SGLang's finds it in the kernel that scales).
_PRICED_AS_FP8, _SEARCHES_SCALE = ("fp8", "fp8_static", "fp8_token"), "trtllm"
_KNOWS_SCALE = "fp8_static"
#: Frameworks whose quantisation was timed as a kernel, not with a host in it.
_TIMED = ("trtllm", "vllm")


def quantised_products(operations: Sequence[Operation]) -> Integers:
    """Which operations find their operand quantised, or its scale known."""
    found = [i for i, operation in enumerate(operations) if _is_quantised(operation) or _knows(operation)]
    return np.array(found, dtype=np.int64)


def _is_quantised(operation: Operation) -> bool:
    return operation.attribute("is_quantised") is True


def _knows(operation: Operation) -> bool:
    is_product = operation.kind is OperationKind.MATMUL
    return is_product and operation.attribute("format") == _KNOWS_SCALE


def share_without_quantisation(
    operations: Sequence[Operation],
    seconds: Floats,
    device: Device,
    framework: str,
    load: Callable[[str], FittedFamily | MovedFamily],
) -> Floats:
    """Seconds of products without their quantisation, over their measured call's ``seconds``; shape [n]."""
    m, k = (np.array([float(_size(o, name)) for o in operations]) for name in ("m", "k"))
    timed = framework if framework in _TIMED else _TIMED[0]
    is_fp8 = [o.attribute("format") in _PRICED_AS_FP8 for o in operations]
    searches = np.array(is_fp8) & (framework == _SEARCHES_SCALE)
    scales = np.array([_is_quantised(operation) for operation in operations])
    taken = np.zeros(len(operations))
    for name, written, rows in (
        ("quant_compute_scale", np.full(len(m), 4.0), searches),
        ("quant_scale_matrix", m * k, scales),
    ):
        table = build_kernel_table(
            KernelFamily.ROWS, len(m), num_rows=m, row_length=k, read_bytes=2 * m * k, written_bytes=written,
            operation=name, dtype="fp8", framework=timed,
        )  # fmt: skip
        priced = load("rows").estimate(table, [device], np.zeros(len(m), dtype=np.int64))
        taken += np.where(rows, priced.seconds, 0.0)
    return np.maximum(1.0 - taken / seconds, _LEAST_SHARE)


def _size(operation: Operation, name: str) -> int:
    value = operation.attribute(name)
    assert isinstance(value, int)
    return value
