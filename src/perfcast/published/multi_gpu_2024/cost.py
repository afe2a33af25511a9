"""Prices of whole graphs and of recorded operators by Lin et al.'s kernel models.

    products, convolutions, layer norm    regressors (``predictor``); attention as its products and softmax
    element-wise, reductions, copies       constants (``memory_bound``)
    embedding lookups                      the heuristic (``cost/embedding/heuristic``)

Everything else has no model in the study; it takes the roofline's time and is tagged 'bounded'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcast.core.dtype import DType
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.embedding.heuristic import HeuristicEmbeddingPricer
from perfcast.cost.embedding.model import price_lookups
from perfcast.cost.model import Estimates
from perfcast.errors import PlanError
from perfcast.published.comparison import print_part
from perfcast.published.kernels.graph import StudyCost, build_table_cost
from perfcast.published.multi_gpu_2024.memory_bound import operation_seconds
from perfcast.published.multi_gpu_2024.predictor import NAME, Lin2024, WithoutLaunch, load_lin2024
from perfcast.published.nets.store import read_record

#: Of the memory-bound constants: 5 and 95 % of measured / predicted, where the training did not say.
_WIDE = (0.5, 2.0)


@dataclass(frozen=True, eq=False)
class Lin2024Cost:
    """A cost model.

    Attributes:
        products: Prices what has a regressor.
        constants_ratio: 5 and 95 % of measured / predicted of memory-bound kernels.
    """

    predictor: Lin2024
    products: StudyCost
    constants_ratio: tuple[float, float] = _WIDE

    @property
    def name(self) -> str:
        """Of the predictor."""
        return NAME

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """Price each operation once.

        Raises:
            PlanError: A device without a net, of another vendor, or a product that is not fp32.
        """
        if self.predictor.net_for("product", device) is None:
            known = ", ".join(sorted(self.predictor.nets.get("product", {})))
            raise PlanError(
                f"{NAME} has a regressor for each device that it was trained on ({known}) and none for "
                f"{device.name}; train it on kernels of that device, or use another cost model"
            )
        found = self.products.estimate(operations, device)
        best, low, high = found.seconds.copy(), found.seconds_low.copy(), found.seconds_high.copy()
        provenance = list(found.provenance)
        for index, operation in enumerate(operations):
            own = self._own(operation, device)
            if own is not None:
                best[index], low[index], high[index] = own
                provenance[index] = NAME
        return Estimates(best, low, high, found.bound_by, tuple(provenance))

    def _own(self, operation: Operation, device: Device) -> tuple[float, float, float] | None:
        """Seconds with their interval of what constants or the heuristic price; None for the rest."""
        if operation.is_free or operation.attribute("members") is not None:
            return None
        if operation.name.removeprefix("aten.") in LOOKUPS:
            lookup = lookup_of(operation)
            if lookup is None:
                return None
            priced = price_lookups(HeuristicEmbeddingPricer(device, "sgd"), [lookup], "forward")
            return priced.seconds, priced.seconds_low, priced.seconds_high
        seconds = operation_seconds(operation, device)
        if seconds is None:
            return None
        low, high = self.constants_ratio
        return seconds, seconds * min(low, 1.0), seconds * max(high, 1.0)


#: Operators that look up rows: their first input is the table, the second the indices.
LOOKUPS = frozenset({"embedding", "_embedding_bag", "embedding_bag"})
_INDICES = (DType.INT64, DType.INT32)


def lookup_of(operation: Operation) -> EmbeddingLookup | None:
    """What an operator looks up, each row as likely as any other; None where its shapes do not say."""
    indices = [tensor for tensor in operation.inputs if tensor.dtype in _INDICES and tensor.shape]
    tables = [one for one in operation.inputs if len(one.shape) == 2 and one.dtype not in _INDICES]
    if not tables or not indices or not operation.outputs:
        return None
    rows, dim = tables[0].shape
    bags = math.prod(operation.outputs[0].shape[:-1])
    count = indices[0].num_elements
    if not (rows and dim and bags and count):
        return None
    return EmbeddingLookup(rows, dim, bags, count / bags, tables[0].dtype, indices[0].dtype)


def load_lin2024_cost(folder: Path) -> Lin2024Cost:
    """The cost model on the predictor in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    predictor, record = load_lin2024(folder), read_record(folder, NAME)
    alone = WithoutLaunch(predictor, record["launch_floors"])
    study = build_table_cost(alone, {**record, "nets": record["errors_of_kernels"]})
    constants = record["errors_of_kernels"]["vec"]
    return Lin2024Cost(predictor, study, (constants["ratio_low"], constants["ratio_high"]))


if __name__ == "__main__":
    print_part("multi_gpu_2024.cost", "multi_gpu_2024")
