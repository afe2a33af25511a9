"""Forecasts from small recordings, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.operation import OperationKind
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError
from perfcast.traces.events import OperatorInputs, Trace
from perfcast.traces.forecast.batch import change_of_batch
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.operations import operation_of_call
from perfcast.traces.forecast.ratios import Side
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.what_if import Changes, parse_what_if
from perfcast.traces.link.kernels import nest
from perfcast.units import MICRO
from recorded_traces import Recording, two_kernels


def side(name: str) -> Side:
    return Side(load_device(name), Roofline(), "")


def step_of(trace: Trace, *what_ifs: str) -> float:
    changes = parse_what_if(what_ifs)
    return forecast_from_traces([trace], TraceForecastRequest(changes=changes)).step_seconds / MICRO


def test_unchanged_a_step_stays_as_it_was(tmp_path: Path):
    found = forecast_from_traces([two_kernels().read(tmp_path)], TraceForecastRequest())
    assert found.step_seconds == pytest.approx(100 * MICRO)
    assert found.speedup == pytest.approx(1.0)
    assert found.measured_seconds == pytest.approx(100 * MICRO)


def test_kernels_twice_as_fast_shorten_only_what_waits_for_them(tmp_path: Path):
    trace = two_kernels().read(tmp_path)
    # They end at 32 and 42, before the wait at 60: of the 5 µs in it, 3 are its own.
    assert step_of(trace, "speed:gemm=2") == pytest.approx(98)
    assert step_of(trace, "speed:aten::mm=2") == pytest.approx(98)


def test_slower_kernels_lengthen_it(tmp_path: Path):
    trace = two_kernels().read(tmp_path)
    # From 22: 100 µs and 100 µs, 3 µs of the wait, then 25 and 10.
    assert step_of(trace, "speed:gemm=0.2") == pytest.approx(22 + 200 + 3 + 35)


def test_a_host_twice_as_fast_leaves_the_device(tmp_path: Path):
    trace = two_kernels().read(tmp_path)
    # The first launch comes at 7.5 instead of 15, kernels follow 7 µs later and end 40 µs after that.
    assert step_of(trace, "host=2") == pytest.approx(7.5 + 7 + 40 + 1.5 + 12.5 + 5)


def test_a_faster_operator_of_a_processor_shortens_what_it_is_part_of(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("aten::linear", 10, 50)
    recording.operator("aten::addmm", 20, 30)
    recording.operator("aten::relu", 60, 20)
    trace = recording.read(tmp_path)
    assert step_of(trace, "speed:addmm=2") == pytest.approx(100 - 15)
    assert step_of(trace, "speed:linear=2") == pytest.approx(100 - 25)
    assert step_of(trace, "speed:aten::=2") == pytest.approx(100 - 35)  # addmm is part of linear
    assert step_of(trace, "speed:addmm=2", "host=2") == pytest.approx((100 - 15) / 2)


def test_a_speed_up_that_meets_nothing_is_an_error(tmp_path: Path):
    with pytest.raises(PlanError, match="nothing recorded has softmax"):
        step_of(two_kernels().read(tmp_path), "speed:softmax=2")
    with pytest.raises(PlanError, match="nothing recorded has gelu in its name; the most time take: "):
        step_of(two_kernels().read(tmp_path), "speed:gemm=2", "speed:gelu=2")


def test_operators_of_a_processor_are_faster_beside_collectives_too(tmp_path: Path):
    recording = Recording(world_size=2)
    recording.step(1, 0, 200)
    recording.operator("aten::mm", 0, 50)
    recording.operator("c10d::allreduce_", 50, 10)
    recording.mark("gloo:all_reduce", 55, 65, thread=2)
    recording.operator("aten::add", 120, 80)
    assert step_of(recording.read(tmp_path), "speed:aten::mm=2") == pytest.approx(200 - 25)


@pytest.mark.parametrize(
    "text", ["faster", "speed:mm=0", "speed:mm=fast", "speed:=2", "host=-1", "overlap=2"]
)
def test_a_change_that_is_none_is_an_error(text: str):
    with pytest.raises(PlanError, match="--what-if"):
        parse_what_if([text])


def test_changes_are_read():
    assert parse_what_if(["speed:aten::mm=2", "overlap", "communication=3"]) == Changes(
        speedups=(("aten::mm", 2.0),), communication_factor=3.0, overlap=True
    )


def product(batch: int = 64, device: str = "NVIDIA H100 80GB HBM3") -> Recording:
    """A device-bound step of one product of [batch, 4096] by [4096, 4096] in bf16, of 1000 µs."""
    recording = Recording(device=device)
    recording.step(1, 0, 1100)
    recording.operator(
        "aten::mm", 0, 20,
        Input_Dims=[[batch, 4096], [4096, 4096]], Input_type=["c10::BFloat16", "c10::BFloat16"],
        Input_Strides=[[4096, 1], [4096, 1]], Concrete_Inputs=["", ""],
    )  # fmt: skip
    recording.call("cudaLaunchKernel", 10, 5, 1)
    recording.kernel("gemm", 20, 1000, 1)
    recording.call("cudaDeviceSynchronize", 30, 992, 2)
    return recording


def test_another_device_takes_the_ratio_of_prices(tmp_path: Path):
    trace = product().read(tmp_path)
    request = TraceForecastRequest(before=side("h100"), after=side("h200"))
    found = forecast_from_traces([trace], request)
    # Bound by memory on both: the ratio of bandwidths, and of launches of some microseconds.
    bandwidths = load_device("h100").memory_bytes_per_second / load_device("h200").memory_bytes_per_second
    ratio = found.device_seconds_after / (1000 * MICRO)
    assert bandwidths < ratio < 1.1 * bandwidths
    assert found.seconds_by_provenance == {"priced": pytest.approx(1000 * MICRO)}
    assert found.step_seconds == pytest.approx(found.replayed_seconds - 1000 * MICRO * (1 - ratio))


def test_work_without_a_rule_follows_bandwidth_in_a_wide_interval(tmp_path: Path):
    recording = product()
    for event in recording.events:
        if event["name"] == "aten::mm":
            event["name"] = "custom::mm"
    found = forecast_from_traces(
        [recording.read(tmp_path)], TraceForecastRequest(before=side("h100"), after=side("h200"))
    )
    assert found.seconds_by_provenance == {"memory bandwidth": pytest.approx(1000 * MICRO)}
    assert found.step_seconds_low < 0.7 * found.step_seconds
    assert found.step_seconds_high > 1.7 * found.step_seconds
    assert any("memory bandwidth" in note for note in found.assumptions)


def test_a_larger_batch_grows_with_its_work(tmp_path: Path):
    trace = product(batch=2048).read(tmp_path)
    request = TraceForecastRequest(before=side("h100"), after=side("h100"), batch=(2048, 8192))
    found = forecast_from_traces([trace], request)
    # Bound by arithmetic at 2048 rows and at 8192: four times the work.
    assert found.device_seconds_after == pytest.approx(4000 * MICRO, rel=0.03)


def test_a_batch_that_no_shape_follows_is_an_error(tmp_path: Path):
    trace = product().read(tmp_path)
    parents = nest(trace.events).parents
    with pytest.raises(PlanError, match="dim of 7"):
        change_of_batch(trace, parents, 7, 14)
    with pytest.raises(PlanError, match="dims of 1"):
        change_of_batch(trace, parents, 1, 14)


def test_a_processors_operators_grow_by_their_work_in_times_of_their_call(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 300)
    for start in (0, 20, 40):
        recording.operator("aten::detach", start, 10, Input_Dims=[[8, 64]], Input_type=["float"])
    recording.operator(
        "aten::mm", 100, 110, Input_Dims=[[8, 64], [64, 64]], Input_type=["float", "float"],
        Input_Strides=[[64, 1], [64, 1]], Concrete_Inputs=["", ""],
    )  # fmt: skip
    found = forecast_from_traces([recording.read(tmp_path)], TraceForecastRequest(batch=(8, 24)))
    # 20,480 bytes and 65,536 flops become 28,672 and 196,608; a call is 64,000 bytes or 32,000 flops.
    was, will = 1 + 20480 / 64000 + 65536 / 32000, 1 + 28672 / 64000 + 196608 / 32000
    assert found.step_seconds == pytest.approx((190 + 110 * will / was) * MICRO)


def test_collectives_overlapped_or_faster(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 200)
    recording.operator("c10d::allreduce_", 0, 10)
    recording.call("cudaLaunchKernel", 2, 5, 1)
    recording.kernel("ncclDevKernel_AllReduce", 10, 100, 1, stream=20)
    recording.call("cudaStreamWaitEvent", 12, 1, 2)
    recording.operator("aten::add", 20, 10)
    recording.call("cudaLaunchKernel", 22, 5, 3)
    recording.kernel("add_kernel", 111, 20, 3, stream=7)
    recording.call("cudaStreamSynchronize", 30, 103, 4)
    trace = recording.read(tmp_path)
    whole = step_of(trace)
    # A rank alone has no instance of its collective; it is one by its name.
    assert step_of(trace, "communication=2") == pytest.approx(whole - 50, abs=1)
    assert step_of(trace, "overlap") == pytest.approx(whole - 84, abs=6)


def inputs(shapes: tuple[object, ...], types: tuple[str, ...], values: tuple[str, ...]) -> OperatorInputs:
    return OperatorInputs(shapes, types, (), values)


def test_recorded_calls_become_operations():
    product_call = operation_of_call(
        "aten::addmm",
        inputs(((32,), (8, 16), (16, 32), (), ()), ("float",) * 3 + ("Scalar",) * 2, ("", "", "", "1", "1")),
    )
    assert product_call is not None
    assert product_call.kind is OperationKind.MATMUL
    assert product_call.flops == 2 * 8 * 16 * 32
    assert product_call.outputs[0].shape == (8, 32)


def test_attention_becomes_an_operation_though_it_returns_the_state_of_a_generator():
    heads = (2, 4, 16, 32)
    found = operation_of_call(
        "aten::_scaled_dot_product_flash_attention",
        inputs(
            (heads, heads, heads, (), ()),
            ("c10::BFloat16",) * 3 + ("Scalar", "Scalar"),
            ("",) * 3 + ("0.", "False"),
        ),
    )
    assert found is not None
    assert found.kind is OperationKind.ATTENTION


@pytest.mark.parametrize(
    ("name", "shapes", "types"),
    [
        ("os::system", ((8,),), ("float",)),
        ("aten::__class__", ((8,),), ("float",)),
        ("aten::mm", ((2**40, 2**40), (2**40, 8)), ("float", "float")),
        ("aten::mm", ((-1, 4), (4, 4)), ("float", "float")),
        ("aten::mm", ((4,), (4,)), ("float", "float")),
    ],
)
def test_hostile_calls_become_nothing(name, shapes, types):
    assert operation_of_call(name, inputs(shapes, types, ("", ""))) is None


def test_ranks_are_forecast_together(tmp_path: Path):
    traces = []
    for rank, start in ((0, 20), (1, 40)):
        recording = Recording(rank, 2)
        recording.step(1, 0, 80)
        recording.operator("aten::mm", 0, start - 5)
        recording.operator("c10d::allreduce_", start, 15)
        recording.call("cudaLaunchKernel", start + 5, 5, 1)
        recording.kernel("ncclKernel_AllReduce", start + 10, 50 - start, 1, stream=20)
        recording.call("cudaStreamSynchronize", start + 16, 46 - start, 2)
        traces.append(recording.read(tmp_path))
    request = TraceForecastRequest(changes=replace(Changes(), communication_factor=10.0))
    found = forecast_from_traces(traces, request)
    # The collective ends at 51 instead of 60, but rank 1 waits from 56 on, with 2 µs of its own.
    assert found.step_seconds == pytest.approx(found.replayed_seconds - 4 * MICRO)
    assert found.num_ranks == 2


def test_what_is_played_again_keeps_the_late_start_of_a_rank_and_the_long_run_does_not(tmp_path: Path):
    traces = []
    for rank, late in ((0, 0), (1, 30)):
        recording = Recording(rank, 2)
        recording.step(1, late, 90 - late)
        recording.operator("aten::mm", late, 15)
        recording.operator("c10d::allreduce_", late + 20, 15)
        recording.call("cudaLaunchKernel", late + 25, 5, 1)
        recording.kernel("ncclKernel_AllReduce", late + 30, 50 - late, 1, stream=20)
        recording.call("cudaStreamSynchronize", late + 36, 46 - late, 2)
        traces.append(recording.read(tmp_path))
    found = forecast_from_traces(traces, TraceForecastRequest())
    assert found.measured_seconds == pytest.approx(90 * MICRO)
    assert found.replayed_seconds == pytest.approx(found.measured_seconds, rel=0.03)
    assert found.steady_seconds == pytest.approx(60 * MICRO, rel=0.05)
    assert found.step_seconds == found.steady_seconds
    assert found.speedup == 1


def test_flags_in_lists_are_no_sizes():
    backward = operation_of_call(
        "aten::convolution_backward",
        inputs(
            ((2, 4, 8, 8), (2, 3, 8, 8), (4, 3, 3, 3), (), (), (), (), (), (), (), ()),
            ("float",) * 3 + ("ScalarList",) * 4 + ("Scalar", "ScalarList", "Scalar", "ScalarList"),
            ("", "", "", "[4]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[False, True, True]"),
        ),
    )
    assert backward is not None
    assert backward.kind is OperationKind.CONVOLUTION
    assert backward.inputs[1].shape == (2, 3, 8, 8)
