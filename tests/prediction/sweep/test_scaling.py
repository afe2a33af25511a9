from typing import Any

import pytest

from made_up_steps import step_forecast
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.request.scale import ScaleRequest
from perfcast.prediction.sweep import scale
from perfcast.prediction.sweep.scale import ScaleForecast, predict_scaling
from small_transformers import llama


def data_parallel(count: int, batch: int) -> Plan:
    if batch % count:
        raise PlanError(f"batch size {batch} is no multiple of dp={count}")
    return Plan(data_parallel=count, num_micro_batches=batch // count)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Steps that take ten seconds however many devices there are; the plans that were asked for."""
    plans: list[Plan] = []

    def predict(request: PlanRequest) -> PlanForecast:
        plan, cluster = request.plan, request.cluster
        assert isinstance(cluster, Cluster)
        plans.append(plan)
        return step_forecast(
            causes={"tensor": 1.0, "data": 2.0, "bubble": 3.0}, num_devices=cluster.num_devices, plan=plan,
            num_tokens=1000 * plan.global_batch_size, assumptions=("as always", f"on {plan.world_size}"),
        )  # fmt: skip

    monkeypatch.setattr(scale, "predict_step", predict)
    return plans


def scaling(**request: Any) -> ScaleForecast:
    asked: dict[str, Any] = {
        "model": llama(), "clusters": ("dgx-h100",), "devices": (8, 16, 32), "batch_size": 32,
        "rule": data_parallel, "sequence_length": 128, "cost_model": "roofline",
    }  # fmt: skip
    return predict_scaling(ScaleRequest(**(asked | request)))


@pytest.mark.usefixtures("steps")
def test_strong_scaling_at_a_constant_step_loses_efficiency_in_proportion() -> None:
    (curve,) = scaling().curves
    assert [point.efficiency for point in curve.points] == [1.0, 0.5, 0.25]
    assert {point.batch_size for point in curve.points} == {32}


@pytest.mark.usefixtures("steps")
def test_weak_scaling_at_a_constant_step_loses_none() -> None:
    (curve,) = scaling(is_weak=True).curves
    assert [point.efficiency for point in curve.points] == [1.0, 1.0, 1.0]
    assert [point.batch_size for point in curve.points] == [32, 64, 128]


@pytest.mark.usefixtures("steps")
def test_shares_are_of_the_step() -> None:
    point = scaling().curves[0].points[0]
    assert (point.exposed_share, point.bubble_share) == (pytest.approx(0.3), pytest.approx(0.3))


@pytest.mark.usefixtures("steps")
def test_a_point_without_a_plan_says_why_and_the_others_stay() -> None:
    (curve,) = scaling(devices=(8, 12, 16)).curves
    assert [point.forecast is not None for point in curve.points] == [True, False, True]
    assert "no multiple" in curve.points[1].skipped
    assert curve.points[1].exposed_share is None


@pytest.mark.usefixtures("steps")
def test_a_batch_that_does_not_grow_evenly_is_no_point() -> None:
    (curve,) = scaling(devices=(24, 32), batch_size=2, is_weak=True, rule=None).curves
    assert "no whole batch" in curve.points[1].skipped


@pytest.mark.usefixtures("steps")
def test_several_clusters_are_several_curves_and_share_what_all_points_assume() -> None:
    found = scaling(clusters=("dgx-h100", "dgx-a100"))
    assert [curve.cluster for curve in found.curves] == ["dgx-h100", "dgx-a100"]
    assert "as always" in found.assumptions
    assert "on 8" not in found.assumptions


def test_without_a_rule_the_smallest_plan_is_taken_and_named(steps: list[Plan]) -> None:
    found = scaling(rule=None)
    assert [plan.tensor_parallel * plan.pipeline_parallel for plan in steps] == [1, 1, 1]
    assert any("smallest tp" in note for note in found.assumptions)


def test_an_unknown_cluster_is_one_error() -> None:
    with pytest.raises(UnknownNameError, match="dgx"):
        scaling(clusters=("dgx-h1000",))


@pytest.mark.parametrize(
    "request_", [{"clusters": ()}, {"devices": ()}, {"devices": (0,)}, {"batch_size": 0}]
)
def test_nothing_to_scale_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        scaling(**request_)
