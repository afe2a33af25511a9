from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from handover_jobs import write

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from small_transformers import gpt

CASES: dict[str, Plan] = {
    "replicas": Plan(data_parallel=4, micro_batch_size=2, num_micro_batches=2),
    "sharded": Plan(data_parallel=4, micro_batch_size=2, zero_stage=3, recompute="full", num_prefetched=2),
    "hybrid": Plan(data_parallel=4, micro_batch_size=2, zero_stage=3, num_shards=2),
    "kept": Plan(data_parallel=4, micro_batch_size=2, zero_stage=2, num_micro_batches=2),
    "weights away": Plan(data_parallel=4, micro_batch_size=2, zero_stage=3, offload="parameters"),
    "activations away": Plan(data_parallel=4, micro_batch_size=2, zero_stage=3, offload="activations"),
}

MODEL = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(4)), nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x) ** 2


def build():
    torch.manual_seed(0)
    return Tower(), (torch.ones(2, 8),)
"""


def load(text: str, path: Path) -> ModuleType:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_the_program_shards_and_steps_as_one_of_four_ranks(name: str, tmp_path: Path):
    """On the process group that sends nothing."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    program = load(write(gpt(), CASES[name], "fsdp2")["fsdp2_train.py"], tmp_path / "fsdp2_of_a_test.py")
    settings = program.SETTINGS
    assert settings.replicas * settings.shards == CASES[name].world_size
    model, inputs = load(MODEL, tmp_path / "model_of_a_test.py").build()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        mesh = init_device_mesh("cpu", (settings.replicas, settings.shards), mesh_dim_names=("a", "b"))
        model = program.shard_model(model, mesh, settings)
        import torch

        optimizer = torch.optim.AdamW(model.parameters())
        loss = program.run_step(model, optimizer, [inputs] * settings.num_micro_batches, settings)
        held = sum(parameter.to_local().numel() for parameter in model.parameters())
        whole = sum(parameter.numel() for parameter in model.parameters())
    finally:
        dist.destroy_process_group()
    assert loss == pytest.approx(loss)
    assert whole / settings.shards <= held <= whole


def test_two_ranks_train_alike_and_the_loss_falls(tmp_path: Path):
    plan = Plan(data_parallel=2, micro_batch_size=2, zero_stage=3, recompute="full", num_micro_batches=2)
    files = write(gpt(), plan, "fsdp2", training=Training(framework="fsdp", dtype="fp32"))
    (tmp_path / "fsdp2_train.py").write_text(files["fsdp2_train.py"], encoding="utf-8")
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "fsdp2_train.py", "--model", "mine.py:build", "--steps", "3"]
    ranks = [
        subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(2)
    ]  # fmt: skip
    results = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], results[0][1]
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in results[0][0].splitlines()]
    assert len(losses) == 3
    assert losses[2] < losses[0]


def test_inputs_of_another_micro_batch_are_refused(tmp_path: Path):
    plan = Plan(data_parallel=4, micro_batch_size=3)
    program = load(write(gpt(), plan, "fsdp2")["fsdp2_train.py"], tmp_path / "fsdp2_of_a_test.py")
    _, inputs = load(MODEL, tmp_path / "model_of_a_test.py").build()
    with pytest.raises(SystemExit, match="3 sequences a micro-batch"):
        program.check_inputs(inputs, program.SETTINGS)


@pytest.mark.parametrize(
    ("plan", "training", "words"),
    [
        (Plan(tensor_parallel=2, sequence_parallel=True), {}, "tp=2"),
        (Plan(pipeline_parallel=2), {}, "pp=2"),
        (Plan(data_parallel=2, zero_stage=1), {}, "zero=1"),
        (Plan(data_parallel=2, zero_stage=3, offload="optimizer"), {}, "offload=optimizer"),
        (Plan(data_parallel=2, zero_stage=3, overlaps_gradients=False), {}, "do not overlap"),
        (Plan(), {"optimizer": "muon"}, "optimizer 'muon'"),
        (Plan(), {"dtype": "fp8"}, "dtype 'fp8'"),
    ],
)
def test_what_fsdp2_cannot_do_is_named(plan: Plan, training: Any, words: str):
    with pytest.raises(PlanError, match="FSDP2 cannot run this plan") as caught:
        write(gpt(), plan, "fsdp2", training=Training(framework="fsdp", **training))
    assert words in str(caught.value)
