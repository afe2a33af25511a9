"""A round of decoding by formula, against the one that is played."""

from __future__ import annotations

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.forecast.plan import RankTime, StepTime
from perfcast.core.plan import Plan
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.predict import predict_step
from perfcast.simulate.closed_form.decoding import round_of_micro_batches

#: Five seconds of the first stage's work and three of the second's: eight from end to end.
STAGES = (
    RankTime(0, 0, 1, {"compute": 4.0, "pipeline": 1.0, "bubble": 3.0}),
    RankTime(1, 1, 1, {"compute": 3.0, "bubble": 5.0}),
)


def test_few_micro_batches_take_the_way_through_all_stages_and_many_the_slowest_stages_pace():
    found = [round_of_micro_batches(StepTime(8.0, STAGES), count) for count in (1, 2, 3)]
    assert [one.step_seconds for one in found] == [8.0, 10.0, 15.0]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_causes_of_every_stage_add_up_to_the_round(count):
    found = round_of_micro_batches(StepTime(8.0, STAGES), count)
    for rank in found.ranks:
        assert sum(rank.seconds_by_cause.values()) == pytest.approx(found.step_seconds)


@pytest.mark.parametrize("mode", ["prefill", "decode"])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_formula_and_events_agree_on_batches_that_fill_the_stages(mode, stages):
    plan = Plan(pipeline_parallel=stages, num_micro_batches=stages, micro_batch_size=2)
    steps = [
        predict_step(
            PlanRequest(
                model="llama3-8b", cluster=load_cluster(f"dgx-h100:{stages}"), plan=plan, mode=mode,
                sequence_length=1024, cost_model="roofline", method=method, recommendations=False,
            )
        ).step_seconds
        for method in ("simulated", "closed_form")
    ]  # fmt: skip
    assert steps[1] == pytest.approx(steps[0], rel=0.05)
