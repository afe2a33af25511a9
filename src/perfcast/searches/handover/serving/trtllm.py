"""Servers of TensorRT-LLM: ``trtllm-serve``, with a YAML file of its LLM API.

Names, types and choices after TensorRT-LLM 1.2 (tensorrt_llm/llmapi/llm_args.py: TorchLlmArgs, KvCacheConfig,
CudaGraphConfig, MTPDecodingConfig, CacheTransceiverConfig; commands/serve.py; llmapi/disagg_utils.py). With
attention data parallelism every rank of tensor_parallel_size has an engine of its own, and the limits are
those of each.
"""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.prediction.request.serving import EngineOptions
from perfcast.searches.handover.job import spoken
from perfcast.searches.handover.serving.job import Role, Servers, ServingJob, servers_of
from perfcast.searches.handover.serving.parallel import experts_tensor_parallel, weights_note
from perfcast.searches.handover.serving.script import PORT_STRIDE, Node, write_script, write_yaml

FIRST_PORT = 8001
CACHES = {"bf16": "auto", "fp16": "auto", "fp8": "fp8", "nvfp4": "nvfp4"}
DISAGGREGATED_FILE = "disaggregated.yaml"
_SERVERS: dict[Role, str] = {"prefill": "context_servers", "decode": "generation_servers"}


def find_obstacles(job: ServingJob, plan: Plan) -> tuple[str, ...]:
    """What of a job TensorRT-LLM has no setting for."""
    dp, tp = plan.data_parallel, plan.tensor_parallel
    return spoken(
        [
            (dp > 1 and tp > 1, f"dp={dp} with tp={tp}: attention is data-parallel on all ranks or on none"),
            (job.kv_cache_dtype not in CACHES, f"a cache in {job.kv_cache_dtype}"),
            (job.dtype == "fp32", "weights in fp32"),
        ]
    )


def write_files(job: ServingJob) -> dict[str, str]:
    """A script and a file of settings for each pool; what joins the pools where there are two."""
    pools = servers_of(job, FIRST_PORT)
    files = {f"{servers.name}.sh": _script(job, servers) for servers in pools}
    files |= {
        f"{servers.name}.yaml": write_yaml(engine_settings(job, servers.role, servers.plan))
        for servers in pools
    }
    if len(pools) > 1:
        files |= {DISAGGREGATED_FILE: _join(pools), "router.sh": _ROUTER}
    return files


def engine_settings(job: ServingJob, role: Role, plan: Plan) -> dict[str, Node]:
    """What every engine of a pool is told; Dynamo's workers of TensorRT-LLM take the same."""
    engine = job.engine_of(role)
    settings: dict[str, Node] = {
        "tensor_parallel_size": plan.ranks_per_stage,
        "pipeline_parallel_size": plan.pipeline_parallel,
        "enable_attention_dp": plan.data_parallel > 1,
    }
    if engine.rank_wait_steps and plan.data_parallel > 1:
        settings["attention_dp_config"] = {"enable_balance": True, "timeout_iters": engine.rank_wait_steps}
    if job.has_experts:
        settings["moe_expert_parallel_size"] = plan.expert_parallel
        settings["moe_tensor_parallel_size"] = experts_tensor_parallel(plan)
    limits = {
        "max_batch_size": engine.max_sequences,
        "max_num_tokens": engine.max_step_tokens,
        "max_seq_len": job.longest_tokens,
        "enable_chunked_prefill": engine.chunks_prompts,
    }
    settings |= {name: value for name, value in limits.items() if value is not None}
    settings["kv_cache_config"] = _cache(job, engine)
    if engine.cuda_graphs is False:
        settings["cuda_graph_config"] = None
    elif engine.cuda_graphs:
        largest = {"max_batch_size": engine.max_sequences} if engine.max_sequences else {}
        settings["cuda_graph_config"] = {"enable_padding": True, **largest}
    if engine.speculation is not None:
        drafted = engine.speculation.drafted_tokens
        settings["speculative_config"] = {"decoding_type": "MTP", "num_nextn_predict_layers": drafted}
    if role != "both":
        settings["cache_transceiver_config"] = {"backend": "DEFAULT"}
    if role == "prefill":
        # The context servers of a disaggregated service run without it (docs: features/disagg-serving).
        settings["disable_overlap_scheduler"] = True
    return settings


def _cache(job: ServingJob, engine: EngineOptions) -> dict[str, Node]:
    cache: dict[str, Node] = {"dtype": CACHES[job.kv_cache_dtype]}
    if job.reuses_prefixes:
        cache["enable_block_reuse"] = True
    if engine.memory_fraction is not None:
        cache["free_gpu_memory_fraction"] = engine.memory_fraction
    if engine.block_tokens is not None:
        cache["tokens_per_block"] = engine.block_tokens
    return cache


def _script(job: ServingJob, servers: Servers) -> str:
    arguments: list[tuple[str, str | None]] = [
        ("--host", "0.0.0.0"),
        ("--backend", "pytorch"),
        ("--extra_llm_api_options", f"{servers.name}.yaml"),
    ]
    program, notes = f"trtllm-serve {job.model}", list(weights_note(job))
    if servers.nodes_per_replica > 1:
        arguments.append(("--gpus_per_node", str(job.devices_per_node)))
        program = f"trtllm-llmapi-launch {program}"
        notes.append(
            "One task a device starts this, through MPI: srun --mpi=pmix, "
            f"{servers.plan.world_size} tasks, {job.devices_per_node} on a host"
        )
    if servers.role == "both" and servers.pool.replicas > 1:
        notes.append("Deal requests out to all ports of all hosts: dynamo.yaml does")
    return write_script(job, servers, program, tuple(arguments), computed=['--port "$PORT"'], notes=notes)


def _join(pools: tuple[Servers, ...]) -> str:
    settings: dict[str, Node] = {"hostname": "localhost", "port": FIRST_PORT - 1, "backend": "pytorch"}
    for servers in pools:
        each = servers.replicas_per_node
        settings[_SERVERS[servers.role]] = {
            "num_instances": servers.pool.replicas,
            "urls": [
                f"{servers.role}-{number // each}:{servers.first_port + PORT_STRIDE * (number % each)}"
                for number in range(servers.pool.replicas)
            ],
        }
    return write_yaml(settings, ["Yours to set: the hosts' names in urls"])


_ROUTER = f"""\
#!/usr/bin/env bash
# Deals requests out to both pools.
set -euo pipefail
trtllm-serve disaggregated --config_file {DISAGGREGATED_FILE}
"""
