"""The best plans are played alike on one process and on several, equal ones once."""

from dataclasses import replace

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.errors import ModelError
from perfcast.prediction.names import resolve_device
from perfcast.prediction.step.timer import Timer
from perfcast.searches.evaluation.processes import run_in_processes
from perfcast.searches.ranking import time_plans
from perfcast.searches.ranking.simulator import Simulator

MODEL = Transformer(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_kv_heads=16, head_size=64,
    ffn_hidden_size=4096, vocab_size=32000,
)  # fmt: skip
PLANS = [
    Plan(data_parallel=8 // stages, tensor_parallel=2, pipeline_parallel=stages, num_micro_batches=count,
         schedule=schedule, virtual_stages_per_rank=2 if schedule == "interleaved" else 1, zero_stage=zero)
    for stages in (2, 4)
    for count in (4, 8)
    for zero in (0, 1)
    for schedule in ("1f1b", "interleaved", "zero_bubble")
]  # fmt: skip


def never(place, before):
    return False


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    cluster = load_cluster("dgx-h100:16")
    timer = Timer("simulated", "train", 1e-5, 0.001)
    return Simulator(
        MODEL,
        Training(framework="megatron"),
        1024,
        cluster,
        resolve_device(cluster.device),
        Roofline(),
        timer,
    )


def test_steps_are_those_of_the_engine(simulator):
    found, prices = simulator.simulate(range(len(PLANS)), PLANS.__getitem__, never)
    for one in found:
        time = simulator.timer.time(one.work, prices.seconds)
        assert one.time.step_seconds == pytest.approx(time.step_seconds, rel=1e-12)
        assert one.time.seconds_by_cause == pytest.approx(time.seconds_by_cause, abs=1e-12)
        assert one.low < 1 < one.high


def test_several_processes_find_the_same(simulator, monkeypatch):
    monkeypatch.setattr(time_plans, "LEAST_PASSES", 1)
    alone, _ = simulator.simulate(range(len(PLANS)), PLANS.__getitem__, never)
    shared, _ = simulator.simulate(range(len(PLANS)), PLANS.__getitem__, never, 3)
    assert [(one.place, one.plan, one.time) for one in alone] == [
        (one.place, one.plan, one.time) for one in shared
    ]


def test_plans_behind_the_one_that_stops_are_left_out(simulator):
    found, _ = simulator.simulate(
        range(len(PLANS)), PLANS.__getitem__, lambda place, before: len(before) == 5, 2
    )
    assert [one.place for one in found] == [0, 1, 2, 3, 4]


def test_plans_of_equal_parts_are_played_once(simulator, monkeypatch):
    played = []
    original = time_plans.play_quickly
    monkeypatch.setattr(time_plans, "play_quickly", lambda *given: played.append(1) or original(*given))
    twins = [PLANS[0], replace(PLANS[0], offload="none", overlaps_experts=True), PLANS[3]]
    found, _ = simulator.simulate(range(3), twins.__getitem__, never)
    assert len(played) == 2
    assert found[0].time == found[1].time


def test_results_of_processes_come_in_order_and_errors_are_raised():
    def fail() -> int:
        raise ModelError("not this one")

    assert run_in_processes([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]
    with pytest.raises(ModelError, match="not this one"):
        run_in_processes([lambda: 1, fail])
