"""The 3D-parallelism searcher: the fastest (data, tensor, pipeline) plan by constant efficiencies.

SoonHo Kim, course report "Main project report", and its class ``Searcher``. ``python -m
perfcast.published.searcher_3d CLUSTER.json MODEL.json --output FILE`` writes the time of every plan and prints
the fastest; rooms: the errors and the atomic writer alone, since a cost model of constants needs no other.
With d, t, p the degrees, times are milliseconds of one iteration, for a global batch:

    e        = 0.35 / (1 + 0.20 (d−1)) / (1 + 0.25 (t−1)) / (1 + 0.1 |d−t|)
    compute  = 1000 · 3 Σ layer_tflops / (gpu_gflops/1000 · d · t) / e,  divided once more by 0.60 if p > 1
    tensor   = 1000 · (tp_comm_sum_MB / t) · 2 (t−1)/t / (bw_gpu_to_gpu · 1024)
    data     = 1000 · dp_sum_gradient_MB · 2 (d−1)/d / (B · 1024),  B = bw_gpu_to_gpu if d ≤ n_gpu_per_node
               else bw_inter_node
    pipeline = 1000 · (p−1) · 2 · max(layer_activation_MB) / (bw_gpu_to_gpu · 1024)

and their sum, in this order; 3 counts forward and backward. Plans are all d·t·p = devices with p ≤ num_layers,
in the order d, t, p; the first of the least time wins, and (1, 1, devices) where there is none.

Oddities of the original that are kept: compute is not divided by p; 1024 mixes binary and decimal prefixes;
tensor traffic always takes the link inside a node; memory is never looked at. What differs: degrees are found
as divisors, not by trying all numbers (same order, same result), and input that the original would choke on or
price at NaN is refused. Its units are kept in the names, since its numbers enter the formulas unscaled; numbers
stay the integers or floats that the file has, so that every rounding is the original's.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from perfcast.errors import InputError, PerfcastError
from perfcast.files import check_writable, write_text_atomically

BASE_EFFICIENCY = 0.35
DATA_PENALTY = 0.20
TENSOR_PENALTY = 0.25
IMBALANCE_PENALTY = 0.1
PIPELINE_OVERLAP = 0.60
MB_PER_GB = 1024
#: Beyond it, finding the divisors would take longer than any such cluster deserves.
MAX_DEVICES = 10**12

#: Data-, tensor- and pipeline-parallel degrees.
Plan = tuple[int, int, int]


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


@dataclass(frozen=True)
class PlanTime:
    """Milliseconds of one iteration under a plan, by cause."""

    plan: Plan
    compute_milliseconds: float
    tensor_milliseconds: float
    data_milliseconds: float
    pipeline_milliseconds: float

    @property
    def total_milliseconds(self) -> float:
        """The sum, in the original's order."""
        return (
            self.compute_milliseconds
            + self.tensor_milliseconds
            + self.data_milliseconds
            + self.pipeline_milliseconds
        )


def list_plans(num_devices: int, num_layers: int) -> list[Plan]:
    """Every (d, t, p) with d·t·p = ``num_devices`` and p ≤ ``num_layers``, by d, then t, then p."""
    divisors = _divisors(num_devices)
    return [
        (data, tensor, num_devices // data // tensor)
        for data in divisors
        for tensor in divisors
        if num_devices // data % tensor == 0 and num_devices // data // tensor <= num_layers
    ]


def _divisors(number: int) -> list[int]:
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return small + [number // i for i in reversed(small) if i * i != number]


def price_plan(cluster: SearcherCluster, model: SearcherModel, plan: Plan) -> PlanTime:
    """The time of one plan by the formulas above."""
    data, tensor, pipeline = plan
    link = cluster.node_link_gigabytes_per_second
    within_node = data <= cluster.devices_per_node
    return PlanTime(
        plan,
        _compute_milliseconds(cluster, model, plan),
        _transfer_milliseconds((model.tensor_traffic_megabytes / tensor) * 2 * (tensor - 1) / tensor, link),
        _transfer_milliseconds(
            model.gradient_megabytes * 2 * (data - 1) / data,
            link if within_node else cluster.network_gigabytes_per_second,
        ),
        _transfer_milliseconds((pipeline - 1) * 2 * max(model.layer_activation_megabytes), link),
    )


def _compute_milliseconds(cluster: SearcherCluster, model: SearcherModel, plan: Plan) -> float:
    data, tensor, pipeline = plan
    efficiency = BASE_EFFICIENCY
    efficiency /= 1 + DATA_PENALTY * (data - 1)
    efficiency /= 1 + TENSOR_PENALTY * (tensor - 1)
    efficiency /= 1 + IMBALANCE_PENALTY * abs(data - tensor)
    teraflops_per_second = cluster.gpu_gigaflops_per_second / 1000 * data * tensor
    seconds = 3 * sum(model.layer_teraflops) / teraflops_per_second / efficiency
    return (seconds / PIPELINE_OVERLAP if pipeline > 1 else seconds) * 1000


def _transfer_milliseconds(megabytes: float, gigabytes_per_second: float) -> float:
    return megabytes / (gigabytes_per_second * MB_PER_GB) * 1000


def price_plans(
    cluster: SearcherCluster, model: SearcherModel, plans: Sequence[Plan], num_workers: int = 1
) -> list[PlanTime]:
    """The time of each plan, in the order of ``plans``, by ``num_workers`` processes (one: this one)."""
    price = partial(price_plan, cluster, model)
    num_workers = min(num_workers, len(plans))
    if num_workers <= 1:
        return [price(plan) for plan in plans]
    share = -(-len(plans) // num_workers)
    with ProcessPoolExecutor(num_workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(price, plans, chunksize=share))


def choose_plan(times: Iterable[PlanTime], num_devices: int) -> Plan:
    """The first plan of the least finite time; (1, 1, devices) where there is none, as in the original."""
    best, least = (1, 1, num_devices), math.inf
    for time in times:
        if time.total_milliseconds < least:
            best, least = time.plan, time.total_milliseconds
    return best


def format_times(times: Iterable[PlanTime]) -> str:
    """The output file, to the byte: ``{"d, t, p": "12.3456ms/iter", …}``."""
    rows = {"{}, {}, {}".format(*time.plan): f"{time.total_milliseconds:.4f}ms/iter" for time in times}
    return json.dumps(rows, indent=4)


def search(
    cluster: SearcherCluster, model: SearcherModel, num_workers: int = 1
) -> tuple[Plan, list[PlanTime]]:
    """The winner, and the time of every plan in the order of the search.

    Raises:
        InputError: No plan has a finite time.
    """
    plans = list_plans(cluster.num_devices, model.num_layers)
    try:
        times = price_plans(cluster, model, plans, num_workers)
    except OverflowError as error:
        raise InputError(f"a figure is too large to compute with: {error}") from error
    if not any(math.isfinite(time.total_milliseconds) for time in times):
        raise InputError(
            f"no valid plan: none of {len(times)} on {cluster.num_devices} devices takes a finite time; "
            f"check the sizes of the work, the traffic and the rates"
        )
    return choose_plan(times, cluster.num_devices), times


def read_cluster(path: str | Path) -> SearcherCluster:
    """A cluster file: JSON with n_node, n_gpu_per_node, gpu_gflops, bw_gpu_to_gpu, bw_inter_node.

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
    """A model file: JSON with num_layers, layer_tflops, tp_comm_sum_MB, dp_sum_gradient_MB, layer_activation_MB.

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
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON text: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} holds no JSON object of figures")
    return values


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code: 0 done, 2 bad input."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m perfcast.published.searcher_3d", description="The fastest 3D-parallel plan."
    )
    parser.add_argument("cluster", metavar="CLUSTER.json")
    parser.add_argument("model", metavar="MODEL.json")
    parser.add_argument("--output", default="output.json", metavar="FILE", help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="default: all processors")
    options = parser.parse_args(arguments)
    try:
        check_writable(options.output)
        cluster, model = read_cluster(options.cluster), read_model(options.model)
        winner, times = search(cluster, model, options.workers)
        write_text_atomically(options.output, format_times(times))
    except PerfcastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("best (data, tensor, pipeline):", winner)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
