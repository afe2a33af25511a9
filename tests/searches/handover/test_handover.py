from __future__ import annotations

import os
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from handover_jobs import TRAININGS, cluster, write

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.plan import Plan
from perfcast.core.tuning.text import parse_tuning
from perfcast.errors import PlanError, UnknownNameError
from perfcast.searches.handover import TARGETS, find_targets, hand_over
from perfcast.searches.handover.job import count_devices_per_node
from small_transformers import gpt, llama

LLAMA = llama(activation="silu")
SHARDED = Plan(data_parallel=8, zero_stage=3, recompute="full")


def test_a_refusal_names_the_targets_that_can():
    plan = Plan(data_parallel=2, tensor_parallel=2, zero_stage=1, sequence_parallel=True)
    with pytest.raises(PlanError, match=r"tp=2.*Targets that can: megatron\."):
        write(LLAMA, plan, "deepspeed")
    plan = Plan(pipeline_parallel=2, schedule="dualpipe", num_micro_batches=4)
    with pytest.raises(PlanError, match=r"No other target can either\."):
        write(LLAMA, plan, "megatron")


def test_obstacles_of_all_targets_are_listed_at_once():
    found = find_targets(SHARDED, LLAMA, TRAININGS["fsdp2"], 64, cluster(8))
    assert found.keys() == TARGETS.keys()
    assert not any(found.values())


def test_what_trains_a_part_of_a_model_is_handed_over_to_none():
    tuned = replace(TRAININGS["fsdp2"], tuning=parse_tuning(lora="rank=8"))
    with pytest.raises(
        PlanError, match="LoRA rank 8 on all-linear: the files that are written train everything"
    ):
        hand_over(SHARDED, LLAMA, tuned, 64, cluster(8), "fsdp2")


def test_an_unknown_target_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="Known: torchtitan, megatron, deepspeed, fsdp2"):
        hand_over(SHARDED, LLAMA, None, 64, cluster(8), "horovod")


def test_a_plan_fills_the_cluster_in_whole_hosts():
    with pytest.raises(PlanError, match="a plan for 8 devices, but made-up has 4"):
        hand_over(SHARDED, LLAMA, None, 64, cluster(4), "fsdp2")
    with pytest.raises(PlanError, match="8 devices do not fill hosts of 3"):
        hand_over(SHARDED, LLAMA, None, 64, cluster(8), "fsdp2", devices_per_node=3)


@pytest.mark.parametrize(
    ("name", "devices"),
    [("dgx-h100:64", 8), ("gb200-nvl72:144", 4), ("a100-pcie-pairs:16", 8), ("dgx-h100:2", 2)],
)
def test_devices_of_a_host(name: str, devices: int):
    assert count_devices_per_node(load_cluster(name)) == devices


def test_a_cluster_that_does_not_say_what_a_host_is_asks():
    with pytest.raises(PlanError, match="say how many devices a host has"):
        count_devices_per_node(load_cluster("tpu-v4:64"))


@pytest.mark.parametrize("target", TARGETS)
def test_the_launcher_is_a_shell_script_that_torchrun_understands(target: str, tmp_path: Path):
    """The shell runs it with a torchrun that notes its words, which torchrun's own parser reads."""
    from torch.distributed.run import get_args_parser

    files = write(LLAMA, SHARDED, target)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in ("launch.sh", "job.sbatch"):
        subprocess.run(["bash", "-n", name], cwd=tmp_path, check=True)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "torchrun").write_text('#!/usr/bin/env bash\nprintf "%s\\0" "$@" > words\n', encoding="utf-8")
    (tools / "torchrun").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "NODE_RANK": "1",
        "MASTER_ADDR": "host0",
    }
    subprocess.run(["bash", "launch.sh"], cwd=tmp_path, check=True, env=environment)
    words = (tmp_path / "words").read_text(encoding="utf-8").split("\0")[:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = get_args_parser().parse_args(words)
    assert (args.nnodes, args.nproc_per_node, args.node_rank, args.master_addr) == ("2", "4", 1, "host0")
    assert args.training_script.removesuffix(".py").split(".")[0]
    assert "#SBATCH --nodes=2\n" in files["job.sbatch"]
    assert "#SBATCH --gpus-per-node=4\n" in files["job.sbatch"]


@pytest.mark.parametrize("target", TARGETS)
def test_equal_plans_are_written_equally(target: str):
    assert write(LLAMA, SHARDED, target) == write(LLAMA, SHARDED, target)


def test_a_path_becomes_a_name_that_files_take():
    model = gpt()
    files = hand_over(Plan(data_parallel=4), model, TRAININGS["megatron"], 64, cluster(4), "megatron")
    assert "#SBATCH --job-name=transformer\n" in files["job.sbatch"]
