"""A kept capture is the fresh one, answers only what it was asked for, and needs no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.models import load_model
from perfcast.core.captured import CapturedStep, StepSizes
from perfcast.core.graph import Graph
from perfcast.core.tuning.text import parse_tuning
from perfcast.prediction.defaults import complete_request
from perfcast.prediction.one_device import graph as graphs
from perfcast.prediction.one_device.graph import build_graph, capture_step, captured_step
from perfcast.prediction.request.one_device import Request
from perfcast.workload.kept import surroundings as around
from perfcast.workload.kept.encoding import decode, encode

GPU, PROCESSOR = load_device("h100-sxm"), load_device("epyc-9654")
SHORT: dict[str, Any] = {"sequence_length": 32, "batch_size": 2}
KINDS = {
    "training": (Request(model="gpt2", **SHORT), GPU),
    "prefill": (Request(model="gpt2", mode="prefill", **SHORT), GPU),
    "decode": (Request(model="gpt2", mode="decode", **SHORT), GPU),
    "micro-batches": (Request(model="gpt2", sequence_length=32, batch_size=4, micro_batch_size=1), GPU),
    "recomputation": (Request(model="gpt2", recompute="full", **SHORT), GPU),
    "attention written out": (Request(model="gpt2", attention="eager", **SHORT), GPU),
    "adapters": (Request(model="gpt2", tuning=parse_tuning("rank=8"), **SHORT), GPU),
    "a processor": (Request(model="gpt2", mode="prefill", dtype="fp32", **SHORT), PROCESSOR),
    "an encoder": (Request(model="bert-base", mode="prefill", **SHORT), GPU),
    "an encoder and a decoder": (Request(model="t5-small", **SHORT), GPU),
    "images": (Request(model="resnet50", batch_size=2, memory_format="channels_last"), GPU),
    "patches": (Request(model="vit-b-16", batch_size=2), GPU),
    "a recommender": (Request(model="dlrm-small", batch_size=8), GPU),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_capture_is_the_fresh_one(kind: str):
    request, device = KINDS[kind]
    request, _ = complete_request(request, device)
    fresh = capture_step(request, device)
    assert decode(encode(fresh, "key"), "key") == fresh


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Request]:
    """Every request that is captured afresh, with a cache of its own; nothing is really captured."""
    found: list[Request] = []

    def capture(request: Request, device: object) -> CapturedStep:
        found.append(request)
        return CapturedStep(Graph((), (), (), (), parameter_count=len(found)), StepSizes(len(found)))

    monkeypatch.setenv("PERFCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(graphs, "capture_step", capture)
    return found


BASE = Request(model="gpt2", batch_size=4, sequence_length=32, dtype="bf16")
OTHERS = {
    "model": {"model": "gpt2-medium"},
    "mode": {"mode": "prefill"},
    "batch": {"batch_size": 8},
    "micro-batch": {"micro_batch_size": 2},
    "length": {"sequence_length": 64},
    "precision": {"dtype": "fp16"},
    "optimizer": {"optimizer": "sgd"},
    "implementation": {"optimizer_implementation": "fused"},
    "attention": {"attention": "eager"},
    "recomputation": {"recompute": "full"},
    "folding": {"fold_layers": False},
    "tuning": {"tuning": parse_tuning("rank=8")},
    "image": {"image_size": 64},
    "format": {"memory_format": "channels_last"},
    "autocast": {"mode": "prefill", "autocast": True},
}


def test_every_field_of_a_request_decides_a_capture_but_those_of_lowering(asked: list[Request]):
    requests = [BASE, *(replace(BASE, **changes) for changes in OTHERS.values())]
    for request in (*requests, *requests):
        captured_step(request, GPU)
    assert len(asked) == len(requests)
    for changes in ({"compile": True}, {"cuda_graphs": True}, {"host": "epyc-9654"}):
        captured_step(replace(BASE, **changes), GPU)
    assert len(asked) == len(requests)
    varied = {name for changes in OTHERS.values() for name in changes}
    of_parallel_programs = {"world_size", "rank"}
    assert varied | {"compile", "cuda_graphs", "host"} | of_parallel_programs == {*vars(BASE)}


def test_another_gpu_takes_the_same_capture_and_a_processor_another(asked: list[Request]):
    for device in (GPU, load_device("mi300x"), load_device("a100-sxm-80gb")):
        captured_step(BASE, device)
    assert len(asked) == 1
    captured_step(BASE, PROCESSOR)
    assert len(asked) == 2


def test_a_configuration_is_known_by_what_it_says(asked: list[Request], tmp_path: Path):
    path = tmp_path / "config.json"
    for layers in (2, 3, 2):
        path.write_text(json.dumps(dict(load_model("gpt2").config) | {"n_layer": layers}))
        step, _ = build_graph(replace(BASE, model=str(path)), GPU)
        assert step.parameter_count == {2: 1, 3: 2}[layers]
    assert len(asked) == 2


def test_what_surrounds_a_capture_decides_it(asked: list[Request], monkeypatch: pytest.MonkeyPatch):
    for said in ("one", "another", "one"):
        monkeypatch.setattr(graphs, "surroundings", lambda said=said: said)
        captured_step(BASE, GPU)
    assert len(asked) == 2


def test_nothing_is_kept_as_a_file_beside_a_checkout(
    asked: list[Request], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(graphs, "surroundings", lambda: None)
    captured_step(BASE, GPU)
    assert not list(tmp_path.rglob("*.capture"))


def test_a_program_of_ones_own_is_captured_at_each_call(asked: list[Request], tmp_path: Path):
    program = tmp_path / "model.py"
    program.write_text("def build(): ...")
    for _ in range(2):
        captured_step(Request(model=f"{program}:build", dtype="fp32"), GPU)
    assert len(asked) == 2
    assert not list(tmp_path.rglob("*.capture"))


def test_the_code_that_captures_is_read():
    root = Path(around.__file__).parents[2]
    assert not [place for place in around._OWN_CODE if not (root / place).exists()]
    assert {"workload", "torch_internals", "core"} <= {*around._OWN_CODE}


def test_packages_variables_and_checkouts_are_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    here = around.surroundings()
    assert here == around.surroundings()
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    with_variable = around.surroundings()
    (tmp_path / "kernels-1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with_package = around.surroundings()
    assert len({here, with_variable, with_package}) == 3
    (tmp_path / "checkout" / "timm").mkdir(parents=True)
    (tmp_path / "checkout" / "timm" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "checkout"), *sys.path])
    assert around.surroundings() is None


def test_a_forecast_of_a_kept_capture_imports_neither_torch_nor_transformers(tmp_path: Path):
    program = """
import sys
from perfcast.cli.main import run
code = run(sys.argv[1:])
print(code, sorted({"torch", "transformers", "timm", "pandas"} & sys.modules.keys()), file=sys.stderr)
"""
    command = "--model gpt2 --device h100-sxm --sequence-length 32".split()[1:]
    environment = os.environ | {"PERFCAST_CACHE": str(tmp_path)}

    def ask(verb: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", program, verb, *command],
            check=True, capture_output=True, text=True, env=environment,
        )  # fmt: skip
        return done.stdout, done.stderr.strip().splitlines()[-1]

    first, _ = ask("predict")
    again, said = ask("predict")
    assert (again, said) == (first, "0 []")
    assert ask("memory")[1] == "0 []"
