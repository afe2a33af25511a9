"""Whether two plans can be told apart: intervals of differences by hand."""

import math

import pytest

from perfcast.core.dtype import DType
from perfcast.core.forecast.plan import RankTime, StepTime
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.tensor import TensorType
from perfcast.core.work import Call, Layer, LayerRun, StageWork, StepWork
from perfcast.cost.interval import STEP_ERROR
from perfcast.cost.prices import Prices
from perfcast.searches.ranking.separate import difference_interval, separate
from perfcast.searches.ranking.simulator import Simulated


def product(size: int, kind: OperationKind = OperationKind.MATMUL) -> Operation:
    tensor = TensorType((size, size), DType.BF16)
    return Operation(kind, "mm", (tensor, tensor), (tensor,), DType.BF16, 1, 1, 1)


ONE = Plan()
SMALL, LARGE, ATTENTION = product(8), product(16), product(8, OperationKind.ATTENTION)


def step(runs: dict[Operation, int], seconds: float, place: int = 0, plan: Plan = ONE) -> Simulated:
    """A step of one rank that runs some operations so many times, one second each, and waits for the rest."""
    work = StepWork(
        plan, (Layer("layer", tuple(Call(o, count=n) for o, n in runs.items())),),
        (StageWork(((LayerRun(0, 1),),)),),
    )  # fmt: skip
    time = StepTime(seconds, (RankTime(0, 0, 1, {"compute": seconds}),))
    return Simulated(place, plan, work, time, 0.9, 1.1)


def prices(provenance: str, half_width: float = 0.2) -> Prices:
    operations = (SMALL, LARGE, ATTENTION)
    return Prices(
        dict.fromkeys(operations, 1.0), dict.fromkeys(operations, 1 - half_width),
        dict.fromkeys(operations, 1 + half_width), dict.fromkeys(operations, provenance),
    )  # fmt: skip


def half_width(first: Simulated, second: Simulated, provenance: str, widening: float = 1.0) -> float:
    low, high = difference_interval(first, second, prices(provenance), widening)
    assert high - (low + high) / 2 == pytest.approx((high - low) / 2)
    return (high - low) / 2


def test_what_both_run_alike_cancels():
    # 10 s against 11 s of the same operation: one second more of it, ± 20 % by price and 15 % beside it.
    found = half_width(step({SMALL: 10}, 10), step({SMALL: 11}, 11), "measured")
    assert found == pytest.approx(math.hypot(0.2, STEP_ERROR))
    # and the wider a price's interval, the wider the difference's
    assert difference_interval(step({SMALL: 10}, 10), step({SMALL: 11}, 11), prices("measured"))[0] > 0


def test_other_shapes_of_a_kind_do_not_cancel_wholly():
    # + 10 s of one shape, − 10 s of another, h = 2 s each. Interpolated: ρ = 0.3, so that the common parts
    # cancel and 0.7 of both variances stays: 2 · √(2 · 0.7); the steps share nothing: 0.15 · 10 · √2.
    found = half_width(step({SMALL: 10}, 10), step({LARGE: 10}, 10), "interpolated")
    assert found == pytest.approx(math.hypot(2 * math.sqrt(1.4), STEP_ERROR * 10 * math.sqrt(2)))


def test_the_less_a_price_shares_with_its_kind_the_wider_the_difference_of_shapes():
    pair = step({SMALL: 10}, 10), step({LARGE: 10}, 10)
    widths = [half_width(*pair, name) for name in ("measured", "interpolated", "extrapolated", "datasheet")]
    assert widths == sorted(widths, reverse=True)
    # A bound errs one way for all of a kind: only what no price holds is left.
    assert widths[-1] == pytest.approx(STEP_ERROR * 10 * math.sqrt(2))


def test_kinds_err_independently():
    # Half the step is of another kind: 0.2 · 5 s each way, and nothing of it cancels.
    found = half_width(step({SMALL: 5, LARGE: 5}, 10), step({LARGE: 5, ATTENTION: 5}, 10), "datasheet")
    assert found == pytest.approx(math.hypot(1, 1, STEP_ERROR * 5, STEP_ERROR * 5))


def test_a_step_that_waits_counts_as_more_of_what_it_runs():
    # The same ten runs in 10 s and in 12 s: two seconds more of the operation.
    found = half_width(step({SMALL: 10}, 10), step({SMALL: 10}, 12), "measured")
    assert found == pytest.approx(2 * math.hypot(0.2, STEP_ERROR))


def test_steps_of_another_pipeline_share_half_of_the_steps_errors_variance():
    # The same runs in 10 s and in 12 s: prices as before; √½ of each step counts as apart.
    other = step({SMALL: 10}, 12, plan=Plan(pipeline_parallel=2, num_micro_batches=2))
    found = half_width(step({SMALL: 10}, 10), other, "measured")
    assert found == pytest.approx(math.hypot(2 * 0.2, STEP_ERROR * math.sqrt(0.5) * math.hypot(10, 12)))
    # Where they run nothing alike, all of both is apart already.
    apart = step({LARGE: 10}, 12, plan=Plan(pipeline_parallel=2, num_micro_batches=2))
    same = step({LARGE: 10}, 12)
    first = step({SMALL: 10}, 10)
    assert half_width(first, apart, "measured") == pytest.approx(half_width(first, same, "measured"))


def test_widening_is_a_factor():
    pair = step({SMALL: 10}, 10), step({LARGE: 10}, 10)
    assert half_width(*pair, "measured", 2.0) == pytest.approx(2 * half_width(*pair, "measured"))


def test_plans_are_named_that_the_interval_cannot_tell_from_the_first_with_what_to_measure():
    best = step({SMALL: 10}, 10)
    longer, other = step({SMALL: 12}, 12, place=1), step({LARGE: 10}, 10.1, place=2)
    (found,) = separate([best, longer, other], prices("measured"))
    assert (found.first, found.second) == (0, 2)
    assert found.difference_seconds == pytest.approx(0.1)
    assert found.difference_seconds_low < 0 < found.difference_seconds_high
    # 2 · √(0.1 · 0 + 0.9 · 2) s by prices against 2.1 s by the steps: prices first.
    assert found.measurements[0].startswith("matmul, first mm of 16×16 · 16×16 (± 2.")
    assert "a step of each plan" in found.measurements[1]


def test_the_same_plan_twice_differs_by_nothing():
    best = step({SMALL: 10}, 10)
    (found,) = separate([best, best], prices("measured"))
    assert (found.difference_seconds, found.difference_seconds_low, found.measurements) == (0, 0, ())
    assert separate([], prices("measured")) == ()
