"""Which plan a forecast would have chosen among the measured ones, and what that would have cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perfcast.catalog.devices import load_device
from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.weights import count_parameters
from perfcast.published.searcher_3d import price_plan
from perfcast.published.searcher_3d_input import SearcherCluster, SearcherModel
from perfcast.units import GIGA, MEGA, MILLI, TERA
from perfcast.validate.published_cases import PublishedCase
from perfcast.validate.published_summary import LEAST_PLANS
from perfcast.workload.blocks.flops import flops_per_sequence

#: How much slower than the best measured plan a good choice may be.
TOLERANCE = 0.15
#: Among so many of the first the best measured plan is looked for.
FIRST = 5
_SAME_JOB = (
    "model", "layers", "hidden", "seq_len", "device", "num_gpus", "global_batch", "precision",
)  # fmt: skip
#: Bytes of a number that is exchanged.
_HALF = 2
#: Sums over a tensor-parallel group in forward and backward of a layer (Shoeybi et al., arXiv:1909.08053).
_SUMS_OF_LAYER = 4
_FORWARD_SHARE = 1 / 3

Seconds = Sequence[float | None]


def score_choices(cases: Sequence[PublishedCase], predicted: Mapping[str, Seconds]) -> list[dict[str, Any]]:
    """For each predictor, over groups of plans of one job: how often its first plan is good.

    Args:
        predicted: Seconds of each case by the name of the predictor, or anything that orders plans alike;
            None where there is no forecast. ``searcher_seconds`` gives the published searcher's.
    """
    entries = []
    for name, seconds in predicted.items():
        losses, found = [], []
        for plans in group_plans(cases, seconds):
            forecasts, measured = (np.array(column) for column in zip(*plans, strict=True))
            order = np.argsort(forecasts, kind="stable")
            losses.append(float(measured[order[0]] / measured.min() - 1))
            found.append(int(measured.argmin()) in order[:FIRST])
        if losses:
            entries.append(
                {
                    "predictor": name,
                    "group": "choice of plan",
                    "value": "all",
                    "n": len(losses),
                    "share_within_15_percent": float(np.mean(np.array(losses) <= TOLERANCE)),
                    "share_best_in_first_five": float(np.mean(found)),
                    "median_loss": float(np.median(losses)),
                }
            )
    return entries


def group_plans(cases: Sequence[PublishedCase], seconds: Seconds) -> list[list[tuple[float, float]]]:
    """Of each job with enough plans: forecast and measured seconds of every plan, medians over repeats."""
    groups: defaultdict[Any, defaultdict[Any, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for case, forecast in zip(cases, seconds, strict=True):
        if forecast is None or not case.measured_seconds or case.run is None:
            continue
        key = (case.source, *(case.configuration.get(name) for name in _SAME_JOB))
        groups[key][case.run.run.plan].append((forecast, case.measured_seconds))
    return [
        [(float(np.median([f for f, _ in rows])), float(np.median([m for _, m in rows])))
         for rows in plans.values()]
        for plans in groups.values()
        if len(plans) >= LEAST_PLANS
    ]  # fmt: skip


def searcher_seconds(cases: Sequence[PublishedCase]) -> list[float | None]:
    """What the published searcher's formulas say of each case; it knows dp, tp and pp alone."""
    return [None if case.run is None or case.catalog_device is None else _searched(case) for case in cases]


def _searched(case: PublishedCase) -> float:
    assert case.run is not None
    run, cluster = case.run.run, case.run.cluster
    model, plan = run.model, run.plan
    device = load_device(cluster.device)
    nodes = max(1, cluster.num_devices // cluster.levels[0].size)
    inner, outer = cluster.levels[0].link, cluster.levels[-1].link
    tokens = plan.global_batch_size * run.sequence_length
    activation = tokens * model.hidden_size * _HALF / MEGA
    peak = device.peak_flops_per_second(DTYPES_BY_LABEL[run.training.dtype], matrix_units=True)
    work = plan.global_batch_size * flops_per_sequence(model, run.sequence_length) * _FORWARD_SHARE / TERA
    figures = SearcherCluster(
        num_nodes=nodes, devices_per_node=cluster.levels[0].size, gpu_gigaflops_per_second=peak / GIGA,
        node_link_gigabytes_per_second=inner.bytes_per_second / GIGA,
        network_gigabytes_per_second=outer.bytes_per_second / GIGA,
    )  # fmt: skip
    job = SearcherModel(
        num_layers=model.num_layers, layer_teraflops=(work,),
        tensor_traffic_megabytes=_SUMS_OF_LAYER * model.num_layers * activation,
        gradient_megabytes=count_parameters(model) * _HALF / MEGA, layer_activation_megabytes=(activation,),
    )  # fmt: skip
    degrees = (plan.data_parallel, plan.tensor_parallel, plan.pipeline_parallel)
    return price_plan(figures, job, degrees).total_milliseconds * MILLI
