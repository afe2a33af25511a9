"""The files of the 3D-parallelism searcher: figures of a cluster and of a model, checked.

The study's units are kept in the names, since its numbers enter the formulas unscaled; numbers stay the
integers or floats that the file has, so that every rounding is the original's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.errors import InputError
from perfcast.files.reading import read_json
from perfcast.published.comparison import print_part

#: Beyond it, listing the plans would take longer than a search may.
MAX_DEVICES = 10**9


@dataclass(frozen=True)
class SearcherCluster:
    """What the model reads of a cluster file.

    Attributes:
        gpu_gigaflops_per_second: Peak of one device.
        node_link_gigabytes_per_second, network_gigabytes_per_second: Inside a node; between nodes.
    """

    num_nodes: int
    devices_per_node: int
    gpu_gigaflops_per_second: float
    node_link_gigabytes_per_second: float
    network_gigabytes_per_second: float

    @property
    def num_devices(self) -> int:
        """Of all nodes."""
        return self.num_nodes * self.devices_per_node


@dataclass(frozen=True)
class SearcherModel:
    """What the model reads of a model file.

    Attributes:
        layer_teraflops: Forward work of each layer for the global batch.
        tensor_traffic_megabytes: What tensor parallelism sums up in an iteration.
        layer_activation_megabytes: Output of each layer.
    """

    num_layers: int
    layer_teraflops: tuple[float, ...]
    tensor_traffic_megabytes: float
    gradient_megabytes: float
    layer_activation_megabytes: tuple[float, ...]


def read_cluster(path: str | Path) -> SearcherCluster:
    """A cluster file: n_node, n_gpu_per_node, gpu_gflops, bw_gpu_to_gpu, bw_inter_node.

    Raises:
        InputError: Not readable, or a figure that is missing or impossible; so many devices that a search
            would not end.
    """
    reader = _Reader(path)
    cluster = SearcherCluster(
        num_nodes=reader.count("n_node"),
        devices_per_node=reader.count("n_gpu_per_node"),
        gpu_gigaflops_per_second=reader.rate("gpu_gflops"),
        node_link_gigabytes_per_second=reader.rate("bw_gpu_to_gpu"),
        network_gigabytes_per_second=reader.rate("bw_inter_node"),
    )
    if cluster.num_devices > MAX_DEVICES:
        raise InputError(f"{path}: {cluster.num_devices} devices are more than {MAX_DEVICES}")
    return cluster


def read_model(path: str | Path) -> SearcherModel:
    """A model file: num_layers, layer_tflops, layer_activation_MB, tp_comm_sum_MB, dp_sum_gradient_MB.

    Raises:
        InputError: Not readable, or a figure that is missing or impossible.
    """
    reader = _Reader(path)
    return SearcherModel(
        num_layers=reader.count("num_layers"),
        layer_teraflops=reader.amounts("layer_tflops"),
        tensor_traffic_megabytes=reader.amount("tp_comm_sum_MB"),
        gradient_megabytes=reader.amount("dp_sum_gradient_MB"),
        layer_activation_megabytes=reader.amounts("layer_activation_MB"),
    )


class _Reader:
    """Figures of a JSON object, checked; every complaint names the file and the key."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._values = _read_object(path)

    def count(self, key: str) -> int:
        """A whole number from 1."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._complaint(key, value, "is not a whole number above zero")
        return value

    def rate(self, key: str) -> float:
        """A finite number above zero."""
        value = self.amount(key)
        if value == 0:
            raise self._complaint(key, value, "is not above zero")
        return value

    def amount(self, key: str) -> float:
        """A finite number from 0."""
        return self._check(key, self._value(key))

    def amounts(self, key: str) -> tuple[float, ...]:
        """A list of such numbers, one a layer; not empty."""
        values = self._value(key)
        if not isinstance(values, list) or not values:
            raise self._complaint(key, values, "is not a list of numbers, one a layer")
        return tuple(self._check(f"{key}[{index}]", value) for index, value in enumerate(values))

    def _value(self, key: str) -> Any:
        if key not in self._values:
            raise InputError(f"{self._path}: the key '{key}' is missing")
        return self._values[key]

    def _check(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_amount(value):
            raise self._complaint(key, value, "is not a finite number from 0")
        return value

    def _complaint(self, key: str, value: Any, fault: str) -> InputError:
        text = repr(value)
        return InputError(f"{self._path}: {key} = {text if len(text) <= 40 else text[:40] + '…'} {fault}")


def _is_amount(value: float) -> bool:
    try:
        return math.isfinite(value) and value >= 0
    except OverflowError:
        return False


def _read_object(path: str | Path) -> Mapping[str, Any]:
    values = read_json(path, what="the figures")
    if not isinstance(values, dict):
        raise InputError(f"{path} holds no JSON object of figures")
    return values


if __name__ == "__main__":
    print_part("searcher_3d.files", "searcher_3d")
