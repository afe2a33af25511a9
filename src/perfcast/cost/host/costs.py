"""What an operator costs the host, by class and by how the program runs; ``costs.toml`` has the sources."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal, get_args

from perfcast.core.operation import Operation, OperationKind
from perfcast.units import MIB, MICRO

OperatorClass = Literal[
    "allocation", "light", "copy", "indexing", "normalisation", "batch_norm", "product", "attention",
    "convolution", "recurrent", "collective",
]  # fmt: skip
OPERATOR_CLASSES: tuple[OperatorClass, ...] = get_args(OperatorClass)

#: Classes of kinds; all others are light: one kernel, few arguments.
_CLASS_OF_KIND: Mapping[OperationKind, OperatorClass] = {
    OperationKind.ALLOCATION: "allocation",
    OperationKind.COPY: "copy",
    OperationKind.INDEXING: "indexing",
    OperationKind.SORT: "indexing",
    OperationKind.NORMALIZATION: "normalisation",
    OperationKind.MATMUL: "product",
    OperationKind.BATCHED_MATMUL: "product",
    OperationKind.GROUPED_MATMUL: "product",
    OperationKind.ATTENTION: "attention",
    OperationKind.LINEAR_ATTENTION: "attention",
    OperationKind.CONVOLUTION: "convolution",
    OperationKind.RECURRENT: "recurrent",
    OperationKind.COLLECTIVE: "collective",
}


@dataclass(frozen=True, kw_only=True)
class EagerCosts:
    """Seconds of the host for what an eager program asks of it, on the reference processor.

    Attributes:
        operators: One operator that Python calls, its launches with it, by class.
        view: An operator that launches nothing.
        module_call: Of ``nn.Module``, without what its forward does.
        recorded_operator, recorded_view: What autograd adds in a forward that it records.
        backward_node, backward_view: A node of autograd's graph as it runs, a view in it.
        backward_share: Of an operator's cost, where C++ calls it.
        tensor: Each tensor of an optimizer's call over many.
    """

    operators: Mapping[OperatorClass, float]
    view: float
    module_call: float
    recorded_operator: float
    recorded_view: float
    backward_node: float
    backward_view: float
    backward_share: float
    tensor: float


@dataclass(frozen=True, kw_only=True)
class CompiledCosts:
    """Of compiled code: a generated kernel, a library call, a call of a region and each parameter in it."""

    kernel: float
    library: float
    region: float
    parameter: float


@dataclass(frozen=True, kw_only=True)
class HostCosts:
    """Seconds on the reference processor.

    Attributes:
        eager: As programs run it: the warm costs times ``program`` of the file.
        graph_launch, graph_kernel: A launch of a CUDA graph, and each kernel in it.
        driver_request, driver_byte: A request for memory from the driver, and each byte of it.
        spread: How far a program may be from this, as a factor either way, 90 % of the time.
    """

    eager: EagerCosts
    compiled: CompiledCosts
    graph_launch: float
    graph_kernel: float
    driver_request: float
    driver_byte: float
    spread: float


def class_of(operation: Operation) -> OperatorClass:
    """Which class an operator is in."""
    if operation.kind is OperationKind.NORMALIZATION and "batch_norm" in operation.name:
        return "batch_norm"
    return _CLASS_OF_KIND.get(operation.kind, "light")


def cost_file() -> Traversable:
    """The file of constants."""
    return resources.files("perfcast.cost.host") / "costs.toml"


@cache
def load_host_costs() -> HostCosts:
    """The constants that are shipped."""
    return parse_host_costs(cost_file().read_text(encoding="utf-8"))


def parse_host_costs(text: str) -> HostCosts:
    """The constants of a file's text."""
    content = tomllib.loads(text)
    warm, factor = content["warm"], float(content["program"]) * MICRO
    seconds = {name: factor * value for name, value in warm.items() if isinstance(value, int | float)}
    operators = {name: factor * float(warm["operators"][name]) for name in OPERATOR_CLASSES}
    seconds["backward_share"] = float(warm["backward_share"])
    compiled, graphs, driver = content["compiled"], content["graphs"], content["driver"]
    return HostCosts(
        eager=EagerCosts(operators=operators, **seconds),
        compiled=CompiledCosts(**{name: MICRO * float(value) for name, value in compiled.items()}),
        graph_launch=MICRO * float(graphs["launch"]),
        graph_kernel=MICRO * float(graphs["kernel"]),
        driver_request=MICRO * float(driver["request"]),
        driver_byte=MICRO * float(driver["mebibyte"]) / MIB,
        spread=float(content["spread"]),
    )
