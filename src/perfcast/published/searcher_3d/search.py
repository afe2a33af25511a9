"""The 3D-parallelism searcher: the fastest (data, tensor, pipeline) plan by constant efficiencies.

SoonHo Kim, course report "Main project report", and its class ``Searcher``. ``python -m
perfcast.published.searcher_3d CLUSTER.json MODEL.json --output FILE`` writes the time of every plan and
prints the fastest. Rooms: none but the ground (errors, files): constants need no cost model.
With d, t, p the degrees, times are milliseconds of one iteration, for a global batch:

    e        = 0.35 / (1 + 0.20 (d−1)) / (1 + 0.25 (t−1)) / (1 + 0.1 |d−t|)
    compute  = 1000 · 3 Σ layer_tflops / (gpu_gflops/1000 · d · t) / e,  divided once more by 0.60 if p > 1
    tensor   = 1000 · (tp_comm_sum_MB / t) · 2 (t−1)/t / (bw_gpu_to_gpu · 1024)
    data     = 1000 · dp_sum_gradient_MB · 2 (d−1)/d / (B · 1024),  B = bw_gpu_to_gpu if d ≤ n_gpu_per_node
               else bw_inter_node
    pipeline = 1000 · (p−1) · 2 · max(layer_activation_MB) / (bw_gpu_to_gpu · 1024)

and their sum, in this order; 3 counts forward and backward. Plans are all d·t·p = devices with
p ≤ num_layers, in the order d, t, p; the first of the least time wins, or (1, 1, devices) if there is none.

Oddities of the original that are kept: compute is not divided by p; 1024 mixes binary and decimal prefixes;
tensor traffic always takes the link inside a node; memory is never looked at. What differs: degrees are found
as divisors, not by trying all numbers (same order, same result); the file goes where it is told, whole or not
at all; input that the original would choke on or price at NaN is refused.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from perfcast.errors import InputError, PerfcastError
from perfcast.files.writing import check_writable, write_text_atomically
from perfcast.printer.streams import say
from perfcast.published.comparison import print_part
from perfcast.published.searcher_3d.files import SearcherCluster, SearcherModel, read_cluster, read_model

BASE_EFFICIENCY = 0.35
DATA_PENALTY = 0.20
TENSOR_PENALTY = 0.25
IMBALANCE_PENALTY = 0.1
PIPELINE_OVERLAP = 0.60
MB_PER_GB = 1024

#: Data-, tensor- and pipeline-parallel degrees.
Plan = tuple[int, int, int]


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
        if options.workers < 1:
            raise InputError(f"--workers {options.workers}: at least one process must do the work")
        check_writable(options.output)
        cluster, model = read_cluster(options.cluster), read_model(options.model)
        winner, times = search(cluster, model, options.workers)
        write_text_atomically(options.output, format_times(times))
    except PerfcastError as error:
        say(f"error: {error}", is_error=True)
        return 2
    say(f"best (data, tensor, pipeline): {winner}")
    return 0


if __name__ == "__main__":
    print_part("searcher_3d.search", "searcher_3d")
