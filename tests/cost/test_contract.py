"""What every cost model promises. A model that needs no calibration is added to ``MODELS``."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import allocation, elementwise, made_up_device, matmul
from perfcast.catalogs.devices import load_device, load_device_entries
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.model import ANNOUNCED_SPREAD, UNKNOWN_SPREAD, CostModel, roofline_seconds
from perfcast.cost.roofline import Roofline
from perfcast.cost.spread import load_spread
from perfcast.errors import PlanError, UncoveredOperationError
from perfcast.workload.rules import OperatorCall, operation_of

MODELS: list[CostModel] = [Roofline()]
DEVICES = [made_up_device(), load_device("h100-sxm"), load_device("t4")]
BOUNDS = {"compute", "memory", "launch", "nothing"}

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
every_device = pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)


def tensor(*shape: int, dtype: DType = DType.FP32) -> TensorType:
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return TensorType(shape, dtype, strides)


def call(name: str, args: tuple[object, ...], *outputs: TensorType) -> Operation:
    return operation_of(OperatorCall(name, args, {}, outputs))


def one_of_each_family() -> list[Operation]:
    rows, heads = tensor(64, 128), tensor(2, 4, 128, 64, dtype=DType.FP16)
    list_ = (tensor(1000), tensor(300))
    return [
        matmul(256, 512, 1024, DType.FP16),
        matmul(1, 1, 1, DType.FP32),
        call("bmm", (tensor(8, 32, 64), tensor(8, 64, 16)), tensor(8, 32, 16)),
        call("attention", (heads, heads, heads, None, True), heads),
        call("_softmax", (rows, -1, False), rows),
        call("native_layer_norm", (rows, [128]), rows, tensor(64, 1), tensor(64, 1)),
        call("sum.dim_IntList", (rows, [1]), tensor(64)),
        call("embedding", (tensor(50_000, 128), tensor(64, dtype=DType.INT64)), rows),
        call("_foreach_add_.List", (list_, list_)),
        call("clone", (rows,), rows),
        call("zeros", ((64, 128),), rows),
        call("native_dropout", (rows, 0.1, True), rows, rows),
        elementwise(10**6),
        allocation(10**6),
        unknown_operation(),
    ]


def unknown_operation() -> Operation:
    return call("a_brand_new_operator", (tensor(10**6),), tensor(10**6))


@every_model
@every_device
def test_times_are_finite_and_positive_and_never_below_the_roofline(model, device):
    operations = one_of_each_family()
    estimates = model.estimate(operations, device)
    for values in (estimates.seconds, estimates.seconds_low, estimates.seconds_high):
        assert values.shape == (len(operations),)
        assert np.isfinite(values).all()
    runs = np.array([not o.is_free for o in operations])
    assert (estimates.seconds[runs] > 0).all()
    assert (estimates.seconds >= roofline_seconds(operations, device)).all()
    assert (estimates.seconds_low >= roofline_seconds(operations, device)).all()


@every_model
@every_device
def test_the_interval_lies_strictly_around_the_estimate(model, device):
    estimates = model.estimate([o for o in one_of_each_family() if not o.is_free], device)
    assert (estimates.seconds_low < estimates.seconds).all()
    assert (estimates.seconds < estimates.seconds_high).all()


@every_model
@every_device
def test_allocations_are_free(model, device):
    estimates = model.estimate([allocation(10**9)], device)
    assert (estimates.seconds[0], estimates.seconds_low[0], estimates.seconds_high[0]) == (0, 0, 0)
    assert estimates.bound_by == ("nothing",)


@every_model
@every_device
def test_every_operation_is_bound_by_something_that_has_a_name(model, device):
    estimates = model.estimate(one_of_each_family(), device)
    assert set(estimates.bound_by) <= BOUNDS
    assert len(estimates.bound_by) == len(estimates.provenance) == len(one_of_each_family())
    assert all(type(bound) is str for bound in estimates.bound_by)


@every_model
def test_an_unknown_operation_is_bounded_with_a_wide_interval(model):
    operation = unknown_operation()
    assert operation.kind is OperationKind.UNKNOWN
    estimates = model.estimate([operation], made_up_device())
    assert estimates.provenance == ("bounded",)
    assert estimates.seconds_high[0] >= UNKNOWN_SPREAD * estimates.seconds[0]
    assert estimates.seconds_low[0] == pytest.approx(2 * 4e6 / 100e9)  # a megafloat read, one written


@every_model
def test_the_price_of_an_operation_does_not_depend_on_its_company(model):
    device, operations = made_up_device(), one_of_each_family()
    together = model.estimate(operations, device)
    for index, operation in enumerate(operations):
        alone = model.estimate([operation], device)
        assert alone.seconds[0] == together.seconds[index]
        assert alone.seconds_high[0] == together.seconds_high[index]
        assert alone.bound_by[0] == together.bound_by[index]


@every_model
def test_the_same_question_has_the_same_answer(model):
    first, second = (model.estimate(one_of_each_family(), made_up_device()) for _ in range(2))
    assert first.seconds.tolist() == second.seconds.tolist()
    assert first.seconds_high.tolist() == second.seconds_high.tolist()


@every_model
def test_nothing_costs_nothing(model):
    estimates = model.estimate([], made_up_device())
    assert estimates.seconds.shape == (0,)
    assert estimates.bound_by == ()


@every_model
def test_a_precision_that_the_device_lacks_is_a_plan_error(model):
    with pytest.raises(PlanError, match="no fp8 arithmetic"):
        model.estimate([matmul(8, 8, 8, DType.FP8)], made_up_device())


sizes = st.integers(1, 4096)
more = st.integers(0, 4096)


@every_model
@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, k=sizes, dm=more, dn=more, dk=more, device=st.sampled_from(DEVICES))
def test_a_larger_product_never_takes_less(model, m, n, k, dm, dn, dk, device):
    estimates = model.estimate(
        [matmul(m, n, k, DType.FP16), matmul(m + dm, n + dn, k + dk, DType.FP16)], device
    )
    assert estimates.seconds[0] <= estimates.seconds[1]
    assert estimates.seconds_low[0] <= estimates.seconds_low[1]
    assert estimates.seconds_high[0] <= estimates.seconds_high[1]


@every_model
@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 10**8), extra=st.integers(0, 10**8), device=st.sampled_from(DEVICES))
def test_a_longer_vector_never_takes_less(model, size, extra, device):
    estimates = model.estimate([elementwise(size), elementwise(size + extra)], device)
    assert estimates.seconds[0] <= estimates.seconds[1]


@every_model
@settings(max_examples=40, deadline=None)
@given(batch=st.integers(1, 16), queries=sizes, extra=more, device=st.sampled_from(DEVICES))
def test_a_longer_context_never_takes_less(model, batch, queries, extra, device):
    def attention(length: int) -> Operation:
        heads = tensor(batch, 8, length, 64, dtype=DType.FP16)
        return call("attention", (heads, heads, heads, None, True), heads)

    estimates = model.estimate([attention(queries), attention(queries + extra)], device)
    assert estimates.seconds[0] <= estimates.seconds[1]


@every_model
def test_a_faster_memory_never_takes_longer(model):
    operations = [matmul(256, 256, 256), elementwise(10**7)]
    slow, fast = (
        model.estimate(operations, made_up_device(memory_bytes_per_second=rate)) for rate in (1e11, 2e11)
    )
    assert (fast.seconds <= slow.seconds).all()


@every_model
def test_every_device_of_the_catalog_can_be_priced_in_its_own_precisions(model):
    for entry in load_device_entries().values():
        dtypes = [*entry.device.matrix_flops_per_second, *entry.device.vector_flops_per_second]
        estimates = model.estimate([matmul(512, 512, 512, dtype) for dtype in dtypes], entry.device)
        assert (estimates.seconds > 0).all()


def test_a_cost_model_without_a_measured_spread_is_an_error_not_a_guess():
    with pytest.raises(UncoveredOperationError, match="no measured spread for cost model 'crystal_ball'"):
        load_spread("crystal_ball")


def test_every_measured_spread_widens_the_interval():
    assert all(load_spread(model.name) > 1 for model in MODELS)


@pytest.mark.parametrize("model", [Roofline(), LearnedCost()], ids=lambda model: model.name)
def test_an_announced_device_has_a_wider_interval_around_the_same_estimate(model: CostModel):
    operations = [matmul(4096, 4096, 4096, DType.BF16), elementwise(10**7)]
    rubin = load_device("rubin")
    announced = model.estimate(operations, rubin)
    shipping = model.estimate(operations, replace(rubin, status="shipping"))
    assert announced.seconds == pytest.approx(shipping.seconds, rel=1e-12)
    assert announced.seconds_low * ANNOUNCED_SPREAD == pytest.approx(shipping.seconds_low)
    assert announced.seconds_high == pytest.approx(shipping.seconds_high * ANNOUNCED_SPREAD)


def test_a_board_whose_clock_rises_may_be_faster_than_its_stated_peak_and_no_faster_than_its_highest_clock():
    product = [matmul(8192, 8192, 8192, DType.FP16)]
    board = load_device("rtx-4090")
    stated = roofline_seconds(product, board)
    found = LearnedCost().estimate(product, board)
    assert found.seconds >= stated
    assert stated * 2520 / 3105 <= found.seconds_low < stated
