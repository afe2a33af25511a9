"""The five nets of NeuSight: what each prices and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.published.comparison import print_part

NUM_LAYERS, WIDTH = 8, 512
NUM_INPUTS, NUM_OUTPUTS = 4, 3


@dataclass(frozen=True)
class NetSpecification:
    """One net.

    Attributes:
        operations: Kernels that train it, by the study's names.
        learning_rate: By vendor, as in the study's configuration files.
        batch_size: Likewise.
        least_rows: Row operations train only on more rows than this, of more than ``least_row_length``.
    """

    operations: tuple[str, ...]
    learning_rate: Mapping[str, float]
    batch_size: int
    least_rows: int = 0
    least_row_length: int = 0


#: Vendors whose devices the study measured; each has nets of its own.
VENDORS = ("nvidia", "amd")

_BINARY = ("add", "mul", "pow", "div")
_UNARY = ("addu", "mulu", "powu", "divu", "relu", "gelu", "tanh")

NETS: Mapping[str, NetSpecification] = {
    "softmax": NetSpecification(("softmax",), {"nvidia": 1e-6, "amd": 1e-5}, 16, 4096, 512),
    "ln": NetSpecification(("ln",), {"nvidia": 1e-6, "amd": 1e-5}, 16, 4096, 512),
    "vec": NetSpecification((*_BINARY, *_UNARY), {"nvidia": 5e-4, "amd": 5e-4}, 64, 8192, 512),
    "linear": NetSpecification(("linear",), {"nvidia": 5e-3, "amd": 1e-3}, 128),
    "bmm": NetSpecification(("bmm",), {"nvidia": 1e-5, "amd": 1e-4}, 128),
}

#: Nets whose kernels are matrix products; the others work on rows.
PRODUCT_NETS = frozenset({"linear", "bmm"})

#: Nets whose tile is a whole row, so that no look-up is needed.
WHOLE_ROW_NETS = frozenset({"softmax", "ln"})

#: Flops per element of the output, as the study counts them; every other kernel is 1.
_FLOPS = {"softmax": 5.0, "ln": 6.0}


def net_of(operation: str) -> str | None:
    """The net that prices a kernel, by the study's name of the kernel."""
    return next((name for name, net in NETS.items() if operation in net.operations), None)


def row_work(operation: str) -> tuple[float, float]:
    """fp32 bytes moved and flops done per element of the output of a row kernel."""
    return (12.0 if operation in _BINARY else 8.0), _FLOPS.get(operation, 1.0)


if __name__ == "__main__":
    print_part("neusight.nets", "neusight")
