"""Speed of the iteration-level simulation of serving: 10,000 requests on one replica.

Run by hand: ``python benchmarks/serving.py [COUNT]``. Prints each figure with the limit that it is meant to
keep (5 s for 10,000 requests). Steps are Llama-3-70B's in fp8 on two B200, from tables that are built
beforehand.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from goals import Row, report

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Pool
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, SaturatedLoad
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import SCHEDULER_POLICIES, SchedulerPolicy, Scheduling
from perfcast.core.serving.step import StepTimes
from perfcast.frameworks.precision import serving_precision
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.serving.steps import build_step_times
from perfcast.simulate.serving.play import Engines, play_requests

_LIMIT_SECONDS = 5.0
_KV_TOKENS = 1_500_000


def main() -> int:
    """All schedulers, prompts of 1k and 8k, clients and streams."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    times = _step_times()
    rows = [
        _row(times, policy, count, prompt, 1024, ClosedLoad(256))
        for policy in SCHEDULER_POLICIES
        for prompt in (1024, 8192)
    ]
    rows.append(_row(times, "vllm", count, 1024, 1024, OpenLoad(6.0)))
    rows.append(_row(times, "vllm", count, 1024, 1024, SaturatedLoad()))
    return report(rows)


def _step_times() -> StepTimes:
    device = resolve_device("b200-sxm")
    return build_step_times(
        read_model("llama3-70b"),
        Plan(tensor_parallel=2),
        serving_precision("fp8", "vllm"),
        load_cluster("dgx-b200:2"),
        device,
        resolve_cost_model("learned", device, "vllm"),
        "vllm",
    )


def _row(times: StepTimes, policy: SchedulerPolicy, count: int, prompt: int, answer: int, load: Load) -> Row:
    draws = np.random.default_rng(0)
    prompts = draws.integers(round(0.8 * prompt), prompt, count, endpoint=True)
    answers = draws.integers(round(0.8 * answer), answer, count, endpoint=True)
    requests = Requests(np.zeros(count), prompts, answers, np.zeros(count, dtype=np.int64))
    scheduling = Scheduling(
        policy=policy, max_sequences=1024, max_step_tokens=9216, kv_tokens=_KV_TOKENS, schedules_ahead=True
    )
    begin = time.process_time()
    played = play_requests(requests, load, Engines(Pool(Plan(tensor_parallel=2)), scheduling, times))
    seconds = time.process_time() - begin
    print(
        f"{policy:8s} {prompt:5d}/{answer} {type(load).__name__:13s} {seconds:5.2f} s (limit of 10,000: "
        f"{_LIMIT_SECONDS:g} s), {played.num_steps:,} steps, {played.preemptions.sum():,} preemptions"
    )
    what = f"{count:,} requests, {policy}, {prompt}/{answer}, {type(load).__name__}"
    most = _LIMIT_SECONDS * count / 10_000
    return Row(what, seconds, "CPU s", most, source="5 s for 10,000 requests")


if __name__ == "__main__":
    raise SystemExit(main())
