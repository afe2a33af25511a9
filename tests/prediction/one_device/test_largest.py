"""The largest batch of a small model, proved by captures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import made_up_device
from perfcast.core.forecast.largest import Largest
from perfcast.errors import PlanError
from perfcast.memory_use.liveness import peak_bytes
from perfcast.memory_use.reserved import reserve_memory
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.one_device.largest import BATCH_SIZE, SEQUENCE_LENGTH, LargestSearch, with_size
from perfcast.prediction.request.memory import MemoryRequest
from perfcast.prediction.request.one_device import Request
from perfcast.units import GIB, MIB

TINY = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 64, "n_positions": 32}
TWIN = """
import torch
from torch import nn

def build(batch_size=2):
    return nn.Linear(1024, 1024), torch.zeros(batch_size, 1024)
"""


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)


@pytest.fixture
def twin(tmp_path: Path) -> str:
    path = tmp_path / "twin.py"
    path.write_text(TWIN, encoding="utf-8")
    return f"{path}:build"


def searched(request: Request, quantity: str = BATCH_SIZE, memory_bytes: int = 512 * MIB) -> Largest:
    search = LargestSearch(
        MemoryRequest(workload=request, device=made_up_device(memory_bytes=memory_bytes)), quantity
    )
    search.run()
    assert search.forecast().memory.needed_bytes > 0
    return search.result


def test_the_answer_fits_and_the_next_size_does_not(twin: str) -> None:
    device = made_up_device(memory_bytes=512 * MIB)
    result = searched(Request(model=twin))
    assert result.value is not None
    assert result.is_complete
    fits = []
    for size in (result.value, result.value + 1):
        graph, _ = build_graph(Request(model=twin, batch_size=size), device)
        reserved = reserve_memory(graph, device)
        assert reserved is not None
        assert reserved.total_bytes >= peak_bytes(graph)
        fits.append(reserved.fits)
    assert fits == [True, False]
    assert {result.value, result.value + 1} <= {probe.size for probe in result.probes}


def test_the_forecast_is_that_of_the_answer(twin: str) -> None:
    search = LargestSearch(
        MemoryRequest(workload=Request(model=twin), device=made_up_device(memory_bytes=512 * MIB))
    )
    search.run()
    forecast = search.forecast()
    assert forecast.batch_size == search.result.value
    assert forecast.memory.fits
    by_size = {probe.size: probe for probe in search.result.probes}
    assert forecast.memory.needed_bytes == by_size[forecast.batch_size].needed_bytes


def test_a_model_that_does_not_fit_at_one_has_no_answer(tiny: str) -> None:
    result = searched(Request(model=tiny), memory_bytes=MIB)
    assert (result.value, result.is_complete, len(result.probes)) == (None, True, 1)


def test_a_sequence_ends_where_the_learned_positions_do(tiny: str) -> None:
    result = searched(Request(model=tiny), SEQUENCE_LENGTH, memory_bytes=8 * GIB)
    assert result.value == 32
    assert "learned positions" in result.limit


def test_the_number_of_micro_batches_stays() -> None:
    request = Request(model="gpt2", batch_size=8, micro_batch_size=2)
    larger = with_size(request, BATCH_SIZE, 5)
    assert (larger.batch_size, larger.micro_batch_size, larger.num_micro_batches) == (20, 5, 4)


def test_a_function_that_does_not_take_the_size_cannot_be_searched(twin: str) -> None:
    with pytest.raises(PlanError, match="does not take sequence_length"):
        LargestSearch(MemoryRequest(workload=Request(model=twin), device=made_up_device()), SEQUENCE_LENGTH)
