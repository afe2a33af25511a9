"""NeuSight as a predictor of kernels and as a cost model of graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from builders import allocation, elementwise, matmul
from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.model import memory_seconds
from perfcast.cost.spread import load_spread
from perfcast.errors import InputError, PlanError
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.kernels.graph import StudyCost
from perfcast.published.neusight.graph import NeuSightCalls
from perfcast.published.neusight.nets import NETS, PRODUCT_NETS, WHOLE_ROW_NETS, net_of, row_work
from perfcast.published.neusight.predictor import NeuSight, TrainedNet, load_neusight
from perfcast.published.neusight.rules import calls_in
from perfcast.published.neusight.tiles import TileTable, product_features, vector_features
from perfcast.published.neusight.waves import product_waves
from perfcast.workload.rules import OperatorCall, operation_of

T4 = load_device("t4")
ONE = np.zeros(1, dtype=np.int64)


def half_used(name: str, share: float = 0.5) -> TrainedNet:
    """A net that answers the same utilization for every kernel, with one tile for each."""
    outputs = np.array([-60.0, 0.0, math.log(share / (1 - share))], dtype=np.float32)
    weights = {"0.weight": np.zeros((3, 4), dtype=np.float32), "0.bias": outputs}
    return TrainedNet(name, weights, tiles_of(name), 0.8, 1.25)


def tiles_of(name: str) -> TileTable:
    operations = NETS[name].operations
    figures = collect_study_figures((T4,), np.zeros(len(operations), dtype=np.int64))
    if name in PRODUCT_NETS:
        shape, tiles = np.full((len(operations), 4), 64.0), np.full((len(operations), 2), 64.0)
        return TileTable(np.array(operations), product_features(shape, figures), tiles)
    if name in WHOLE_ROW_NETS:
        return TileTable(np.array([], dtype=str), np.zeros((0, 9)), np.zeros((0, 1)))
    shape = np.full((len(operations), 2), 1024.0)
    work = np.array([row_work(operation) for operation in operations])
    tiles = np.full((len(operations), 1), 512.0)
    return TileTable(np.array(operations), vector_features(shape, work, figures), tiles)


def predictor(**shares: float) -> NeuSight:
    return NeuSight({name: half_used(name, shares.get(name, 0.5)) for name in NETS}, "nvidia")


def cost_model() -> StudyCost:
    return StudyCost(NeuSightCalls(predictor()))


def products(operation: str = "linear", dtype: str = "fp32", batch: float = 1) -> KernelTable:
    return build_kernel_table(
        KernelFamily.PRODUCT, 1, operation=operation, dtype=dtype, batch=batch, m=512, n=256, k=128,
        layout="nn", framework="pytorch",
    )  # fmt: skip


def rows(operation: str) -> KernelTable:
    size = np.array([4096.0 * 1024 * 4])
    columns = {"num_rows": np.array([4096.0]), "row_length": np.array([1024.0]), "read_bytes": size}
    words = {name: np.array([word], dtype=object) for name, word in
             (("operation", operation), ("dtype", "fp32"), ("framework", "pytorch"))}  # fmt: skip
    return KernelTable(KernelFamily.ROWS, {**columns, "written_bytes": size, **words})


def tensor(*shape: int) -> TensorType:
    return TensorType(shape, DType.FP32, tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))


def call(name: str, args: Sequence[object], *outputs: TensorType) -> Operation:
    return operation_of(OperatorCall(name, tuple(args), {}, outputs))


def test_half_the_utilization_takes_twice_the_bound():
    seconds = predictor().predict(products(), (T4,), ONE)
    figures = collect_study_figures((T4,), ONE)
    waves = product_waves(np.array([[1.0, 512, 128, 256]]), np.array([[64.0, 64.0]]), figures)
    assert seconds[0] == pytest.approx(2 * waves.bound_seconds[0])


def test_a_batch_of_products_goes_to_the_net_of_batched_products():
    nets = predictor(linear=0.25, bmm=0.5)
    as_linear = nets.predict(products("bmm"), (T4,), ONE) / nets.predict(products("linear"), (T4,), ONE)
    assert as_linear[0] == pytest.approx(0.5)
    assert (
        nets.predict(products("linear", batch=2), (T4,), ONE)[0] < 2 * nets.predict(products(), (T4,), ONE)[0]
    )


@pytest.mark.parametrize("kernels", [products(dtype="bf16"), rows("rms_norm")])
def test_kernels_that_no_net_prices_are_nan(kernels: KernelTable):
    assert np.isnan(predictor().predict(kernels, (T4,), ONE)).all()


def test_devices_of_another_vendor_have_no_model_and_the_training_is_named():
    amd = load_device("mi100")
    assert np.isnan(predictor().predict(products(), (amd,), ONE)).all()
    with pytest.raises(PlanError, match="perfcast train neusight --vendor amd"):
        cost_model().estimate([matmul(8, 8, 8, DType.FP32)], amd)
    with pytest.raises(PlanError, match="another cost model"):
        cost_model().estimate([], load_device("tpu-v4"))


def test_known_tiles_take_the_place_of_the_look_up():
    nets = predictor()
    found = nets.predict(products(), (T4,), ONE)
    same = nets.predict_tiled(products(), (T4,), ONE, np.array([[64.0, 64.0]]))
    other = nets.predict_tiled(products(), (T4,), ONE, np.array([[128.0, 128.0]]))
    assert found == same
    assert found != other


@pytest.mark.parametrize("operation", ["softmax", "ln", "gelu"])
def test_row_kernels_are_priced_by_their_nets(operation: str):
    seconds = predictor().predict(rows(operation), (T4,), ONE)
    least = 2 * 4096 * 1024 * 4 / (320 * 2**30)
    assert seconds[0] == pytest.approx(2 * least, rel=0.05)


def test_every_kernel_of_the_study_has_one_net():
    assert {net_of(operation) for net in NETS.values() for operation in net.operations} == NETS.keys()
    assert net_of("conv") is None


def test_an_untrained_predictor_names_the_command_that_trains_it(tmp_path):
    with pytest.raises(InputError, match="perfcast train neusight --data DIR"):
        load_neusight(tmp_path)


# ---- graphs -----------------------------------------------------------------------------------

X, HEADS, SCORES = tensor(64, 256), tensor(2, 4, 128, 64), tensor(2, 4, 128, 128)


@pytest.mark.parametrize(
    ("operation", "kernels"),
    [
        (matmul(8, 16, 32, DType.FP32), ["linear"]),
        (call("bmm", (tensor(8, 32, 64), tensor(8, 64, 16)), tensor(8, 32, 16)), ["bmm"]),
        (call("add.Tensor", (X, X), X), ["add"]),
        (call("add.Tensor", (X, 1.0), X), ["addu"]),
        (call("mul_.Tensor", (X, tensor(256)), X), ["mul"]),
        (call("gelu", (X,), X), ["gelu"]),
        (call("gelu_backward", (X, X), X), ["gelu"]),
        (call("threshold_backward", (X, X, 0), X), ["relu"]),
        (call("tanh_backward", (X, X), X), ["mulu", "addu"]),
        (call("_softmax", (X, -1, False), X), ["softmax"]),
        (call("_softmax_backward_data", (X, X, -1), X), ["softmax"]),
        (call("native_layer_norm", (X, [256], tensor(256), tensor(256), 1e-5), X), ["ln"]),
        (call("native_layer_norm_backward", (X, X), X), ["mul"]),
        (call("attention", (HEADS, HEADS, HEADS, None, True), HEADS), ["bmm", "divu", "softmax", "bmm"]),
    ],
)  # fmt: skip
def test_each_operation_is_counted_as_the_study_counts_it(operation: Operation, kernels: list[str]):
    assert [c.operation for c in calls_in(operation) or []] == kernels


def test_a_product_keeps_its_sizes_and_rows_their_bytes():
    (linear,) = calls_in(call("mm", (tensor(8, 32), tensor(32, 16)), tensor(8, 16))) or []
    assert linear.shape == (1, 8, 32, 16)
    (norm,) = calls_in(call("native_layer_norm", (X, [256], tensor(256), tensor(256), 1e-5), X)) or []
    assert (norm.shape, norm.work) == ((64, 256), (8, 6))
    (add,) = calls_in(call("add.Tensor", (X, tensor(256)), X)) or []
    assert add.work == (4 * (2 + 1 / 64), 1)


def test_the_backward_of_attention_has_four_products_of_the_forwards_flops():
    arguments = (HEADS, HEADS, HEADS, HEADS, HEADS, tensor(2, 4, 128), None, True)
    backward = calls_in(call("attention_backward", arguments, HEADS, HEADS, HEADS)) or []
    shapes = [c.shape for c in backward if c.operation == "bmm"]
    assert [math.prod(shape) for shape in shapes] == [8 * 128 * 128 * 64] * 4
    assert [c.operation for c in backward if c.operation != "bmm"] == ["mul", "softmax", "divu"]


@pytest.mark.parametrize(
    ("kind", "name", "kernel", "flops_each"),
    [
        (OperationKind.ELEMENTWISE, "fused_add_gelu_clone", "gelu", 3),
        (OperationKind.ELEMENTWISE, "fused_where_sigmoid", "add", 3),
        (OperationKind.SOFTMAX, "fused_div_softmax", "softmax", 7),
        (OperationKind.NORMALIZATION, "fused_add_layer_norm", "ln", 8),
    ],
)
def test_a_fused_kernel_is_one_call_with_its_own_bytes(kind, name: str, kernel: str, flops_each: float):
    operation = Operation(
        kind, name, (X, X), (X,), DType.FP32, 0, 0, 10 * X.num_elements, 0, (("members", 3),)
    )
    (fused,) = calls_in(operation) or []
    assert (fused.operation, fused.shape, fused.work) == (kernel, (64, 256), (10, flops_each))


def test_a_fused_reduction_is_not_counted():
    attributes = (("members", 2),)
    operation = Operation(
        OperationKind.REDUCTION, "fused_mul_sum", (X,), (X,), DType.FP32, 0, 0, 8, 0, attributes
    )
    assert calls_in(operation) is None


@pytest.mark.parametrize("name", ["sum", "embedding_dense_backward", "cat"])
def test_what_the_study_does_not_count_is_not_counted(name: str):
    assert calls_in(call(name, (X, X), X)) is None


def test_a_graph_is_priced_by_nets_bytes_and_nothing():
    operations = [matmul(512, 256, 128, DType.FP32), call("clone", (X,), X), allocation(10)]
    estimates = cost_model().estimate(operations, T4)
    assert estimates.provenance == ("neusight", "bounded", "bounded")
    assert estimates.seconds[1] == memory_seconds(operations, T4)[1]
    assert estimates.seconds_high[1] == load_spread("roofline") * estimates.seconds[1]
    assert estimates.seconds[2] == estimates.seconds_high[2] == 0.0
    assert (estimates.seconds_low <= estimates.seconds).all()
    assert (estimates.seconds <= estimates.seconds_high).all()


def test_the_kernels_of_one_operation_add_up():
    operations = [
        call("tanh_backward", (X, X), X),
        call("mul.Tensor", (X, 2.0), X),
        call("add.Tensor", (X, 2.0), X),
    ]
    backward, product, addition = cost_model().estimate(operations, T4).seconds
    assert backward == pytest.approx(product + addition)


def test_products_in_other_precisions_are_refused_with_a_way_out():
    with pytest.raises(PlanError, match="--dtype fp32"):
        cost_model().estimate([matmul(8, 8, 8, DType.BF16)], T4)


def test_prices_do_not_depend_on_company():
    model = cost_model()
    operations = [matmul(512, 256, 128, DType.FP32), elementwise(10**6, DType.FP32)]
    alone = [model.estimate([operation], T4).seconds[0] for operation in operations]
    assert model.estimate(operations, T4).seconds.tolist() == pytest.approx(alone)
