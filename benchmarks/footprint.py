"""Milliseconds of one closed-form footprint: a trillion parameters over 4,096 devices.

Run by hand: ``python benchmarks/footprint.py``. Nothing is kept from one estimate to the next; the median of
many counts. Prints one line for each plan with the time that it is meant to stay below.
"""

from __future__ import annotations

import os
import platform
import statistics
import time

from goals import Row, report

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.models import load_model
from perfcast.core.model.weights import kinds_of_layer, stage_weights
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.memory_use.footprint import _kept_footprint, estimate_footprint
from perfcast.workload.models.transformer import read_transformer

MOST_MILLISECONDS = 5.0
NUM_ESTIMATES = 50
MODEL, DEVICE, SEQUENCE_LENGTH = "megatron-1t", "a100-sxm-80gb", 2048
PLANS = {
    "tp=8 pp=64 dp=8": Plan(
        data_parallel=8, tensor_parallel=8, pipeline_parallel=64, num_micro_batches=512, zero_stage=1,
        sequence_parallel=True, recompute="selective",
    ),
    "zero=3": Plan(data_parallel=4096, zero_stage=3, recompute="full"),
}  # fmt: skip


def main() -> int:
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    rows = []
    for name, plan in PLANS.items():
        milliseconds = timed(plan)
        rows.append(Row(f"{MODEL}, {name}", milliseconds, "CPU ms", MOST_MILLISECONDS, source="stated here"))
        what = f"{MODEL}, {plan.world_size:,} devices, {name}"
        print(f"{what:50} {milliseconds:6.2f} ms, at most {MOST_MILLISECONDS}")
    return report(rows)


def timed(plan: Plan) -> float:
    """Processor milliseconds of one estimate, which has one thread."""
    entry, device = load_model(MODEL), load_device(DEVICE)
    model = read_transformer(entry.config, entry.architecture)
    training = Training(framework="fsdp" if plan.zero_stage == 3 else "megatron")
    times = []
    for _ in range(NUM_ESTIMATES):
        stage_weights.cache_clear()
        kinds_of_layer.cache_clear()
        _kept_footprint.cache_clear()
        began = time.process_time()
        estimate_footprint(model, plan, training, SEQUENCE_LENGTH, device=device)
        times.append(time.process_time() - began)
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    raise SystemExit(main())
