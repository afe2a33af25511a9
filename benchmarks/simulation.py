"""Speed of the step simulation: events, a large step with its timeline, the closed form, stragglers.

Run by hand: ``python benchmarks/simulation.py [COUNT]`` (operations of the first two lines). Prints each
figure with the limit that it is meant to keep. The engine's programs are made of 16 devices with a compute
stream, a collective stream and a host each; the steps are Llama-3-405B's, priced by a roofline beforehand.
Seconds are the processor's, for one thread.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping

from goals import Row, report

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.catalogs.models import load_model
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import StepWork
from perfcast.cost.collective.constants import load_constants
from perfcast.cost.prices import price_operations
from perfcast.cost.roofline import Roofline
from perfcast.simulate.closed_form.step import closed_form_step
from perfcast.simulate.engine import play
from perfcast.simulate.program import Lane, Program, ProgramBuilder
from perfcast.simulate.stragglers import Slowdowns, straggler_effect
from perfcast.simulate.training import simulate_step
from perfcast.units import GIB, MICRO, MILLI
from perfcast.workload.blocks import build_step_work
from perfcast.workload.models.transformer import read_transformer

#: Where the limits are stated.
SOURCE = "docs/accuracy.md"
NUM_OPERATIONS = 300_000
LEAST_PER_SECOND = 300_000
MOST_STEP_SECONDS, MOST_CLOSED_FORM_SECONDS = 5.0, 5 * MILLI
MOST_STRAGGLER_SECONDS, MOST_STRAGGLER_BYTES = 30.0, 4 * GIB
NUM_REPEATS, NUM_CLOSED_FORMS, NUM_DRAWS = 3, 25, 100
LAUNCH_SECONDS = 5 * MICRO
MODEL, SEQUENCE_LENGTH = "llama3-405b", 8192
PLANS = {
    "16,384 devices, tp=8 pp=16 dp=128": Plan(
        tensor_parallel=8, pipeline_parallel=16, data_parallel=128, num_micro_batches=16, zero_stage=1,
        sequence_parallel=True,
    ),
    "the same, zero=2": Plan(
        tensor_parallel=8, pipeline_parallel=16, data_parallel=128, num_micro_batches=16, zero_stage=2,
        sequence_parallel=True,
    ),
}  # fmt: skip
LARGE = Plan(
    tensor_parallel=8, pipeline_parallel=16, data_parallel=1024, num_micro_batches=32, zero_stage=1,
    sequence_parallel=True,
)  # fmt: skip


def main() -> int:
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_OPERATIONS
    speed = engine_speed("events", program(count, contends=False))
    engine_speed("events, streams that slow each other down", program(count, contends=True))
    rows = [Row("events of the engine", speed, "1/CPU s", LEAST_PER_SECOND, "at least", SOURCE)]
    for name, plan in PLANS.items():
        rows += step_speed(name, *priced(plan))
    return report([*rows, *straggler_speed(*priced(LARGE))])


def program(num_operations: int, contends: bool) -> Program:
    """Per device and turn: a launch, four kernels, a collective beside them that the next turn awaits."""
    builder = ProgramBuilder()
    streams = [
        (
            builder.add_lane(Lane(f"host {device}")),
            builder.add_lane(Lane(f"compute {device}", device if contends else -1)),
            builder.add_lane(Lane(f"collective {device}", device if contends else -1, communicates=True)),
        )
        for device in range(16)
    ]
    slowdown = 1.2 if contends else 1.0
    before = {device: [] for device in range(len(streams))}
    while builder.num_tasks < num_operations:
        for device, (host, compute, collective) in enumerate(streams):
            launch = builder.add(host, 1.0)
            kernel = builder.add(compute, 2.0 + device / 16, [launch, *before[device]], slowdown=slowdown)
            before[device] = [builder.add(collective, 5.0, [kernel], slowdown=slowdown)]
            for _ in range(3):
                builder.add(compute, 3.0, slowdown=slowdown)
    return builder.build()


def engine_speed(name: str, made: Program) -> float:
    seconds = min(timed(lambda: play(made)) for _ in range(NUM_REPEATS))
    speed = made.num_tasks / seconds
    print(
        f"{name:44} {speed:9,.0f} operations/s, at least {LEAST_PER_SECOND:,} without slowdowns", flush=True
    )
    return speed


def timed(run: Callable[[], object]) -> float:
    """Processor seconds: other processes on this machine do not count."""
    began = time.process_time()
    run()
    return time.process_time() - began


def priced(plan: Plan) -> tuple[StepWork, Mapping[Operation, float]]:
    entry = load_model(MODEL)
    model = read_transformer(entry.config, entry.architecture)
    work = build_step_work(model, plan, Training(framework="megatron"), SEQUENCE_LENGTH)
    cluster = load_cluster(f"dgx-superpod-h100:{plan.world_size}")
    return work, price_operations(work.operations(), load_device(cluster.device), Roofline(), cluster).seconds


def overlap() -> tuple[float, float]:
    figures = load_constants()
    return figures.compute_slowdown, figures.communication_slowdown


def step_speed(name: str, work: StepWork, seconds: Mapping[Operation, float]) -> list[Row]:
    options = {"launch_seconds": LAUNCH_SECONDS, "slowdown": overlap()}
    began = time.process_time()
    step = simulate_step(work, seconds, with_spans=True, **options)
    simulated = time.process_time() - began
    formula = closed_form_step(work, seconds, **options)
    closed = statistics.median(
        timed(lambda: closed_form_step(work, seconds, **options)) for _ in range(NUM_CLOSED_FORMS)
    )
    print(f"{MODEL}, {name}")
    print(f"{'  simulated, with timeline':44} {simulated:9.2f} s, at most {MOST_STEP_SECONDS:.0f}; "
          f"{step.num_events:,} events, {len(step.spans):,} spans")  # fmt: skip
    print(f"{'  closed form':44} {closed / MILLI:9.2f} ms, at most {MOST_CLOSED_FORM_SECONDS / MILLI:.0f}")
    print(f"{'  step':44} {step.step_seconds:9.3f} s simulated, {formula.step_seconds:.3f} s in closed form",
          flush=True)  # fmt: skip
    return [
        Row(f"{MODEL}, {name}, with timeline", simulated, "CPU s", MOST_STEP_SECONDS, source=SOURCE),
        Row(f"{MODEL}, {name}, closed form", closed, "CPU s", MOST_CLOSED_FORM_SECONDS, source=SOURCE),
    ]


def straggler_speed(work: StepWork, seconds: Mapping[Operation, float]) -> list[Row]:
    began = time.process_time()
    effect = straggler_effect(work, seconds, Slowdowns(0.02), num_draws=NUM_DRAWS, slowdown=overlap())
    taken = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    name = f"stragglers, {work.plan.world_size:,} devices, {NUM_DRAWS} draws"
    print(f"{name:44} {taken:9.2f} s, at most {MOST_STRAGGLER_SECONDS:.0f}")
    print(
        f"{'  peak memory of all of this':44} {peak / GIB:9.2f} GiB, at most {MOST_STRAGGLER_BYTES / GIB:.0f}"
    )
    print(
        f"{'  step':44} {effect.mean_seconds:9.3f} s mean, {effect.p99_seconds:.3f} s at the 99th percentile"
    )
    return [
        Row(name, taken, "CPU s", MOST_STRAGGLER_SECONDS, source=SOURCE),
        Row("peak memory of all of this", peak / GIB, "GiB", MOST_STRAGGLER_BYTES / GIB, source=SOURCE),
    ]


if __name__ == "__main__":
    sys.exit(main())
