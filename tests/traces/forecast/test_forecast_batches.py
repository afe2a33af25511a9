"""Other batches of what a processor ran, from small recordings by hand. Times are microseconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.errors import PlanError
from perfcast.traces.events import Trace
from perfcast.traces.forecast.batch import BatchChange, change_of_batch
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.recording_cost import plain_step_seconds
from perfcast.traces.forecast.request import SecondRecording, TraceForecastRequest
from perfcast.traces.forecast.what_if import parse_what_if
from perfcast.traces.link.kernels import nest
from perfcast.units import MICRO
from recorded_traces import Recording


def step_of(number: int, batch: int, product: float, rest: float = 50) -> Recording:
    """Steps of a product that follows the batch and a sum that does not."""
    recording = Recording()
    for start in range(0, number * 1000, 1000):
        recording.step(start // 1000 + 1, start, 1000)
        recording.operator("aten::relu", start, product, Input_Dims=[[batch, 64]], Input_type=["float"])
        recording.operator("aten::sum", start + product, rest, Input_Dims=[[64, 64]], Input_type=["float"])
    return recording


def change_of(trace: Trace, recorded: int, wanted: int) -> BatchChange:
    return change_of_batch(trace, nest(trace.events).parents, recorded, wanted)


def shapes_of(change: BatchChange, name: str) -> tuple[object, ...]:
    events = change.trace.events
    row = next(row for row in range(len(events)) if events.name(row) == name)
    inputs = change.inputs_of(row)
    assert inputs is not None
    return inputs.shapes


def test_shapes_of_parameters_stay(tmp_path: Path):
    recording = Recording()
    recording.operator("aten::mm", 0, 5, Input_Dims=[[8, 5], [5, 3]], Input_type=["float", "float"])
    recording.operator("aten::mm", 5, 5, Input_Dims=[[8, 8], [8, 3]], Input_type=["float", "float"])
    recording.operator("torch::autograd::AccumulateGrad", 10, 5, Input_Dims=[[8, 3]], Input_type=["float"])
    change = change_of(recording.read(tmp_path), 8, 16)
    assert shapes_of(change, "aten::mm") == ((16, 5), (5, 3))


def test_without_tensors_names_sizes_are_followed_from_where_data_are_made(tmp_path: Path):
    recording = Recording()
    recording.operator(
        "aten::randint", 0, 5, Input_Dims=[[]] * 6, Input_type=["Scalar", "ScalarList", *[""] * 4],
        Concrete_Inputs=["100", "[8, 32]", "4", "", "", ""],
    )  # fmt: skip
    recording.operator(
        "aten::embedding", 5, 5, Input_Dims=[[100, 64], [8, 32]], Input_type=["float", "long int"],
        Concrete_Inputs=["", ""],
    )  # fmt: skip
    recording.operator("aten::relu", 10, 5, Input_Dims=[[8, 32, 64]], Input_type=["float"])
    change = change_of(recording.read(tmp_path), 8, 24)
    assert shapes_of(change, "aten::embedding") == ((100, 64), (24, 32))
    assert shapes_of(change, "aten::relu") == ((24, 32, 64),)


def test_a_sparse_gradient_grows_with_its_rows_though_its_table_stays(tmp_path: Path):
    recording = Recording()
    recording.operator("aten::relu", 0, 5, Input_Dims=[[8, 4]], Input_type=["long int"])
    recording.operator("aten::index", 5, 5, Input_Dims=[[32]], Input_type=["long int"])
    recording.operator(
        "aten::_sparse_coo_tensor_unsafe", 10, 5, Input_Dims=[[1, 32], [32, 16], []],
        Input_type=["long int", "float", "ScalarList"], Concrete_Inputs=["", "", "[1000, 16]"],
    )  # fmt: skip
    recording.operator(
        "aten::add_", 20, 100, Input_Dims=[[1000, 16], [1000, 16]], Input_type=["float", "float"]
    )
    recording.step(1, 0, 200)
    trace = recording.read(tmp_path)
    assert change_of(trace, 8, 24).sparse == {(1000, 16): 3.0}
    # 5 µs is a call: the sum's time beyond it triples, the three small operators hardly grow.
    found = forecast_from_traces([trace], TraceForecastRequest(batch=(8, 24)))
    small = sum(5 * (1 + 3 * 512 / even) / (1 + 512 / even) for even in (64e3, 32e3))
    assert found.step_seconds == pytest.approx((85 + small + 5 + 5 + 3 * 95) * MICRO)


def alone(batch: int, seconds: float) -> Recording:
    """A step of one operator; then 20 µs of the host."""
    recording = Recording()
    recording.step(1, 0, seconds + 20)
    recording.operator("aten::relu", 0, seconds, Input_Dims=[[batch, 64]], Input_type=["float"])
    return recording


@pytest.mark.parametrize(("batch", "expected"), [(16, 200), (32, 400), (4, 50)])
def test_two_recordings_lay_a_line_through_every_operator(tmp_path: Path, batch: int, expected: float):
    (tmp_path / "b").mkdir()
    small, large = alone(8, 100).read(tmp_path), alone(24, 300).read(tmp_path / "b")
    request = TraceForecastRequest(batch=(8, batch), second=SecondRecording([large], 24))
    found = forecast_from_traces([small], request)
    assert found.step_seconds == pytest.approx((expected + 20) * MICRO)


def test_two_recordings_of_one_batch_are_refused(tmp_path: Path):
    trace = step_of(1, 8, 100).read(tmp_path)
    with pytest.raises(PlanError, match="another batch"):
        forecast_from_traces([trace], TraceForecastRequest(batch=(8, 16), second=SecondRecording([trace], 8)))


def test_what_recording_cost_is_taken_out(tmp_path: Path):
    trace = step_of(2, 8, 100).read(tmp_path)
    # Two events a step at 3 µs at most explain 6 of 100 µs; the rest is a factor.
    found = forecast_from_traces([trace], TraceForecastRequest(plain_seconds={0: 900 * MICRO}))
    assert found.step_seconds == pytest.approx(900 * MICRO, rel=1e-6)


@pytest.mark.parametrize("words", [(), ("host=1",), ("communication=1",)])
def test_unchanged_is_exactly_one_though_recording_cost_something(tmp_path: Path, words: tuple[str, ...]):
    trace = step_of(2, 8, 100).read(tmp_path)
    changes = parse_what_if(words)
    found = forecast_from_traces(
        [trace], TraceForecastRequest(plain_seconds={0: 900 * MICRO}, changes=changes)
    )
    assert found.speedup == 1.0
    assert found.host_seconds_before == found.host_seconds_after
    assert found.steady_seconds > found.unchanged_seconds == found.step_seconds


def test_plain_steps_are_read_beside_a_recording(tmp_path: Path):
    times = {"wall": [0.1, 0.2], "processor": [0.1, 0.1]}
    record = {
        "rank": 1, "world_size": 2, "files": {"kineto": "rank1.kineto.json.gz"}, "num_steps": 3,
        "problem": "", "steps_by": "optimizer",
        "seconds": {"before": times, "timeline": times, "execution trace": times, "after": times},
    }  # fmt: skip
    (tmp_path / "rank1.record.json").write_text(json.dumps(record))
    path = tmp_path / "rank1.kineto.json.gz"
    assert plain_step_seconds([path]) == {1: pytest.approx(0.15)}
    assert plain_step_seconds([tmp_path / "other.json"]) == {}


def test_steps_timed_beside_a_recording_say_how_far_steps_differ(tmp_path: Path):
    trace = step_of(2, 8, 100).read(tmp_path)

    def width(timed: list[float]) -> float:
        request = TraceForecastRequest(plain_seconds={0: 0.001}, plain_steps={0: timed})
        found = forecast_from_traces([trace], request)
        return found.step_seconds_high / found.step_seconds

    steady, varying = [0.001] * 10, [0.001, 0.0013] * 5
    assert 1 < width(steady) < width([]) < width(varying)
    assert width(varying) > 1.2  # steps of 0.87 and 1.13 of their mean
