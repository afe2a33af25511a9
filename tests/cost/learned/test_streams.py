"""What streams, and where the law stands in for measured rows."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.learned.streams import (
    class_of,
    load_constants,
    price_streams,
    stream_of,
    streams_at_full_rate,
)

#: Of forwards, and of what gradients alone run.
WIDTHS = {False: (-0.1, 0.2), True: (-0.2, 0.4)}
SHAPE = (64, 256, 56, 56)
CONTIGUOUS = (256 * 56 * 56, 56 * 56, 56, 1)
CHANNELS_LAST = (256 * 56 * 56, 1, 56 * 256, 256)


def image(strides: tuple[int, ...] = CONTIGUOUS, shape: tuple[int, ...] = SHAPE) -> TensorType:
    return TensorType(shape, DType.FP16, strides)


def operation(
    kind: OperationKind, name: str, *inputs: TensorType, output: TensorType | None = None
) -> Operation:
    made = (*inputs, output or inputs[0])
    return Operation(
        kind, name, inputs, (output or inputs[0],), DType.FP16, 0, 0, sum(t.num_bytes for t in made)
    )


def test_a_copy_of_channels_last_to_channels_last_is_not_scattered():
    last = image(CHANNELS_LAST)
    assert class_of(operation(OperationKind.COPY, "clone", last)) == "copy"
    assert class_of(operation(OperationKind.COPY, "clone", last, output=image())) == "copy_strided"


def test_classes_tell_memory_formats_and_what_is_broadcast():
    scale = image((256, 1, 1, 1), (64, 256, 1, 1))
    assert class_of(operation(OperationKind.NORMALIZATION, "native_batch_norm", image(CHANNELS_LAST))) == (
        "batch_norm_evaluate.nhwc"
    )
    assert class_of(operation(OperationKind.ELEMENTWISE, "mul", image(), scale)) == "broadcast"
    assert class_of(operation(OperationKind.ELEMENTWISE, "relu_", image())) == "elementwise"
    assert class_of(operation(OperationKind.COPY, "upsample_bilinear2d", image())) == "resize.nchw"


def test_a_large_tensor_runs_at_nine_tenths_of_the_memory_s_rate():
    device = load_device("rtx-3090")
    stream = stream_of(operation(OperationKind.ELEMENTWISE, "relu", image()), device)
    assert stream is not None
    traffic = 2 * 64 * 256 * 56 * 56 * 2
    assert stream.seconds == pytest.approx(traffic / 936e9 / 0.9, rel=0.05)


def test_a_large_cache_keeps_a_part_but_no_more_than_it_holds():
    device = load_device("rtx-4090")
    relu = operation(OperationKind.ELEMENTWISE, "relu", image(shape=(16, 256, 56, 56)))
    spans = [np.array([1.0]), np.array([0.5]), np.array([2.0])]
    price_streams([relu], device, False, spans, WIDTHS)
    traffic = relu.memory_traffic_bytes
    assert spans[1][0] >= (traffic - device.l2_bytes) / device.memory_bytes_per_second
    assert spans[0][0] < traffic / device.memory_bytes_per_second


def test_resizing_contiguous_images_waits_for_few_threads():
    device = load_device("rtx-3090")
    small, large = image(shape=(64, 256, 7, 7)), image(shape=(64, 256, 14, 14))
    stream = stream_of(operation(OperationKind.COPY, "upsample_bilinear2d", small, output=large), device)
    assert stream is not None
    assert stream.seconds == pytest.approx(64 * 256 * 500 / 1.695e9)


def test_lookups_and_products_do_not_stream():
    device = load_device("rtx-3090")
    for kind in (OperationKind.EMBEDDING, OperationKind.MATMUL, OperationKind.SORT):
        assert stream_of(operation(kind, "made up", image()), device) is None


@pytest.mark.parametrize(
    ("device", "full"),
    [("rtx-4090", True), ("rtx-5090", True), ("rtx-pro-6000-max-q", True), ("l4", False), ("a40", False),
     ("a100-sxm-80gb", False), ("mi300x", False)],
)  # fmt: skip
def test_boards_without_check_bits_stream_at_the_full_rate(device: str, full: bool):
    assert streams_at_full_rate(load_device(device)) is full


def test_the_law_stands_in_only_where_no_row_kernel_was_measured():
    operations = [operation(OperationKind.ELEMENTWISE, "relu", image())]
    for is_measured, changes in ((True, False), (False, True)):
        spans = [np.array([1.0]), np.array([0.5]), np.array([2.0])]
        price_streams(operations, load_device("rtx-4090"), is_measured, spans, WIDTHS)
        assert bool(spans[0][0] != 1.0) is changes
        assert spans[1][0] < spans[0][0] < spans[2][0]


def test_what_nobody_measured_keeps_its_constant_everywhere():
    name = "batch_norm_backward.nchw"
    statistics = TensorType((256,), DType.FP32)
    backward = Operation(
        OperationKind.NORMALIZATION, "native_batch_norm_backward", (image(), image()),
        (image(), statistics, statistics), DType.FP16, 0, 0, 3 * image().num_bytes,
    )  # fmt: skip
    spans = [np.array([1.0]), np.array([0.5]), np.array([2.0])]
    price_streams([backward], load_device("a100-sxm-80gb"), True, spans, WIDTHS)
    assert spans[0][0] == pytest.approx(max(1.0, load_constants()[name] / (5 / 3)))
    assert spans[2][0] == pytest.approx(spans[0][0] * np.exp(0.4))
