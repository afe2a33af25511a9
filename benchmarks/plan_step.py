"""Steps of plans: forecasts with timeline, the closed form after pricing, stragglers of 100,000 devices.

python benchmarks/plan_step.py
"""

from __future__ import annotations

import json
import resource
import time

from goals import Row, report

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.step.predict import predict_plan
from perfcast.prediction.step.prices import price_step
from perfcast.report.timelines.plan_step import about, events_of
from perfcast.report.trace_events import trace_events
from perfcast.simulate.closed_form.step import closed_form_step
from perfcast.simulate.stragglers import parse_slowdowns
from perfcast.units import GIB, KIB, MILLI
from perfcast.workload.blocks import build_step_work

LENGTH = 8192


def plan_of(num_devices: int, num_micro_batches: int) -> Plan:
    """Llama-3-405B's degrees: 8 in a server, 16 stages, the rest replicas."""
    return Plan(
        tensor_parallel=8, pipeline_parallel=16, data_parallel=num_devices // 128, sequence_parallel=True,
        zero_stage=1, num_micro_batches=num_micro_batches,
    )  # fmt: skip


def forecast_seconds(
    model: Transformer, num_devices: int, pricing: CostModel, stragglers: str | None
) -> float:
    """Processor seconds of a whole forecast with its timeline."""
    start = time.process_time()
    forecast = predict_plan(
        model, f"dgx-h100:{num_devices}", plan_of(num_devices, 16), sequence_length=LENGTH,
        cost_model=pricing, with_spans=True,
        stragglers=parse_slowdowns(stragglers) if stragglers else None,
    )  # fmt: skip
    json.dumps(trace_events(events_of(forecast), about(forecast)))
    return time.process_time() - start


def closed_form_seconds(model: Transformer, cluster: Cluster, pricing: CostModel) -> float:
    """CPU seconds, best of ten, prices at hand."""
    plan, training = plan_of(cluster.num_devices, 16), Training(framework="megatron")
    work = build_step_work(model, plan, training, LENGTH)
    device = resolve_device(cluster.device)
    seconds = price_step(work.operations(), device, cluster, pricing, training).seconds
    times = []
    for _ in range(10):
        start = time.process_time()
        closed_form_step(work, seconds)
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    """Print every figure beside its limit."""
    pricing = resolve_cost_model(None, resolve_device("h100-sxm"))
    model = read_model("llama3-405b").sizes
    forecast_seconds(model, 1024, pricing, None)  # weights are loaded
    rows = [
        (
            "llama3-405b, 16,384 devices, with timeline",
            forecast_seconds(model, 16_384, pricing, None),
            5.0,
        ),
        (
            "the same in closed form after pricing",
            closed_form_seconds(model, load_cluster("dgx-h100:16384"), pricing) / MILLI,
            5.0,
        ),
        (
            "102,400 devices with stragglers",
            forecast_seconds(model, 102_400, pricing, "lognormal:0.02"),
            30.0,
        ),
        ("peak memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / GIB, 4.0),
    ]
    print(f"{'step of a plan':50} {'measured':>9} {'limit':>7}")
    for name, value, limit in rows:
        print(f"{name:50} {value:9.2f} {limit:7.0f}")
    units = ("CPU s", "CPU ms", "CPU s", "GiB")
    return report(
        [
            Row(name, value, unit, limit, source="docs/accuracy.md")
            for (name, value, limit), unit in zip(rows, units, strict=True)
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
