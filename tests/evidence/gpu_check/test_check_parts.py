"""Parts of a check on stand-ins: the real allocator's figures are made up here, the forecasts are real."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from builders import made_up_device
from made_up_profile import profile
from perfcast.catalogs.devices import load_device
from perfcast.cost.roofline import Roofline
from perfcast.evidence.gpu_check import kernels, models, parts
from perfcast.evidence.gpu_check.place import LeftOutError, Place
from perfcast.evidence.gpu_check.result import PartResult
from perfcast.evidence.gpu_check.streams import check_streams, draw_events
from perfcast.measure.few.bench import Timed
from perfcast.measure.few.cases import FewCase
from perfcast.memory_use.allocator import (
    Free,
    RecordStream,
    Synchronize,
    parse_allocator_settings,
    simulate_allocator,
)
from perfcast.units import GIB, MIB


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


def test_a_block_that_other_streams_used_is_waited_for_once_it_is_given_up():
    used: dict[int, set[int]] = {}
    events = draw_events()
    for index, event in enumerate(events):
        if isinstance(event, RecordStream):
            used.setdefault(event.block, set()).add(event.stream)
        elif isinstance(event, Free):
            streams = sorted(used.pop(event.block, ()))
            after = events[index + 1 : index + 1 + len(streams)]
            assert after == [Synchronize(stream) for stream in streams]


@dataclass(frozen=True)
class Properties:
    """What PyTorch says of a GPU."""

    name: str = "NVIDIA H100 80GB HBM3"
    total_memory: int = int(79.1 * GIB)
    multi_processor_count: int = 132
    major: int = 9
    minor: int = 0
    gcnArchName: str = ""  # noqa: N815 (PyTorch's)


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (Properties(), "h100-sxm"),
        (Properties(name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", total_memory=10 * GIB), None),
        (Properties(multi_processor_count=60), None),  # a virtual GPU
        (Properties(total_memory=40 * GIB), None),
        (Properties("AMD Instinct MI300X", 192 * GIB, 304, gcnArchName="gfx942:sramecc+"), "mi300x"),
        (Properties("AMD Instinct MI300X", 24 * GIB, 38, gcnArchName="gfx942:sramecc+"), None),  # partitioned
        (Properties("AMD Radeon RX 7900 XTX", 24 * GIB, 48, gcnArchName="gfx1100"), "rx-7900-xtx"),
        (Properties("NVIDIA Unheard-of"), None),
    ],
)
def test_a_slice_of_a_gpu_is_not_the_gpu(
    properties: Properties, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: properties)
    assert Place("cuda", tmp_path).catalog_name() == name


def test_a_gpu_that_nothing_prices_is_measured_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: Properties("NVIDIA Unheard-of"))
    device, cost_model = Place("cuda", tmp_path).forecaster()
    assert (device.vendor, cost_model) == ("nvidia", None)
    (tmp_path / "profile_cpu.json").write_text(json.dumps(profile().to_json()))
    monkeypatch.setattr(Place, "forecaster", lambda self: (made_up_device(), None))
    found = models.check_model(
        Place("cpu", tmp_path), models.find_model("perceptron fp32"), MadeUpStatistics()
    )
    assert [row.forecast for row in found.rows] == [None, None]
    assert all(row.measured for row in found.rows)


def test_what_does_not_fit_is_left_out_beside_its_forecast(place: Place, monkeypatch: pytest.MonkeyPatch):
    def run_out(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has …")

    monkeypatch.setattr(Place, "forecaster", lambda self: (made_up_device(), Roofline()))
    monkeypatch.setattr(models, "_run", run_out)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (1 * GIB, 8 * GIB))
    with pytest.raises(LeftOutError, match=r"forecast: 0\..* CUDA out of memory; 1\.0 of 8\.0 GiB are free"):
        models.check_model(place, models.find_model("perceptron fp32"), MadeUpStatistics())


class Bench:
    """Every kernel takes a millisecond, but for one that this PyTorch lacks."""

    def load_seconds(self) -> float:
        return 1e-3

    def time(self, cases: Sequence[FewCase]) -> list[Timed]:
        return [Timed(None, reason="no kernel") if "gelu" in case.name else Timed(1e-3) for case in cases]


def test_kernels_of_a_gpu_stand_beside_their_forecasts_and_the_datasheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    device = load_device("h100-sxm")
    monkeypatch.setattr(Place, "forecaster", lambda self: (device, Roofline()))
    monkeypatch.setattr(Place, "catalog_name", lambda self: device.name)
    monkeypatch.setattr(kernels, "open_bench", lambda device: Bench())
    rows = {row.what: row for row in kernels.check_kernels(Place("cuda", tmp_path)).rows}
    product = rows["product m=4096 n=4096 k=4096 bf16"]
    assert product.forecast == pytest.approx(2 * 4096**3 / 989.4e12, rel=0.05)
    assert rows["products bf16"].measured == pytest.approx(2 * 4096**3 / 1e-3)
    assert rows["products bf16"].forecast == pytest.approx(989.4e12, rel=0.01)
    assert rows["memory fp32"].measured == pytest.approx(3 * 4 * 64 * MIB / 1e-3)
    lacking = rows["gelu n=1048576 bf16"]
    assert (lacking.measured, lacking.note.endswith("no kernel")) == (None, True)


def test_a_figure_that_is_none_costs_no_other():
    result = PartResult(
        name="a", status="done", details={"high": math.inf, "seen": (Path("x"), float("nan"))}
    )
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["details"] == {
        "high": None,
        "seen": ["x", None],
    }


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
