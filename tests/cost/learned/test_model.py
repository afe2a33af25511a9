"""What every cost model promises, of ``learned`` with small models fitted to made-up measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import allocation, elementwise, made_up_device, matmul
from made_up_kernels import DEVICES
from perfcast.catalogs.devices import load_device, load_device_entries
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.learned.model import BOUNDED, LearnedCost
from perfcast.cost.learned.predictor import EXTRAPOLATED, INTERPOLATED
from perfcast.cost.model import UNKNOWN_SPREAD, KnowsNearest, roofline_seconds
from perfcast.errors import CalibrationError, PlanError, UnknownNameError
from perfcast.workload.rules import OperatorCall, operation_of

MEASURED = [load_device(name) for name in DEVICES]
ASKED = [made_up_device(), load_device("h100-sxm"), load_device("t4"), load_device("mi300x")]
every_device = pytest.mark.parametrize("device", ASKED, ids=lambda device: device.name)


@pytest.fixture(scope="session")
def model(weights: Path) -> LearnedCost:
    return LearnedCost(folder=weights)


def tensor(*shape: int, dtype: DType = DType.FP16) -> TensorType:
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return TensorType(shape, dtype, strides)


def call(name: str, args: tuple[object, ...], *outputs: TensorType) -> Operation:
    return operation_of(OperatorCall(name, args, {}, outputs))


def unknown() -> Operation:
    return call("a_brand_new_operator", (tensor(10**6),), tensor(10**6))


def one_of_each() -> list[Operation]:
    grid, heads = tensor(64, 128), tensor(2, 4, 128, 64)
    image, kernel, out = tensor(2, 16, 56, 56), tensor(32, 16, 3, 3), tensor(2, 32, 56, 56)
    wide = tensor(32, 4096)
    return [
        matmul(256, 512, 1024, DType.FP16),
        matmul(1, 1, 1, DType.FP32),
        call("bmm", (tensor(8, 32, 64), tensor(8, 64, 16)), tensor(8, 32, 16)),
        call("mv", (tensor(64, 32), tensor(32)), tensor(64)),
        call("_grouped_mm", (tensor(800, 64), tensor(8, 64, 32)), tensor(800, 32)),
        call("convolution", (image, kernel, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1), out),
        call("attention", (heads, heads, heads, None, True), heads),
        call("attention_backward", (heads,) * 5 + (tensor(2, 4, 128), None, True), heads, heads, heads),
        call("mkldnn_rnn_layer", (tensor(9, 8, 32), tensor(256, 32), tensor(256, 64)), tensor(9, 8, 64)),
        call("_softmax", (grid, -1, False), grid),
        call("native_layer_norm", (grid, [128]), grid, tensor(64, 1), tensor(64, 1)),
        call("sum.dim_IntList", (grid, [1]), tensor(64)),
        call("embedding", (tensor(50_000, 128), tensor(64, dtype=DType.INT64)), grid),
        call("_foreach_add_.List", ((grid, wide), (grid, wide))),
        call("clone", (grid,), grid),
        Operation(
            OperationKind.NORMALIZATION, "fused_add_layer_norm", (wide, wide), (wide,), DType.FP16,
            10, 10, 3 * wide.num_bytes, attributes=(("members", 2), ("row", 512)),
        ),
        elementwise(10**6, DType.FP16),
        allocation(10**6),
        unknown(),
    ]  # fmt: skip


@every_device
def test_times_are_finite_and_positive_and_never_below_the_roofline(model, device):
    operations = one_of_each()
    found, floor = model.estimate(operations, device), roofline_seconds(operations, device)
    for values in (found.seconds, found.seconds_low, found.seconds_high):
        assert values.shape == (len(operations),)
        assert np.isfinite(values).all()
    runs = np.array([not o.is_free for o in operations])
    assert (found.seconds[runs] > 0).all()
    assert (found.seconds >= floor).all()
    assert (found.seconds_low >= floor).all()
    assert (found.seconds_low <= found.seconds).all()
    assert (found.seconds[runs] < found.seconds_high[runs]).all()


@every_device
def test_every_operation_is_bound_by_something_and_says_what_its_price_rests_on(model, device):
    found = model.estimate(one_of_each(), device)
    assert set(found.bound_by) <= {"compute", "memory", "launch", "nothing"}
    assert set(found.provenance) <= {INTERPOLATED, EXTRAPOLATED, BOUNDED}
    assert all(type(word) is str for word in (*found.bound_by, *found.provenance))


def test_an_allocation_is_free(model):
    found = model.estimate([allocation(10**9)], ASKED[0])
    assert (found.seconds[0], found.seconds_low[0], found.seconds_high[0]) == (0, 0, 0)
    assert found.bound_by == ("nothing",)


def test_an_unknown_operation_is_bounded_with_a_wide_interval(model):
    assert unknown().kind is OperationKind.UNKNOWN
    found = model.estimate([unknown()], made_up_device())
    assert found.provenance == (BOUNDED,)
    assert found.seconds_low[0] == pytest.approx(2 * 2e6 / 100e9)
    assert found.seconds_low[0] < found.seconds[0]
    assert found.seconds_high[0] >= UNKNOWN_SPREAD * found.seconds[0]


def test_the_price_of_an_operation_does_not_depend_on_its_company(model):
    operations, device = one_of_each(), load_device("t4")
    together = model.estimate(operations, device)
    for index, operation in enumerate(operations):
        alone = model.estimate([operation], device)
        assert alone.seconds[0] == together.seconds[index]
        assert alone.seconds_high[0] == together.seconds_high[index]
        assert (alone.bound_by[0], alone.provenance[0]) == (
            together.bound_by[index],
            together.provenance[index],
        )


def test_the_same_question_has_the_same_answer(model, weights):
    first, second = (m.estimate(one_of_each(), ASKED[1]) for m in (model, LearnedCost(folder=weights)))
    assert first.seconds.tolist() == second.seconds.tolist()
    assert first.seconds_high.tolist() == second.seconds_high.tolist()


def test_nothing_costs_nothing(model):
    found = model.estimate([], made_up_device())
    assert (found.seconds.shape, found.bound_by) == ((0,), ())


def test_a_precision_that_the_device_lacks_is_a_plan_error(model):
    with pytest.raises(PlanError, match="no fp8 arithmetic"):
        model.estimate([matmul(8, 8, 8, DType.FP8)], made_up_device())


def test_every_device_of_the_catalog_can_be_priced_in_its_own_precisions(model):
    for entry in load_device_entries().values():
        dtypes = [*entry.device.matrix_flops_per_second, *entry.device.vector_flops_per_second]
        found = model.estimate([matmul(512, 512, 512, dtype) for dtype in dtypes], entry.device)
        assert (found.seconds > 0).all()


def test_a_recurrent_layer_costs_its_steps(model):
    def layer(steps: int) -> Operation:
        arguments = (tensor(steps, 8, 32), tensor(256, 32), tensor(256, 64))
        return call("mkldnn_rnn_layer", arguments, tensor(steps, 8, 64))

    found = model.estimate([layer(10), layer(30)], load_device("t4"))
    assert found.seconds[1] == pytest.approx(3 * found.seconds[0])
    assert found.seconds_high[1] == pytest.approx(3 * found.seconds_high[0])


# ---- more work ---------------------------------------------------------------------------------------

#: The made-up measurements are off by 2 %, and small kernels take one time whatever their size.
SLACK = 0.95
powers = st.integers(4, 11).map(lambda exponent: 2**exponent)
measured = st.sampled_from(MEASURED)


@settings(max_examples=60, deadline=None)
@given(m=powers, n=powers, k=powers, axis=st.sampled_from("mnk"), device=measured)
def test_a_product_of_twice_the_size_never_takes_less(model, m, n, k, axis, device):
    shape = {"m": m, "n": n, "k": k}
    twice = shape | {axis: 2 * shape[axis]}
    found = model.estimate([matmul(**shape, dtype=DType.FP16), matmul(**twice, dtype=DType.FP16)], device)
    assert found.seconds[0] * SLACK <= found.seconds[1]


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 10**8), device=measured)
def test_a_vector_of_twice_the_length_never_takes_less(model, size, device):
    found = model.estimate([elementwise(size, DType.FP32), elementwise(2 * size, DType.FP32)], device)
    assert found.seconds[0] * SLACK <= found.seconds[1]


@settings(max_examples=40, deadline=None)
@given(batch=st.integers(1, 16), length=powers, device=measured)
def test_a_context_of_twice_the_length_never_takes_less(model, batch, length, device):
    def attention(queries: int) -> Operation:
        heads = tensor(batch, 8, queries, 64)
        return call("attention", (heads, heads, heads, None, True), heads)

    found = model.estimate([attention(length), attention(2 * length)], device)
    assert found.seconds[0] * SLACK <= found.seconds[1]


# ---- whose kernels, which files ----------------------------------------------------------------------


def test_a_framework_that_is_not_known_lists_those_that_are():
    with pytest.raises(
        UnknownNameError, match=r"unknown framework 'vlm'.*vllm.*Known: pytorch, sglang"
    ) as caught:
        LearnedCost(framework="vlm")
    assert "vllm" in caught.value.close_names


def test_a_folder_without_models_says_how_to_train_them(tmp_path):
    with pytest.raises(CalibrationError, match="perfcast train learned"):
        LearnedCost(folder=tmp_path).estimate([elementwise(8)], made_up_device())


def test_it_says_which_measurement_lies_nearest(model):
    found = model.nearest([matmul(512, 512, 512), allocation(8), unknown()], load_device("t4"))
    assert isinstance(model, KnowsNearest)
    assert found[0].split(":")[0] in DEVICES
    assert found[1:] == ["", ""]


def test_it_says_where_no_device_of_a_vendor_was_ever_measured(model):
    """Made-up measurements are of T4, V100, A100 and H100."""
    assert model.about_device(load_device("h100-sxm")) == ""
    assert "no device of this vendor (intel) was ever measured" in model.about_device(
        load_device("arc-pro-b60")
    )
    assert "a100-pcie-40gb run the same ones" in model.about_device(load_device("rtx-pro-6000-server"))
    assert "(tcgen05)" in model.about_device(load_device("b200"))


def test_prices_err_as_one_where_nothing_of_the_vendor_was_measured(model):
    operations = [matmul(512, 512, 512), elementwise(4096)]
    assert model.estimate(operations, load_device("arc-pro-b60")).errs_as_one
    assert not model.estimate(operations, load_device("b200")).errs_as_one


@every_device
def test_a_price_does_not_depend_on_what_is_priced_beside_it(model: LearnedCost, device):
    operations = one_of_each()
    whole, foreign = model._estimate(operations, device)
    assert len(foreign) == len(operations)
    for at, operation in enumerate(operations):
        one = model.estimate([operation], device)
        assert one.seconds[0] == whole.seconds[at]
        assert (one.seconds_low[0], one.seconds_high[0]) == (whole.seconds_low[at], whole.seconds_high[at])
        assert (one.bound_by[0], one.provenance[0]) == (whole.bound_by[at], whole.provenance[at])
    twice = model.estimate([*operations, *operations], device)
    assert twice.seconds.tolist() == 2 * whole.seconds.tolist()
