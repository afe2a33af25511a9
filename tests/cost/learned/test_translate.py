from __future__ import annotations

import math

import numpy as np
import pytest

from builders import allocation, elementwise, matmul
from perfcast.core.dtype import DType
from perfcast.core.kernel import SIZES, WORDS, KernelFamily
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.learned.figures import ARITHMETIC
from perfcast.cost.learned.relatives import experts_library
from perfcast.cost.learned.translate import Translation, translate
from perfcast.frameworks.load import load_inference_profiles
from perfcast.workload.blocks.serving.kernels import formatted_product
from perfcast.workload.rules import OperatorCall, operation_of

PRODUCT, CONVOLUTION, ATTENTION, ROWS = (
    KernelFamily.PRODUCT, KernelFamily.CONVOLUTION, KernelFamily.ATTENTION, KernelFamily.ROWS,
)  # fmt: skip


def tensor(*shape: int, dtype: DType = DType.BF16) -> TensorType:
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return TensorType(shape, dtype, strides)


def call(name: str, args: tuple[object, ...], *outputs: TensorType) -> Operation:
    return operation_of(OperatorCall(name, args, {}, outputs))


def only(translation: Translation, family: KernelFamily) -> dict[str, object]:
    """The single kernel of a translation, by column, and how often it runs."""
    assert list(translation.tables) == [family]
    table = translation.tables[family]
    assert len(table) == 1
    assert table.is_cold
    return {name: column[0] for name, column in table.columns.items()} | {
        "repeats": translation.repeats[family][0]
    }


def kernel(operation: Operation, family: KernelFamily, framework: str = "pytorch") -> dict[str, object]:
    return only(translate([operation], framework), family)


def sizes(found: dict[str, object], names: str) -> list[float]:
    return [float(str(found[name])) for name in names.split()]


# ---- products ----------------------------------------------------------------------------------------


def test_a_matrix_product_keeps_its_sizes_and_layout():
    b = TensorType((5120, 1280), DType.BF16, (1, 5120))
    found = kernel(call("mm", (tensor(64, 5120), b), tensor(64, 1280)), PRODUCT)
    assert sizes(found, "batch m n k repeats") == [1, 64, 1280, 5120, 1]
    assert (found["operation"], found["layout"], found["dtype"]) == ("linear", "nt", "bf16")


def test_a_product_with_a_bias_is_a_product():
    operation = call("addmm", (tensor(8), tensor(4, 16), tensor(16, 8)), tensor(4, 8))
    assert sizes(kernel(operation, PRODUCT), "batch m n k") == [1, 4, 8, 16]


def test_a_batched_product_keeps_its_batch():
    operation = call("bmm", (tensor(6, 32, 64), tensor(6, 64, 16)), tensor(6, 32, 16))
    found = kernel(operation, PRODUCT)
    assert sizes(found, "batch m n k") == [6, 32, 16, 64]
    assert found["operation"] == "bmm"


def test_a_grouped_product_is_one_for_each_group_with_its_share_of_the_rows():
    operation = call("_grouped_mm", (tensor(800, 64), tensor(8, 64, 32)), tensor(800, 32))
    found = kernel(operation, PRODUCT)
    assert sizes(found, "batch m n k") == [8, 100, 32, 64]
    assert 2 * np.prod(sizes(found, "batch m n k")) == operation.flops


def test_groups_without_a_row_read_no_weights():
    operation = call("_grouped_mm", (tensor(3, 64), tensor(8, 64, 32)), tensor(3, 32))
    assert sizes(kernel(operation, PRODUCT), "batch m n k") == [3, 1, 32, 64]


def test_the_weights_gradient_of_a_grouped_product_splits_the_rows_that_it_sums_over():
    operation = call("_grouped_mm", (tensor(64, 800), tensor(800, 32)), tensor(8, 64, 32))
    found = kernel(operation, PRODUCT)
    assert sizes(found, "batch m n k") == [8, 64, 32, 100]
    assert 2 * np.prod(sizes(found, "batch m n k")) == operation.flops


def test_a_matrix_times_a_vector_streams_the_matrix():
    operation = call("mv", (tensor(4096, 1024), tensor(1024)), tensor(4096))
    found = kernel(operation, ROWS)
    assert sizes(found, "num_rows row_length") == [4096, 1024]
    assert found["read_bytes"] == 2 * (4096 * 1024 + 1024)


@pytest.mark.parametrize("gates", [4, 3, 1])
def test_a_recurrent_layer_is_a_product_a_step_whatever_its_cell(gates):
    steps, batch, inputs, hidden = 10, 8, 32, 64
    weights = tensor(gates * hidden, inputs), tensor(gates * hidden, hidden)
    arguments = (tensor(steps, batch, inputs), *weights)
    found = kernel(call("mkldnn_rnn_layer", arguments, tensor(steps, batch, hidden)), PRODUCT)
    assert sizes(found, "batch m n k repeats") == [1, batch, gates * hidden, inputs + hidden, steps]


def test_the_backward_of_a_recurrent_layer_runs_twice_as_many_products():
    arguments = (tensor(10, 8, 32), tensor(256, 32), tensor(256, 64))
    operation = call("mkldnn_rnn_layer_backward", arguments, tensor(10, 8, 32))
    found = kernel(operation, PRODUCT)
    assert found["repeats"] == 20
    assert 2 * np.prod(sizes(found, "batch m n k repeats")) == operation.flops


@pytest.mark.parametrize("dtype", list(DType))
def test_every_element_type_computes_in_a_format_that_figures_know(dtype):
    found = kernel(matmul(8, 8, 8, dtype), PRODUCT)
    assert found["dtype"] in ARITHMETIC
    rows = kernel(elementwise(8, dtype), ROWS)
    assert rows["dtype"] in ARITHMETIC


# ---- whose kernels -----------------------------------------------------------------------------------


def test_pytorch_s_half_precision_products_are_the_library_s_that_sglang_calls():
    assert kernel(matmul(8, 8, 8, DType.BF16), PRODUCT)["framework"] == "sglang"
    assert kernel(matmul(8, 8, 8, DType.FP32), PRODUCT)["framework"] == "pytorch"


@pytest.mark.parametrize("framework", ["sglang", "trtllm", "vllm"])
def test_a_serving_framework_runs_its_own_kernels(framework):
    assert kernel(matmul(8, 8, 8, DType.BF16), PRODUCT, framework)["framework"] == framework


# ---- convolutions ------------------------------------------------------------------------------------


def convolution(size: int, out: int, stride: int, padding: int, taps: int = 3, groups: int = 1) -> Operation:
    image, weight = tensor(2, 16, size, size), tensor(32, 16 // groups, taps, taps)
    arguments = (image, weight, None, (stride,) * 2, (padding,) * 2, (1, 1), False, (0, 0), groups)
    return call("convolution", arguments, tensor(2, 32, out, out))


@pytest.mark.parametrize(
    ("size", "out", "stride", "padding", "taps", "groups"),
    [(56, 56, 1, 1, 3, 1), (56, 28, 2, 1, 3, 1), (224, 112, 2, 3, 7, 1), (224, 14, 16, 0, 16, 1),
     (14, 14, 1, 0, 1, 1), (56, 56, 1, 1, 3, 16)],
)  # fmt: skip
def test_a_convolution_keeps_its_geometry(size, out, stride, padding, taps, groups):
    found = kernel(convolution(size, out, stride, padding, taps, groups), CONVOLUTION)
    assert sizes(found, "batch c_in c_out filter_width input_width") == [2, 16, 32, taps, size]
    assert found["stride_height"] == stride
    assert found["groups"] == groups
    assert found["padding_width"] == padding


@pytest.mark.parametrize(("mask", "passes"), [((True, True, True), 2), ((False, True, False), 1)])
def test_a_convolution_s_backward_names_the_gradients_that_are_wanted(mask, passes):
    image, weight, gradient = tensor(2, 16, 8, 8), tensor(32, 16, 3, 3), tensor(2, 32, 8, 8)
    arguments = (gradient, image, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, mask)
    found = kernel(call("convolution_backward", arguments, image, weight, tensor(32)), CONVOLUTION)
    assert found["operation"] == ("convolution_backward" if passes == 2 else "convolution_weight")
    assert found["repeats"] == 1
    assert sizes(found, "c_in c_out") == [16, 32]


# ---- attention ---------------------------------------------------------------------------------------


def attention(queries: int, keys: int, causal: bool, kv_heads: int = 2) -> Operation:
    query, key = tensor(3, 8, queries, 64), tensor(3, kv_heads, keys, 64)
    return call("attention", (query, key, key, None, causal), query)


@pytest.mark.parametrize(
    ("queries", "keys", "causal", "name"),
    [(128, 128, True, "context"), (128, 128, False, "encoder"), (1, 500, False, "generation")],
)
def test_attention_is_named_by_who_sees_whom(queries, keys, causal, name):
    found = kernel(attention(queries, keys, causal), ATTENTION)
    assert found["operation"] == name
    assert sizes(found, "batch num_queries num_keys num_heads num_kv_heads") == [3, queries, keys, 8, 2]
    assert sizes(found, "head_size value_head_size window causal") == [64, 64, 0, causal]
    assert (found["dtype"], found["kv_dtype"], found["framework"]) == ("bf16", "bf16", "vllm")


def test_the_backward_of_attention_is_a_kernel_of_its_own():
    heads = tensor(3, 8, 128, 64)
    arguments = (heads, heads, heads, heads, heads, tensor(3, 8, 128), None, True)
    found = kernel(call("attention_backward", arguments, heads, heads, heads), ATTENTION)
    assert found["operation"] == "context_backward"
    assert sizes(found, "num_queries causal") == [128, 1]


# ---- rows --------------------------------------------------------------------------------------------

GRID = tensor(64, 128)
LIST = (tensor(1000), tensor(300))


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (call("add.Tensor", (GRID, GRID), GRID), "add"),
        (call("add_.Tensor", (GRID, GRID)), "add"),
        (call("gelu", (GRID,), GRID), "gelu"),
        (call("silu", (GRID,), GRID), "transcendental"),
        (call("_softmax", (GRID, -1, False), GRID), "softmax"),
        (call("_softmax_backward_data", (GRID, GRID, -1, DType.BF16), GRID), "softmax_backward"),
        (call("_log_softmax", (GRID, -1, False), GRID), "log_softmax"),
        (call("native_layer_norm", (GRID, [128]), GRID, tensor(64, 1), tensor(64, 1)), "ln"),
        (call("native_layer_norm_backward", (GRID, GRID, [128]), GRID), "layer_norm_backward"),
        (call("sum.dim_IntList", (GRID, [1]), tensor(64)), "reduction_rows"),
        (call("_foreach_add_.List", (LIST, LIST)), "optimizer_foreach"),
        (call("clone", (GRID,), GRID), "copy"),
    ],
)
def test_a_kernel_over_rows_has_the_name_of_what_was_measured_or_of_its_family(operation, name):
    found = kernel(operation, ROWS)
    assert found["operation"] == name
    assert found["framework"] == "pytorch"
    assert float(found["read_bytes"]) + float(found["written_bytes"]) == operation.memory_traffic_bytes


def test_a_layer_norm_with_weights_to_train_has_a_backward_of_two_kernels():
    weight = tensor(128)
    args = (GRID, GRID, [128], tensor(64, 1), tensor(64, 1), weight, weight)
    both = call("native_layer_norm_backward", (*args, (True, True, True)), GRID, weight, weight)
    frozen = call("native_layer_norm_backward", (*args, (True, False, False)), GRID)
    assert kernel(both, ROWS)["operation"] == "layer_norm_backward"
    assert kernel(frozen, ROWS)["operation"] == "ln_backward"
    on_rocm = only(translate([both], vendor="amd"), ROWS)
    assert on_rocm["operation"] == "layer_norm_backward_rocm"
    assert sizes(kernel(both, ROWS), "num_rows row_length") == [64, 128]


@pytest.mark.parametrize(
    ("mask", "shared"),
    [
        ((1, 1, 1024, 1024), 1024 * 1024),
        ((2, 1, 1024, 1024), 1024 * 1024),
        ((2, 1, 1, 1024), 0),  # a row that every cache holds
        ((1024,), 0),
        ((2, 16, 1024, 1024), 0),
    ],
)
def test_an_operand_that_heads_share_is_a_row_of_its_own(mask: tuple[int, ...], shared: int):
    scores = tensor(2, 16, 1024, 1024)
    found = kernel(call("add.Tensor", (scores, tensor(*mask)), scores), ROWS)
    assert found["operation"] == ("elementwise_broadcast" if shared else "add")
    if shared:
        assert sizes(found, "num_rows row_length") == [32, shared]


def test_rows_run_along_the_last_dim():
    operation = call("_softmax", (tensor(4, 16, 128), -1, False), tensor(4, 16, 128))
    found = kernel(operation, ROWS)
    assert sizes(found, "num_rows row_length read_bytes written_bytes") == [64, 128, 16384, 16384]


def fused(**attributes: int) -> Operation:
    wide = tensor(32, 4096)
    pairs = tuple(sorted(attributes.items()))
    return Operation(
        OperationKind.NORMALIZATION, "fused_add_layer_norm", (wide, wide), (tensor(32 * 4096),), DType.BF16,
        10, 10, 3 * wide.num_bytes, attributes=pairs,
    )  # fmt: skip


def test_a_fused_kernel_works_on_the_row_that_it_states():
    found = kernel(fused(members=2, row=512), ROWS)
    assert sizes(found, "num_rows row_length") == [256, 512]
    assert found["operation"] == "ln"


def test_a_fused_kernel_without_a_stated_row_takes_its_largest_tensor_s():
    assert sizes(kernel(fused(members=2), ROWS), "num_rows row_length") == [32, 4096]


def test_fused_element_wise_work_streams():
    operation = elementwise(4096, name="fused_add_mul_tanh")
    assert kernel(operation, ROWS)["operation"] == "elementwise"


# ---- all kinds ---------------------------------------------------------------------------------------

NO_KERNEL = {OperationKind.ALLOCATION, OperationKind.UNKNOWN}


@pytest.mark.parametrize("kind", list(OperationKind), ids=lambda kind: kind.value)
@pytest.mark.parametrize("tensors", [(GRID, GRID), (tensor(1),)], ids=["two matrices", "one number"])
def test_every_kind_is_translated_or_free_or_unknown(kind, tensors):
    operation = Operation(kind, "some_name", tensors, tensors[:1], DType.BF16, 64, 64, 4 * GRID.num_bytes)
    tables = translate([operation]).tables
    assert bool(tables) is (kind not in NO_KERNEL)
    for family, table in tables.items():
        assert all((table.size(name) >= 0).all() for name in SIZES[family])
        assert all(isinstance(table.word(name)[0], str) for name in WORDS[family])


def test_each_kernel_knows_the_operation_that_it_came_from():
    operations = [allocation(8), matmul(8, 8, 8), elementwise(4), allocation(8), matmul(9, 9, 9)]
    found = translate(operations)
    assert found.sources[PRODUCT].tolist() == [1, 4]
    assert found.sources[ROWS].tolist() == [2]
    assert found.tables[PRODUCT].size("m").tolist() == [8, 9]


def test_a_kernel_without_tensors_is_one_element():
    operation = Operation(OperationKind.RANDOM, "seed", (), (), DType.FP32, 0, 0, 0)
    assert sizes(kernel(operation, ROWS), "num_rows row_length read_bytes written_bytes") == [1, 1, 0, 1]


def test_no_operations_are_no_tables():
    assert translate([]).tables == {}


def test_every_framework_names_measured_kernels_for_every_family():
    for framework in load_inference_profiles():
        assert len(translate([matmul(8, 8, 8), attention(8, 8, True)], framework).tables) == 2


# ---- what serving states beyond types ----------------------------------------------------------------


def stated(kind: OperationKind, attributes: dict[str, int | str | bool]) -> Operation:
    """An operation that is known by its attributes."""
    x = tensor(8, 64)
    return Operation(kind, "stated", (x,), (x,), DType.BF16, 1, 1, 1, 0, tuple(sorted(attributes.items())))


def test_a_stated_format_is_the_kernels():
    sizes_of_product: dict[str, int | str | bool] = {"batch": 1, "m": 8, "n": 64, "k": 64, "layout": "nt"}
    found = kernel(stated(OperationKind.MATMUL, sizes_of_product | {"format": "fp8_block"}), PRODUCT)
    assert found["dtype"] == "fp8_block"
    found = kernel(stated(OperationKind.MATMUL, sizes_of_product | {"format": "fp16"}), PRODUCT)
    assert found["dtype"] == "bf16"


def test_fused_experts_are_one_kernel_with_the_whole_models_sizes():
    given: dict[str, int | str | bool] = {
        "num_tokens": 32, "hidden_size": 64, "inter_size": 96, "experts_per_token": 2, "num_experts": 8,
        "tensor_parallel": 1, "expert_parallel": 4, "is_gated": True, "format": "nvfp4",
    }  # fmt: skip
    found = kernel(stated(OperationKind.GROUPED_MATMUL, given), KernelFamily.EXPERTS, "trtllm")
    assert sizes(found, " ".join(SIZES[KernelFamily.EXPERTS])) == [32, 64, 96, 2, 8, 1, 4]
    words = [found[name] for name in WORDS[KernelFamily.EXPERTS]]
    assert words == ["moe_cold", "balanced", "nvfp4", "trtllm"]
    plain = kernel(stated(OperationKind.GROUPED_MATMUL, given | {"is_gated": False}), KernelFamily.EXPERTS)
    assert plain["operation"] == "moe_ungated_cold"


def test_attention_states_its_latent_form_its_window_and_the_format_of_its_cache():
    given: dict[str, int | str | bool] = {
        "batch": 1, "num_queries": 1, "num_keys": 64, "heads": 8, "kv_heads": 1, "head_size": 20,
        "value_head_size": 16, "causal": False,
    }  # fmt: skip
    latent: dict[str, int | str | bool] = {"is_latent": True, "keys_format": "fp8", "window": 32}
    found = kernel(stated(OperationKind.ATTENTION, given | latent), ATTENTION)
    assert (found["operation"], found["dtype"], found["kv_dtype"]) == ("mla_generation", "bf16", "fp8")
    assert found["window"] == 32
    several = given | latent | {"num_queries": 64, "causal": True}
    assert kernel(stated(OperationKind.ATTENTION, several), ATTENTION)["operation"] == "mla_context"
    plain = kernel(stated(OperationKind.ATTENTION, given), ATTENTION)
    assert (plain["operation"], plain["kv_dtype"], plain["window"]) == ("generation", "bf16", 0)


def test_experts_on_blackwell_are_those_of_the_kernels_that_newer_versions_call() -> None:
    asked = {"num_tokens": 32, "experts_per_token": 2, "num_experts": 8, "is_gated": True}
    narrow = stated(OperationKind.GROUPED_MATMUL, {**asked, "format": "nvfp4"})
    libraries = [
        translate([narrow], framework, "nvidia", architecture)
        .tables[KernelFamily.EXPERTS]
        .word("framework")[0]
        for framework, architecture in (("sglang", "blackwell"), ("sglang", "hopper"), ("vllm", "blackwell"))
    ]
    assert libraries == ["vllm", "sglang", "vllm"]


def test_products_in_fp8_by_blocks_are_those_of_the_library_that_newer_versions_call() -> None:
    product = formatted_product(64, 4096, 4096, "fp8_block")
    libraries = [
        translate([product], "vllm", "nvidia", architecture).tables[KernelFamily.PRODUCT].word("framework")[0]
        for architecture in ("hopper", "blackwell", "ampere")
    ]
    assert libraries == ["sglang", "trtllm", "vllm"]


def test_experts_in_fp8_by_blocks_on_blackwell_are_those_of_the_faster_library_of_a_size() -> None:
    sizes = (("trtllm", 8, 1), ("trtllm", 512, 1), ("trtllm", 8, 8), ("sglang", 8, 1), ("sglang", 8, 8))
    found = [
        experts_library(library, "fp8_block", "blackwell", num_tokens=tokens, expert_parallel=ranks)
        for library, tokens, ranks in sizes
    ]
    assert found == ["sglang", "trtllm", "trtllm", "sglang", "trtllm"]
