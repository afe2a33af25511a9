from typing import Any

import pytest

from made_up_steps import step_forecast
from perfcast.catalogs.clusters import load_cluster
from perfcast.core.forecast.plan import PlanForecast, RankTime, StepTime
from perfcast.core.plan import Plan
from perfcast.errors import InputError, PlanError
from perfcast.prediction.request.batches import BatchesRequest
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.sweep import batches
from perfcast.prediction.sweep.batches import BatchesForecast, split_batch, sweep_batches
from small_transformers import llama

#: Two stages of 3 and 5 seconds, one behind the other.
STAGES = StepTime(
    8.0,
    (
        RankTime(0, 0, 1, {"compute": 3.0, "bubble": 5.0}),
        RankTime(1, 1, 1, {"compute": 4.0, "tensor": 1.0, "bubble": 3.0}),
    ),
)
TWO_STAGES = Plan(pipeline_parallel=2)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Plan]]:
    """Every forward takes 8 seconds; what was asked for."""
    asked: list[tuple[str, Plan]] = []

    def predict(request: PlanRequest) -> PlanForecast:
        asked.append((request.mode, request.plan))
        return step_forecast(
            8.0, mode=request.mode, time=STAGES, step_seconds_low=4.0, step_seconds_high=12.0,
            assumptions=(f"of {request.mode}",),
        )  # fmt: skip

    monkeypatch.setattr(batches, "predict_step", predict)
    return asked


def sweep(plan: Plan = TWO_STAGES, **changes: Any) -> BatchesForecast:
    asked: dict[str, Any] = {
        "batch_sizes": (1, 4), "context_lengths": (128,), "cost_model": "roofline", **changes,
    }  # fmt: skip
    cluster = load_cluster(f"dgx-h100:{plan.world_size}")
    return sweep_batches(BatchesRequest(model=llama(), cluster=cluster, plan=plan, **asked))


def test_a_batch_fills_as_many_stages_as_it_has_sequences() -> None:
    plan = Plan(pipeline_parallel=4, data_parallel=2)
    assert (split_batch(plan, 2).num_micro_batches, split_batch(plan, 2).micro_batch_size) == (1, 1)
    assert (split_batch(plan, 16).num_micro_batches, split_batch(plan, 16).micro_batch_size) == (4, 2)
    with pytest.raises(PlanError, match="no multiple of dp=2"):
        split_batch(plan, 3)


def test_first_token_and_each_further_one(passes: list[tuple[str, Plan]]) -> None:
    one, four = sweep().points
    assert one.prefill is not None
    assert one.decode is not None
    assert four.prefill is not None
    assert four.decode is not None
    assert (one.prefill.seconds, one.decode.seconds) == (8.0, 8.0)
    assert (four.prefill.seconds, four.decode.seconds) == (8.0, 8.0)
    assert four.decode.tokens_per_second == pytest.approx(4 / 8)
    assert four.prefill.tokens_per_second == pytest.approx(4 * 128 / 8)
    assert (four.decode.seconds_low, four.decode.seconds_high) == (4.0, 12.0)
    assert [plan.num_micro_batches for _, plan in passes] == [1, 1, 2, 2]


def test_only_the_modes_asked_for_are_forecast(passes: list[tuple[str, Plan]]) -> None:
    found = sweep(modes=("decode",))
    assert {mode for mode, _ in passes} == {"decode"}
    assert all(point.prefill is None for point in found.points)


@pytest.mark.usefixtures("passes")
def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    found = sweep(Plan(), context_lengths=(100_000,), batch_sizes=(1,))
    ((context, largest),) = found.largest_batches
    assert context == 100_000
    assert sweep(Plan(), context_lengths=(context,), batch_sizes=(largest,)).points[0].fits
    assert not sweep(Plan(), context_lengths=(context,), batch_sizes=(largest + 1,)).points[0].fits


@pytest.mark.usefixtures("passes")
def test_a_batch_that_does_not_divide_is_no_point_but_says_so() -> None:
    one, four = sweep(Plan(data_parallel=2)).points
    assert "no multiple" in one.skipped
    assert four.decode is not None


@pytest.mark.usefixtures("passes")
def test_assumptions_of_all_phases_come_once() -> None:
    notes = sweep().assumptions
    assert notes.count("of decode") == 1
    assert (
        "all prompts of a batch arrive at once; nothing queues ('perfcast serving' forecasts a load)" in notes
    )


def test_nothing_to_sweep_is_refused() -> None:
    with pytest.raises(InputError, match="batch sizes"):
        sweep(batch_sizes=(0,))
    with pytest.raises(InputError, match="batch sizes"):
        sweep(context_lengths=(0,))
    with pytest.raises(InputError, match="batch sizes"):
        sweep(context_lengths=())
