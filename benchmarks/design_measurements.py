"""Order the kernels of ``perfcast measure kernels`` by what they tell, and write ``measure/few/order.toml``.

Run by hand: ``python benchmarks/design_measurements.py [FILE]``. The reference are the kernels of some
steps, by their share of the step's time on devices whose kernels nobody measured; each step and each device
counts alike. Devices without bf16 and fp8 get kernels of their own at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.learned.corrections.covariance import load_covariance
from perfcast.cost.learned.corrections.load import estimate_measured
from perfcast.cost.learned.corrections.measured import MeasuredKernel, MeasuredKernels
from perfcast.files.writing import write_text_atomically
from perfcast.measure.correct import as_kernels
from perfcast.measure.few import design
from perfcast.measure.few.cases import FewCase, few_cases
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.request.one_device import Request

_FILE = Path(design.__file__).parent / "order.toml"
_DEVICES = ("rtx-pro-6000-workstation", "rtx-4090", "h20")
_OLDER = "rtx-2080-ti"
_OLDER_COUNT = 16
_STEPS = (
    Request(model="gpt2-large", batch_size=8, dtype="bf16"),
    Request(model="gpt2", batch_size=8, dtype="fp32"),
    Request(model="bert-large", batch_size=16, sequence_length=512, dtype="fp16"),
    Request(model="resnet-50", batch_size=64, dtype="fp16"),
    Request(model="vit-b-16", batch_size=64, dtype="bf16"),
    Request(model="llama3-8b", mode="prefill", batch_size=1, sequence_length=8192, dtype="bf16"),
    Request(model="llama3-8b", mode="prefill", batch_size=4, sequence_length=1024, dtype="bf16"),
    Request(model="llama3-8b", mode="decode", batch_size=64, sequence_length=8192, dtype="bf16"),
    Request(model="llama3-8b", mode="decode", batch_size=4, sequence_length=2048, dtype="bf16"),
)
#: Steps whose products count once more in fp8, where a device has it.
_ALSO_IN_FP8 = (6, 7)


#: Heads that share keys.
_MOST_GROUP = 8


def main() -> int:
    """Design, print and write."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else _FILE
    cases = list(few_cases().values())
    names = _order(cases, [load_device(name) for name in _DEVICES], design.FEW)
    older = [case for case in cases if case.runs_on(load_device(_OLDER))]
    names += [n for n in _order(older, [load_device(_OLDER)], _OLDER_COUNT) if n not in names]
    for number, name in enumerate(names, 1):
        print(f"{number:3} {name}")
    lines = "".join(f'  "{name}",\n' for name in names)
    head = "# The kernel that tells most first: written by python benchmarks/design_measurements.py.\n"
    write_text_atomically(path, f"{head}names = [\n{lines}]\n")
    return 0


def _order(cases: Sequence[FewCase], devices: Sequence[Device], count: int) -> list[str]:
    """Greedy over all devices together: gains are summed by repeating the reference for each."""
    covariance, ranks = load_covariance(), np.zeros(len(cases))
    for device in devices:
        able = [i for i, case in enumerate(cases) if case.runs_on(device)]
        kernels = [cases[i].kernel(1.0, device.vendor, is_cold=not cases[i].is_warm) for i in able]
        reference, weights = _reference(device)
        candidates = estimate_measured(MeasuredKernels(device.name, tuple(kernels)), device)[1]
        asked = estimate_measured(MeasuredKernels(device.name, tuple(reference)), device)[1]
        gains = weights / (covariance.shared(asked) + covariance.alone(asked))
        order = design.order_by_gain(candidates, asked, gains, covariance, count)
        for place, chosen in enumerate(order):
            ranks[able[chosen]] += 1.0 / (place + 4.0)
    return [cases[i].name for i in np.argsort(-ranks, kind="stable")[:count].tolist() if ranks[i] > 0]


def _reference(device: Device) -> tuple[list[MeasuredKernel], np.ndarray]:
    """Kernels of the steps, and each one's share of its step."""
    kernels: list[MeasuredKernel] = []
    weights: list[float] = []
    for number, request in enumerate(_STEPS):
        if request.dtype not in {d.label for d in device.matrix_flops_per_second} | {"fp32"}:
            continue
        graph, _ = build_graph(request, device)
        operations, counts = _counted(graph.operations, [node.operation for node in graph.nodes])
        names = [f"{number} {i}" for i in range(len(operations))]
        some = as_kernels(names, operations, [1.0] * len(operations), device.vendor, is_cold=True)
        seconds = estimate_measured(MeasuredKernels(device.name, tuple(some)), device)[0]
        spent = seconds * np.array([counts[int(kernel.name.split()[1])] for kernel in some])
        some = [_as_served(kernel) for kernel in some]
        kernels += some
        weights += (spent / spent.sum()).tolist()
        if number in _ALSO_IN_FP8 and DType.FP8 in device.matrix_flops_per_second:
            products = [i for i, kernel in enumerate(some) if kernel.family is KernelFamily.PRODUCT]
            kernels += [_in_fp8(some[i]) for i in products]
            weights += (spent[products] / spent.sum()).tolist()
    return kernels, np.array(weights)


def _as_served(kernel: MeasuredKernel) -> MeasuredKernel:
    """Decoding by transformers makes a group's heads queries of one; serving has a kernel for it."""
    if kernel.family is not KernelFamily.ATTENTION or kernel.sizes["num_queries"] > _MOST_GROUP:
        return kernel
    heads = kernel.sizes["num_heads"] * kernel.sizes["num_queries"]
    sizes = {**kernel.sizes, "num_queries": 1.0, "num_heads": heads}
    return replace(kernel, sizes=sizes, words={**kernel.words, "operation": "generation"})


def _in_fp8(kernel: MeasuredKernel) -> MeasuredKernel:
    return replace(kernel, name=f"{kernel.name} fp8", words={**kernel.words, "dtype": "fp8"})


def _counted(operations: Sequence[Operation], nodes: Sequence[int]) -> tuple[list[Operation], np.ndarray]:
    counts = np.bincount(nodes, minlength=len(operations)).astype(float)
    kept = [i for i, operation in enumerate(operations) if not operation.is_free and counts[i]]
    return [operations[i] for i in kept], counts[kept]


if __name__ == "__main__":
    sys.exit(main())
