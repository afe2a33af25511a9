"""Time to price many different operations with the learned cost model, in a fresh process.

Run by hand: ``python benchmarks/learned_pricing.py [FOLDER [COUNT]]`` with a folder of fitted models (the
shipped ones by default). Prints wall-clock and processor seconds of the first call, which reads the files and
is meant to stay under the limit, and of the second, which finds most prices kept.

The limit holds for twice what the largest searches price (Megatron-1T on 16,384 devices: 6,129 operations). A
price that never falls is read from some 25 canonical sizes of its kernel's class, all of which the fit is
asked for, so that operations of as many classes take as many times what single ones did.
"""

from __future__ import annotations

import os
import platform
import random
import resource
import sys
import time
from pathlib import Path

from goals import Row, report

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation
from perfcast.core.tensor import TensorType
from perfcast.cost.learned.model import LearnedCost
from perfcast.workload.rules import OperatorCall, operation_of

COUNT = 12_000
MOST_SECONDS = 2.0
DEVICE = "t4"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    operations, device = different_operations(count), load_device(DEVICE)
    model = LearnedCost(folder=folder)
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{len(operations)} different operations on {DEVICE}")
    print(f"{'':8} {'wall s':>8} {'cpu s':>8} {'limit':>6}")
    what, rows = f"{len(operations):,} different operations priced in one call", list[Row]()
    for name in ("first", "second"):
        began, begun = time.perf_counter(), cpu_seconds()
        model.estimate(operations, device)
        wall, cpu = time.perf_counter() - began, cpu_seconds() - begun
        goal = MOST_SECONDS if name == "first" else None
        print(f"{name:8} {wall:8.2f} {cpu:8.2f} {goal or '':>6}")
        rows.append(Row(f"{what}, {name}", cpu, "CPU s", goal, source="stated here" if goal else ""))
    return report(rows)


def cpu_seconds() -> float:
    """Of this process and its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def different_operations(count: int) -> list[Operation]:
    """A fifth each of products, batched products, element-wise kernels, softmaxes and norms, in fp32."""
    draw, makers = random.Random(0), (product, batched, elementwise, softmax, norm)
    found: dict[Operation, None] = {}
    while len(found) < count:
        found[makers[len(found) % len(makers)](draw)] = None
    return list(found)


def size(draw: random.Random, most: int) -> int:
    """Log-uniform from 1 to ``most``."""
    return round(most ** draw.random())


def dense(*shape: int) -> TensorType:
    """Row-major, fp32."""
    strides = [1]
    for length in reversed(shape[1:]):
        strides.append(strides[-1] * length)
    return TensorType(shape, DType.FP32, tuple(reversed(strides)))


def call(name: str, args: tuple[object, ...], *outputs: TensorType) -> Operation:
    """What capture would record."""
    return operation_of(OperatorCall(name, args, {}, outputs))


def product(draw: random.Random) -> Operation:
    m, n, k = (size(draw, 16384) for _ in range(3))
    return call("mm", (dense(m, k), dense(k, n)), dense(m, n))


def batched(draw: random.Random) -> Operation:
    batch, m, n, k = (size(draw, most) for most in (512, 2048, 2048, 2048))
    return call("bmm", (dense(batch, m, k), dense(batch, k, n)), dense(batch, m, n))


def elementwise(draw: random.Random) -> Operation:
    rows = dense(size(draw, 65536), size(draw, 16384))
    if draw.random() < 0.5:
        return call(draw.choice(["add.Tensor", "mul.Tensor", "div.Tensor"]), (rows, rows), rows)
    return call(draw.choice(["gelu", "tanh", "relu"]), (rows,), rows)


def softmax(draw: random.Random) -> Operation:
    rows = dense(size(draw, 65536), size(draw, 16384))
    return call("_softmax", (rows, -1, False), rows)


def norm(draw: random.Random) -> Operation:
    num_rows, length = size(draw, 65536), size(draw, 16384)
    rows, statistics = dense(num_rows, length), dense(num_rows, 1)
    return call("native_layer_norm", (rows, [length]), rows, statistics, statistics)


if __name__ == "__main__":
    sys.exit(main())
