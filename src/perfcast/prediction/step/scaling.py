"""What operations of a long step take beyond their prices: factors by kind of operation, die and network.

A price is that of a kernel or a collective alone, on a device that is cool and does nothing else. In a step
that lasts, clocks fall, caches are shared and collectives meet those of others. The data file states each
factor's source; operations of attention also depend on the generation of the kernel that a program calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.collective import group_ranks
from perfcast.core.dtype import DType
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import MATRIX_KINDS, Operation, OperationKind
from perfcast.core.training import Training
from perfcast.cost.learned.figures import streams_weights
from perfcast.errors import CatalogError
from perfcast.figures import parse_figure, parse_table, parse_toml
from perfcast.frameworks.load import load_training_profile

#: Classes of operations: products, those of at most eight bits, attention, other kernels, collectives inside
#: a node, and between nodes.
CLASSES = ("products", "products_8bit", "attention", "memory", "node", "network")
_EIGHT_BITS = frozenset({DType.FP8, DType.INT8, DType.FP6, DType.FP4, DType.INT4})


@dataclass(frozen=True)
class StepScaling:
    """Factors on seconds, 1 where none is known.

    Attributes:
        factors: By class of operation.
        dies: By die, of products of more than eight bits and of attention.
        networks: By kind of network, of collectives between nodes.
        attention: By 'flash1 ampere' and the like: seconds over those of the newest kernel of a device.
    """

    factors: Mapping[str, float]
    dies: Mapping[str, float]
    networks: Mapping[str, float]
    attention: Mapping[str, float]


@cache
def load_step_scaling() -> StepScaling:
    """The shipped factors."""
    return parse_step_scaling(Path(str(resources.files("perfcast.prediction.step") / "constants.toml")))


def parse_step_scaling(path: Path) -> StepScaling:
    """Factors of a file, checked.

    Raises:
        CatalogError: A class that is none, a figure without unit or source.
    """
    content = parse_toml(path)
    sources = parse_table(content, "sources", path.name)

    def figures(key: str) -> Mapping[str, float]:
        rows = parse_table(content, key, path.name)
        return MappingProxyType(
            {
                name: parse_figure(row, sources, f"{path.name}.{key}.{name}").si_value
                for name, row in rows.items()
            }
        )

    factors = figures("factors")
    for name in sorted(set(factors) - set(CLASSES)):
        raise CatalogError(f"{path.name}: {name} is no class of operations; known: {', '.join(CLASSES)}")
    attention = {name.replace("_", " "): value for name, value in figures("attention").items()}
    return StepScaling(factors, figures("dies"), figures("networks"), MappingProxyType(attention))


def operation_classes(
    operations: Sequence[Operation], cluster: Cluster | None, device: Device | None = None
) -> Integers:
    """Index into ``CLASSES`` of each operation.

    Args:
        device: Of inference: a product that only waits for its weights loads the units little, so that no
            clock falls, and counts as a kernel that streams memory. None: of training, where all count.
    """
    classes = [_class(operation, cluster, device) for operation in operations]
    return np.array([CLASSES.index(name) for name in classes], dtype=np.int64)


def _class(operation: Operation, cluster: Cluster | None, device: Device | None) -> str:
    if operation.kind is OperationKind.COLLECTIVE:
        return "network" if cluster is not None and leaves_node(operation, cluster) else "node"
    if operation.kind is OperationKind.ATTENTION:
        return "attention"
    if device is not None and operation.kind in MATRIX_KINDS and streams_weights(operation, device):
        return "memory"
    if operation.kind in MATRIX_KINDS:
        return "products_8bit" if operation.compute_dtype in _EIGHT_BITS else "products"
    return "memory"


def leaves_node(operation: Operation, cluster: Cluster) -> bool:
    """Whether a collective has members below different parents of the outermost level."""
    inner = cluster.num_devices // cluster.levels[-1].size
    ranks = group_ranks(operation)
    return ranks[0] // inner != ranks[-1] // inner


def class_factors(
    scaling: StepScaling, device: Device, cluster: Cluster | None, training: Training | None
) -> Floats:
    """Factor of each of ``CLASSES``."""
    die = scaling.dies.get(device.die, 1.0)
    version = _flash_version(training) if training is not None else None
    generation = scaling.attention.get(f"flash{version} {device.architecture}", 1.0) if version else 1.0
    network = scaling.networks.get(network_of(cluster), 1.0) if cluster is not None else 1.0
    own = {"products": die, "attention": die * generation, "network": network}
    products = scaling.factors.get("products", 1.0)
    shared = {"attention": products} | dict(scaling.factors)
    return np.array([shared.get(name, 1.0) * own.get(name, 1.0) for name in CLASSES])


def _flash_version(training: Training) -> int | None:
    """As stated, else that which the program calls; None: the newest of a device."""
    return training.flash_version or load_training_profile(training.framework).kernels.flash_version


def network_of(cluster: Cluster) -> str:
    """Kind of the network between nodes, without its generation: 'infiniband', 'efa'."""
    return cluster.levels[-1].link.kind.partition("-")[0]


def scale_seconds(
    seconds: Mapping[Operation, float],
    device: Device,
    cluster: Cluster | None = None,
    training: Training | None = None,
    scaling: StepScaling | None = None,
) -> dict[Operation, float]:
    """Seconds of operations in a step from those of operations alone."""
    factors = class_factors(scaling or load_step_scaling(), device, cluster, training)
    operations = list(seconds)
    classes = operation_classes(operations, cluster, None if training is not None else device)
    scaled = np.array([seconds[operation] for operation in operations]) * factors[classes]
    return dict(zip(operations, scaled.tolist(), strict=True))
