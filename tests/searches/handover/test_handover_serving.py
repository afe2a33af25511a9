from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving_parsers import check_json_options, check_settings, parser_of, read_yaml, started

from perfcast.catalogs.models import load_model
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Disaggregated, Pool
from perfcast.core.serving.scheduling import Speculation
from perfcast.errors import InputError, PlanError
from perfcast.prediction.request.serving import EngineOptions
from perfcast.searches.handover.serving import SERVING_TARGETS, ServingJob, find_hub_name, write_serving
from perfcast.searches.handover.serving import job as job_module

SET = EngineOptions(
    max_sequences=128,
    max_step_tokens=4096,
    chunks_prompts=True,
    block_tokens=32,
    memory_fraction=0.85,
    cuda_graphs=True,
    speculation=Speculation(3, 0.7),
)
DENSE = Aggregated(Pool(Plan(tensor_parallel=2), replicas=4))
EXPERTS = Aggregated(Pool(Plan(data_parallel=8, expert_parallel=8)))
APART = Disaggregated(
    Pool(Plan(tensor_parallel=4, expert_parallel=4), replicas=3),
    Pool(Plan(data_parallel=16, expert_parallel=16, dispatch="deepep"), replicas=2),
)
JOBS = {
    "dense": ServingJob(model="a/dense", deployment=DENSE, framework="vllm"),
    "dense, all set": ServingJob(
        model="a/dense",
        deployment=DENSE,
        framework="vllm",
        engine=SET,
        dtype="fp8",
        kv_cache_dtype="fp8",
        longest_tokens=9216,
        reuses_prefixes=True,
    ),
    "whole prompts": ServingJob(
        model="a/dense",
        deployment=DENSE,
        framework="vllm",
        longest_tokens=4096,
        engine=EngineOptions(chunks_prompts=False, max_step_tokens=8192, cuda_graphs=False),
    ),
    "stages": ServingJob(
        model="a/dense",
        framework="vllm",
        deployment=Aggregated(Pool(Plan(tensor_parallel=8, pipeline_parallel=2))),
    ),
    "experts": ServingJob(
        model="a/mixture",
        deployment=EXPERTS,
        framework="vllm",
        engine=SET,
        dtype="fp8_block",
        kv_cache_dtype="fp8",
        has_experts=True,
    ),
    "apart": ServingJob(
        model="a/mixture",
        deployment=APART,
        framework="vllm",
        engine=SET,
        dtype="nvfp4",
        kv_cache_dtype="fp8",
        has_experts=True,
    ),
}
PLACE = {"NODE_RANK": "1", "HEAD": "first"}


@pytest.fixture(params=JOBS)
def job(request: pytest.FixtureRequest) -> ServingJob:
    return JOBS[request.param]


def servers(job: ServingJob, framework: Any, folder: Path) -> dict[str, list[list[str]]]:
    """What each pool's script starts."""
    files = write_serving(replace(job, framework=framework))
    pools = [name for name in ("serve.sh", "prefill.sh", "decode.sh") if name in files]
    return {name: started(files, name, folder, **PLACE) for name in pools}


def parse_vllm(words: list[str]) -> argparse.Namespace:
    program, verb, *rest = words
    assert (program, verb) == ("vllm", "serve")
    args = parser_of("vllm").parse_args(rest)
    check_json_options(args, "vllm_json")
    return args


def parse_sglang(words: list[str]) -> argparse.Namespace:
    assert words[:3] == ["python", "-m", "sglang.launch_server"]
    return parser_of("sglang").parse_args(words[3:])


def test_every_command_is_one_that_vllm_knows(job: ServingJob, tmp_path: Path):
    for lines in servers(job, "vllm", tmp_path).values():
        assert all(parse_vllm(line).model_tag == job.model for line in lines)


def test_every_command_is_one_that_sglang_knows(job: ServingJob, tmp_path: Path):
    for lines in servers(job, "sglang", tmp_path).values():
        assert all(parse_sglang(line).model_path == job.model for line in lines)


def test_every_command_and_setting_is_one_that_tensorrt_llm_knows(job: ServingJob, tmp_path: Path):
    files = write_serving(replace(job, framework="trtllm"))
    for name, lines in servers(job, "trtllm", tmp_path).items():
        for line in lines:
            words = line[1:] if line[0] == "trtllm-llmapi-launch" else line
            assert words[0] == "trtllm-serve"
            args = parser_of("trtllm").parse_args(words[1:])
            assert args.extra_llm_api_options == name.replace(".sh", ".yaml")
            check_settings(read_yaml(files, args.extra_llm_api_options), "trtllm_settings")


@pytest.mark.parametrize("framework", SERVING_TARGETS)
def test_every_worker_of_dynamo_is_one_that_it_knows(job: ServingJob, framework: Any):
    files = write_serving(replace(job, framework=framework))
    deployment = read_yaml(files, "dynamo.yaml")
    assert deployment["kind"] == "DynamoGraphDeployment"
    for service in deployment["spec"]["services"].values():
        check_settings(service, "dynamo_service")
        container = service["extraPodSpec"]["mainContainer"]
        check_worker(container["command"][-1].removeprefix("dynamo."), container["args"])


def check_worker(module: str, words: list[str]) -> None:
    tables = {"vllm": ("vllm", "dynamo_vllm"), "sglang": ("sglang",), "frontend": ("dynamo_frontend",)}
    if module == "vllm":
        check_json_options(parse_worker(tables["vllm"], words), "vllm_json")
    elif module == "trtllm":
        settings = parse_worker(("dynamo_trtllm",), words).override_engine_args
        check_settings(settings, "trtllm_settings")
    else:
        parse_worker(tables[module], words)


def parse_worker(tables: tuple[str, ...], words: list[str]) -> argparse.Namespace:
    parser = parser_of(*tables)
    positional = [action for action in parser._actions if action.dest == "model_tag"]
    for action in positional:
        action.required, action.nargs = False, "?"
    return parser.parse_args(words)


def test_the_router_of_sglang_knows_both_pools(tmp_path: Path):
    files = write_serving(replace(JOBS["apart"], framework="sglang"))
    ((program, flag, module, *words),) = started(files, "router.sh", tmp_path)
    assert (program, flag, module) == ("python", "-m", "sglang_router.launch_router")
    args = parser_of("sglang_router").parse_args(words)
    assert args.pd_disaggregation
    # Three replicas of four devices lie on hosts of eight: two on the first, one on the second.
    assert [len(pair) for pair in args.prefill] == [2, 2, 2]
    assert [pair[1] for pair in args.prefill] == ["8998", "8999", "8998"]
    assert len(args.decode) == 2


def test_what_joins_the_pools_of_tensorrt_llm_is_what_it_reads(tmp_path: Path):
    files = write_serving(replace(JOBS["apart"], framework="trtllm"))
    joined = read_yaml(files, "disaggregated.yaml")
    check_settings(joined, "trtllm_join")
    assert joined["context_servers"]["num_instances"] == len(joined["context_servers"]["urls"]) == 3
    ((program, *words),) = started(files, "router.sh", tmp_path)
    assert (program, words[0]) == ("trtllm-serve", "disaggregated")
    assert parser_of("trtllm_disaggregated").parse_args(words[1:]).config_file == "disaggregated.yaml"


@pytest.mark.parametrize(
    "words",
    [
        ["a/model", "--tensor-parallel", "2"],
        ["a/model", "--tensor-parallel-size", "two"],
        ["a/model", "--tensor-parallel-size"],
        ["a/model", "--kv-cache-dtype", "fp7"],
    ],
)
def test_a_wrong_command_is_refused_by_the_recorded_parser(words: list[str]):
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parser_of("vllm").parse_args(words)


@pytest.mark.parametrize(
    "settings",
    [
        {"tensor_parallel": 2},
        {"tensor_parallel_size": "2"},
        {"kv_cache_config": {"dtype": "fp7"}},
        {"max_batch_size": True},
    ],
)
def test_wrong_settings_are_refused_by_the_recorded_table(settings: Mapping[str, Any]):
    with pytest.raises(ValueError, match=r"unknown field|no int|none of"):
        check_settings(settings, "trtllm_settings")


def test_vllm_is_told_all_that_is_set(tmp_path: Path):
    lines = servers(JOBS["dense, all set"], "vllm", tmp_path)["serve.sh"]
    args = [parse_vllm(line) for line in lines]
    assert sorted(one.port for one in args) == [8000, 8500, 9000, 9500]
    first = args[0]
    assert (first.tensor_parallel_size, first.max_num_seqs, first.max_num_batched_tokens) == (2, 128, 4096)
    assert (first.gpu_memory_utilization, first.block_size, first.max_model_len) == (0.85, 32, 9216)
    assert (first.kv_cache_dtype, first.quantization) == ("fp8", "fp8")
    assert first.enable_chunked_prefill
    assert first.enable_prefix_caching
    assert first.speculative_config == {"method": "mtp", "num_speculative_tokens": 3}


def test_sglang_divides_limits_by_its_attention_ranks(tmp_path: Path):
    ((line),) = servers(JOBS["experts"], "sglang", tmp_path)["serve.sh"]
    args = parse_sglang(line)
    assert (args.tp_size, args.dp_size, args.ep_size, args.enable_dp_attention) == (8, 8, 8, True)
    assert args.max_running_requests == 8 * 128
    assert args.chunked_prefill_size == 8 * 4096
    assert args.speculative_num_draft_tokens == 4


def test_tensorrt_llm_counts_attention_ranks_as_tensor_parallel():
    settings = read_yaml(write_serving(replace(JOBS["experts"], framework="trtllm")), "serve.yaml")
    assert settings["tensor_parallel_size"] == settings["moe_expert_parallel_size"] == 8
    assert settings["enable_attention_dp"] is True
    assert settings["moe_tensor_parallel_size"] == 1
    assert settings["max_batch_size"] == 128
    assert settings["speculative_config"] == {"decoding_type": "MTP", "num_nextn_predict_layers": 3}


def test_ranks_of_tensorrt_llm_wait_for_each_other():
    waits = replace(JOBS["experts"], engine=EngineOptions(rank_wait_steps=60), framework="trtllm")
    settings = read_yaml(write_serving(waits), "serve.yaml")
    check_settings(settings, "trtllm_settings")
    assert settings["attention_dp_config"] == {"enable_balance": True, "timeout_iters": 60}
    with pytest.raises(PlanError, match=r"until every attention data-parallel rank has one.*can: trtllm"):
        write_serving(replace(waits, framework="sglang"))


def test_sglang_looks_at_requests_as_often_as_forecast(tmp_path: Path):
    seldom = replace(JOBS["dense"], engine=EngineOptions(polls_every_steps=10))
    assert parse_sglang(servers(seldom, "sglang", tmp_path)["serve.sh"][0]).scheduler_recv_interval == 10
    with pytest.raises(PlanError, match=r"looked at every 10 steps.*can: sglang"):
        write_serving(seldom)


def test_a_replica_of_two_hosts_knows_its_place(tmp_path: Path):
    line = servers(JOBS["apart"], "vllm", tmp_path)["decode.sh"][0]
    args = parse_vllm(line)
    assert (args.data_parallel_size, args.data_parallel_size_local, args.data_parallel_start_rank) == (
        16,
        8,
        8,
    )
    assert args.data_parallel_address == "first"
    assert args.headless
    assert args.all2all_backend == "deepep_low_latency"
    told = parse_sglang(servers(JOBS["apart"], "sglang", tmp_path)["decode.sh"][0])
    assert (told.nnodes, told.node_rank, told.dist_init_addr) == (2, 1, "first:20000")


def test_pools_are_told_their_halves(tmp_path: Path):
    read = parse_sglang(servers(JOBS["apart"], "sglang", tmp_path)["prefill.sh"][0])
    assert (read.disaggregation_decode_tp, read.disaggregation_decode_dp) == (16, 16)
    assert read.load_balance_method == "round_robin"
    assert parse_sglang(
        servers(JOBS["apart"], "sglang", tmp_path)["decode.sh"][0]
    ).prefill_round_robin_balance
    for name, mode in (("prefill.sh", "prefill"), ("decode.sh", "decode")):
        assert parse_sglang(servers(JOBS["apart"], "sglang", tmp_path)[name][0]).disaggregation_mode == mode
        config = parse_vllm(servers(JOBS["apart"], "vllm", tmp_path)[name][0]).kv_transfer_config
        assert config == {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    files = write_serving(replace(JOBS["apart"], framework="trtllm"))
    assert read_yaml(files, "prefill.yaml")["cache_transceiver_config"] == {"backend": "DEFAULT"}


def test_devices_of_a_host_are_dealt_out(tmp_path: Path):
    files = write_serving(JOBS["dense"])
    assert "seq -s , $((REPLICA * 2))" in files["serve.sh"]
    assert len(started(files, "serve.sh", tmp_path)) == 4
    assert len(started(files, "serve.sh", tmp_path, REPLICAS="1")) == 1


def test_a_checkpoint_that_must_be_quantised_is_said():
    assert "a/mixture must be a checkpoint in it" in write_serving(JOBS["apart"])["prefill.sh"]
    assert "checkpoint" not in write_serving(JOBS["dense, all set"])["serve.sh"]


@pytest.mark.parametrize(
    ("framework", "plan", "changes", "message"),
    [
        ("vllm", Plan(data_parallel=4, tensor_parallel=2, expert_parallel=4), {}, "ep=4: experts lie on all"),
        ("trtllm", Plan(data_parallel=4, tensor_parallel=2, expert_parallel=8), {}, "dp=4 with tp=2"),
        ("sglang", Plan(tensor_parallel=2, data_parallel=2, expert_parallel=1), {}, "etp=2 over 4 ranks"),
        ("vllm", Plan(context_parallel=2), {}, "cp=2"),
        ("vllm", Plan(data_parallel=2), {"has_experts": False}, "ask for replicas instead"),
        ("sglang", Plan(), {"kv_cache_dtype": "nvfp4"}, "a cache in nvfp4"),
        ("vllm", Plan(tensor_parallel=12), {}, "does not fill hosts of 8"),
        ("vllm", Plan(), {"engine": EngineOptions(block_tokens=24)}, "blocks of 24 tokens"),
        ("vllm", Plan(), {"engine": EngineOptions(chunks_prompts=False)}, "must hold the longest"),
        (
            "vllm",
            Plan(),
            {"engine": EngineOptions(max_sequences=64, max_step_tokens=32)},
            "64 sequences in steps of 32 tokens",
        ),
        (
            "vllm",
            Plan(),
            {"engine": EngineOptions(chunks_prompts=False, max_step_tokens=32), "longest_tokens": 33},
            "whole prompts, with requests of 33 tokens",
        ),
        (
            "sglang",
            Plan(pipeline_parallel=2),
            {"engine": EngineOptions(speculation=Speculation(1, 0.5))},
            "drafted tokens with pp=2",
        ),
        (
            "sglang",
            Plan(),
            {"engine": EngineOptions(block_tokens=64, max_step_tokens=100)},
            "chunks of 100 tokens, no multiple of blocks of 64",
        ),
    ],
)
def test_what_a_framework_cannot_run_is_refused(
    framework: Any, plan: Plan, changes: dict[str, Any], message: str
):
    deployment = Aggregated(Pool(plan))
    job = ServingJob(model="a/b", deployment=deployment, framework=framework, has_experts=True)
    with pytest.raises(PlanError, match=message):
        write_serving(replace(job, **changes))


def test_a_refusal_names_who_can():
    plan = Plan(data_parallel=4, tensor_parallel=2, expert_parallel=8)
    job = ServingJob(model="a/b", deployment=Aggregated(Pool(plan)), framework="trtllm", has_experts=True)
    with pytest.raises(PlanError, match="Frameworks that can: vllm, sglang"):
        write_serving(job)


def test_names_on_the_hub_are_known_or_asked_for(tmp_path: Path):
    assert find_hub_name("qwen3-235b-a22b") == "Qwen/Qwen3-235B-A22B"
    assert find_hub_name("llama-3.1-8b") == "meta-llama/Llama-3.1-8B-Instruct"
    assert find_hub_name("deepseek-v3.1") == "deepseek-ai/DeepSeek-V3.1"
    assert find_hub_name(str(tmp_path / "config.json")) == str(tmp_path)
    with pytest.raises(InputError, match="--launch-model"):
        find_hub_name("megatron-22b")


def test_options_in_json_are_json(tmp_path: Path):
    script = write_serving(JOBS["dense, all set"])["serve.sh"]
    (line,) = (line for line in script.splitlines() if "--speculative-config" in line)
    assert json.loads(line.split("'")[1])["num_speculative_tokens"] == 3


def test_every_name_on_the_hub_is_of_a_model_of_the_catalog():
    text = (Path(job_module.__file__).parent / "hub_names.toml").read_text(encoding="utf-8")
    for name, hub_name in tomllib.loads(text)["models"].items():
        assert load_model(name).task == "causal-lm"
        assert hub_name.count("/") == 1
