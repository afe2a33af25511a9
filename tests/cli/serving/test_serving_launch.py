"""``perfcast serving --launch`` writes what the forecast took."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.cli.main import run
from perfcast.cli.serving.launch import check_launch, first_launch_files
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Pool
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad
from perfcast.errors import InputError, PlanError
from perfcast.prediction.request.serving import ServingRequest

WHAT = ("serving", "llama3-8b", "--cost-model", "roofline", "--num-requests", "20", "--method", "events")
LOAD = ("--input-length", "256", "--output-length", "8", "--concurrency", "4")


@pytest.mark.parametrize(
    ("framework", "files"),
    [
        ("vllm", {"serve.sh", "dynamo.yaml"}),
        ("sglang", {"serve.sh", "router.sh", "dynamo.yaml"}),
        ("trtllm", {"serve.sh", "serve.yaml", "dynamo.yaml"}),
    ],
)
def test_every_framework_gets_its_files(
    framework: str, files: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    where = ("--device", "h100-sxm", "--plan", "tp=2", "--replicas", "2", "--framework", framework)
    assert run([*WHAT, *where, *LOAD, "--launch", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == files
    assert f"wrote {tmp_path / 'new' / 'serve.sh'}" in capsys.readouterr().out


def test_limits_are_those_of_the_forecast(tmp_path: Path):
    where = ("--device", "h100-sxm", "--max-sequences", "48", "--max-step-tokens", "4096")
    assert run([*WHAT, *where, *LOAD, "--memory-fraction", "0.8", "--launch", str(tmp_path)]) == 0
    script = (tmp_path / "serve.sh").read_text(encoding="utf-8")
    for words in (
        "vllm serve meta-llama/Meta-Llama-3-8B-Instruct",
        "--max-num-seqs 48",
        "--max-num-batched-tokens 4096",
        "--gpu-memory-utilization 0.8",
        "--max-model-len 264",
        "--tensor-parallel-size 1",
        "--block-size 16",
        "--enable-chunked-prefill",
    ):
        assert words in script


def test_two_pools_get_a_script_each(tmp_path: Path):
    pools = ("--prefill-plan", "tp=1", "--decode-plan", "tp=2", "--device", "h100-sxm")
    assert run([*WHAT, *pools, *LOAD, "--framework", "sglang", "--launch", str(tmp_path)]) == 0
    assert "--disaggregation-mode prefill" in (tmp_path / "prefill.sh").read_text(encoding="utf-8")
    assert "--tp-size 2" in (tmp_path / "decode.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--launch-model", "a/b"), "--launch-model: of --launch DIR"),
        (("--launch", "{folder}", "--sweep", "concurrency=1,2"), "--launch: of one deployment"),
        (("--launch", "{folder}/file"), "not a folder"),
        (("--launch", "{folder}", "--kv-cache-dtype", "int8"), "vLLM cannot run this deployment"),
    ],
)
def test_what_cannot_be_launched_is_one_clear_error(
    options: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("", encoding="utf-8")
    given = [option.format(folder=tmp_path) for option in options]
    assert run([*WHAT, "--device", "h100-sxm", *LOAD, *given]) == 2
    assert says in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def request_of(plan: Plan, kv_cache_dtype: str | None = None) -> ServingRequest:
    return ServingRequest(
        model="llama3-8b",
        cluster=load_cluster("dgx-h100:8"),
        load=ClosedLoad(4),
        prompts=Lengths(256),
        answers=Lengths(8),
        deployment=Aggregated(Pool(plan)),
        kv_cache_dtype=kv_cache_dtype,
        cost_model="roofline",
    )


def test_the_first_that_the_framework_can_run_is_launched(tmp_path: Path):
    requests = [request_of(Plan(), "int8"), request_of(Plan(tensor_parallel=2))]
    place, files, obstacle = first_launch_files(requests, str(tmp_path), None)
    assert place == 1
    assert "--tensor-parallel-size 2" in files[tmp_path / "serve.sh"]
    assert "a cache in int8" in obstacle
    with pytest.raises(PlanError, match="none of 1 deployments can be launched: vLLM cannot run"):
        first_launch_files(requests[:1], str(tmp_path), None)


def test_a_model_without_a_known_name_is_said_at_once(tmp_path: Path):
    with pytest.raises(InputError, match="--launch-model"):
        check_launch("megatron-22b", str(tmp_path), None)
    check_launch("megatron-22b", str(tmp_path), "a/b")
