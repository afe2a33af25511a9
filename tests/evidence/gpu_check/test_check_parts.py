"""Parts of a check on stand-ins: the real allocator's figures are made up here, the forecasts are real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import made_up_device
from made_up_profile import profile
from perfcast.cost.roofline import Roofline
from perfcast.evidence.gpu_check import models, parts
from perfcast.evidence.gpu_check.place import LeftOutError, Place
from perfcast.evidence.gpu_check.streams import check_streams, draw_events
from perfcast.memory_use.allocator import parse_allocator_settings, simulate_allocator
from perfcast.units import MIB


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "profile_cpu.json").write_text(json.dumps(profile().to_json()))
    return Place("cpu", tmp_path)


class MadeUpStatistics:
    name = "max_memory_reserved"

    def __init__(self) -> None:
        self.was_reset = False

    def reset(self) -> None:
        self.was_reset = True

    def peak_bytes(self) -> int:
        return 100 * MIB


def test_a_model_has_a_row_of_what_the_allocator_reserves_and_one_of_its_step(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Place, "forecaster", lambda self: (made_up_device(), Roofline()))
    statistics = MadeUpStatistics()
    found = models.check_model(place, models.find_model("perceptron fp32"), statistics)
    memory, step = found.rows
    assert statistics.was_reset
    assert (memory.what, memory.unit, memory.measured) == (
        "perceptron fp32: max_memory_reserved",
        "B",
        100 * MIB,
    )
    assert memory.note == "after 3 steps"
    assert memory.forecast % (2 * MIB) == 0  # whole segments
    assert step.low <= step.forecast <= step.high
    assert step.measured > 0
    assert found.details["dtype"] == "fp32"


def test_the_statistics_of_a_gpu_are_those_of_its_caching_allocator(monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda: calls.append("reset"))
    monkeypatch.setattr("torch.cuda.max_memory_reserved", lambda: 3 * MIB)
    statistics = models.CudaStatistics()
    statistics.reset()
    assert calls == ["reset"]
    assert statistics.peak_bytes() == 3 * MIB


class Recalling:
    """An allocator that holds, request after request, what the simulation says; later a MiB more."""

    def __init__(self, differs_at: int) -> None:
        trace = simulate_allocator(draw_events(), parse_allocator_settings(""))
        self._held: Iterator[int] = iter(trace.reserved_bytes.tolist())
        self._differs_at, self._count = differs_at, 0

    def allocate(self, num_bytes: int, stream: int) -> object:
        return object()

    def record_stream(self, tensor: object, stream: int) -> None: ...

    def synchronize(self, stream: int | None) -> None: ...

    def empty_cache(self) -> None: ...

    def held_bytes(self) -> tuple[int, int]:
        self._count += 1
        return 0, next(self._held) + (MIB if self._count > self._differs_at else 0)


def test_streams_are_compared_request_by_request(place: Place):
    count = len(draw_events())
    most, share = check_streams(place, Recalling(count)).rows
    assert most.error == 0
    assert share.measured == 1.0
    found = check_streams(place, Recalling(count // 2))
    assert found.rows[1].measured == pytest.approx(count // 2 / count)
    assert found.details["first_difference"] == count // 2


def test_a_processor_leaves_the_allocator_out(place: Place):
    with pytest.raises(LeftOutError, match="no caching allocator"):
        check_streams(place)


def test_parts_name_the_models_that_there_are():
    named = [part.name.removeprefix("model: ") for part in parts.parts_of("cuda") if "model: " in part.name]
    assert named == [model.name for model in models.MODELS]
    assert {part.name for part in parts.parts_of("cpu")} < {part.name for part in parts.parts_of("cuda")}


def test_every_model_can_be_asked_for():
    for model in models.MODELS:
        for is_dry in (False, True):
            assert model.request(is_dry=is_dry).mode == "train"
