"""The eager closed form of models that train in part, against captured ones."""

from __future__ import annotations

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.tuning.text import parse_tuning
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.model import read_model
from perfcast.prediction.one_device.memory import forecast_memory
from perfcast.prediction.request.memory import MemoryRequest
from perfcast.prediction.request.one_device import Request
from small_transformers import llama


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize(
    ("model", "length", "options", "error"),
    [
        ("llama3.2-1b", 1024, {"lora": "rank=16"}, 0.02),
        ("llama3.2-1b", 1024, {"qlora": "rank=16,targets=q+v,dropout=0.1"}, 0.05),
        ("llama3.2-1b", 1024, {"freeze": "layers:0-5"}, 0.06),
        ("gpt2-large", 512, {"lora": "rank=8"}, 0.08),
    ],
)
def test_the_closed_form_is_that_of_the_captured_program(
    model: str, length: int, options: dict[str, str], error: float, recompute: str
):
    tuning, device = parse_tuning(**options), load_device("h100-sxm")
    plan = Plan(recompute=recompute)  # type: ignore[arg-type]
    closed = estimate_footprint(read_model(model).sizes, plan, Training(tuning=tuning), length)
    workload = Request(model=model, sequence_length=length, dtype="bf16", recompute=recompute, tuning=tuning)
    captured = forecast_memory(MemoryRequest(workload=workload, device=device)).memory
    assert closed.peak_bytes == pytest.approx(captured.peak_bytes, rel=error)


def test_a_plan_that_cuts_the_model_is_refused_beside_adapters_too():
    with pytest.raises(PlanError, match="framework pytorch cannot run this plan"):
        estimate_footprint(llama(), Plan(tensor_parallel=2), Training(tuning=parse_tuning(lora="rank=2")), 64)
