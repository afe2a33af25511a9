"""How often a rank runs what, followed by hand on a step of two stages."""

from __future__ import annotations

import pytest

from builders import matmul
from perfcast.core.collective import collective_operation
from perfcast.core.forecast.plan import RankTime
from perfcast.core.plan import Plan
from perfcast.core.work import Call, Layer, LayerRun, StageWork, StepWork, Stream
from perfcast.cost.prices import Prices
from perfcast.prediction.recommendations.bounds import (
    balancing_slowdowns,
    busy_seconds,
    operations_by_stream,
    without_recomputation,
)
from perfcast.prediction.step.runs import count_runs, relative_interval, seconds_by_provenance
from plan_forecasts import step_time

FORWARD, BACKWARD, UPDATE = matmul(8, 8, 8), matmul(16, 8, 8), matmul(32, 8, 8)
REDUCE = collective_operation("all_reduce", 1024, range(2))
LAYER = Layer(
    "layer",
    forward=(Call(FORWARD), Call(FORWARD, count=2)),
    backward=(Call(FORWARD, is_recomputed=True), Call(BACKWARD)),
    gradient_reduction=(Call(REDUCE, Stream.DATA, after=(1,)),),
)


def work(schedule: str = "1f1b", **changes: object) -> StepWork:
    plan = Plan(data_parallel=2, pipeline_parallel=2, num_micro_batches=4, schedule=schedule)
    stages = (
        StageWork(((LayerRun(0, 3),),), optimizer=(Call(UPDATE),)),
        StageWork(((LayerRun(0, 1),),), optimizer=(Call(UPDATE),)),
    )
    send = collective_operation("send", 64, (0, 2))
    return StepWork(plan, (LAYER,), stages, boundary=send, **changes)  # type: ignore[arg-type]


def prices(**factors: float) -> Prices:
    middle = {FORWARD: 1.0, BACKWARD: 2.0, UPDATE: 0.5, REDUCE: 4.0}
    tags = {FORWARD: "measured", BACKWARD: "measured", UPDATE: "bounded", REDUCE: "datasheet"}
    low = {o: s * factors.get("low", 0.9) for o, s in middle.items()}
    high = {o: s * factors.get("high", 1.2) for o, s in middle.items()}
    return Prices(middle, low, high, tags)


def test_runs_are_layers_times_micro_batches_and_gradients_are_reduced_once():
    runs = count_runs(work(), 0)
    assert runs[FORWARD, Stream.COMPUTE] == 3 * 4 * (1 + 2 + 1)
    assert runs[BACKWARD, Stream.COMPUTE] == 3 * 4
    assert runs[REDUCE, Stream.DATA] == 3
    assert runs[UPDATE, Stream.COMPUTE] == 1


def test_every_micro_batch_may_reduce():
    assert count_runs(work(reduces_gradients_each_micro_batch=True), 1)[REDUCE, Stream.DATA] == 4


def test_in_dualpipe_a_rank_runs_half_the_micro_batches_of_two_stages():
    assert count_runs(work("dualpipe"), 0)[BACKWARD, Stream.COMPUTE] == (3 + 1) * 2


def test_provenance_is_of_compute_alone():
    assert seconds_by_provenance(count_runs(work(), 1), prices()) == {
        "measured": 4 * (4 * 1.0 + 2.0), "bounded": 0.5
    }  # fmt: skip


def test_the_interval_has_the_ends_of_prices_that_err_together():
    rank = RankTime(0, 1, 2, {"compute": 1.0})
    runs = {(UPDATE, Stream.COMPUTE): 2.0}
    assert relative_interval(runs, prices(), rank, 1.0) == pytest.approx((0.9, 1.2))
    low, high = relative_interval(runs, prices(), rank, 2.0)
    assert (low, high) == (pytest.approx(1 / (1 + 2 * (1 / 0.9 - 1))), pytest.approx(1.4))


def test_a_collective_that_is_hidden_does_not_widen_the_interval():
    runs = {(UPDATE, Stream.COMPUTE): 8.0, (REDUCE, Stream.DATA): 1.0}
    wide = prices(high=3.0)
    hidden = relative_interval(runs, wide, RankTime(0, 0, 1, {"compute": 4.0}), 1.0)
    alone = relative_interval({(UPDATE, Stream.COMPUTE): 8.0}, wide, RankTime(0, 0, 1, {}), 1.0)
    assert hidden == pytest.approx(alone)


def test_streams_know_their_operations():
    found = operations_by_stream(work())
    assert found[Stream.DATA] == (REDUCE,)
    assert [o.name for o in found[Stream.PIPELINE]] == ["send"]
    assert set(found[Stream.COMPUTE]) == {FORWARD, BACKWARD, UPDATE}


def test_without_recomputation_calls_keep_their_places():
    (layer,) = without_recomputation(work()).layers
    assert [call.count for call in layer.backward] == [0, 1]
    assert layer.forward == LAYER.forward
    assert layer.gradient_reduction[0].after == (1,)


def test_balanced_stages_take_the_mean_of_all():
    time = step_time()
    slowdowns = balancing_slowdowns(time)
    works = [
        sum(rank.seconds_by_cause.get(cause, 0.0) for cause in ("compute", "tensor"))
        + (factor - 1) * rank.seconds_by_cause["compute"]
        for rank, factor in zip(time.ranks, slowdowns, strict=True)
    ]
    assert works == [pytest.approx(0.007), pytest.approx(0.007)]
    assert [round(busy_seconds(rank), 6) for rank in time.ranks] == [0.007, 0.008]
