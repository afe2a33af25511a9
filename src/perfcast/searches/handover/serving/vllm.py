"""Servers of vLLM: ``vllm serve``.

Names and choices after vLLM at commit 99d7eb5d6a51 (vllm/engine/arg_utils.py, vllm/config/). A data-parallel
rank is an engine with limits of its own (docs/serving/data_parallel_deployment.md); experts lie on all its
tp · dp ranks (--enable-expert-parallel) or are cut by all of them.
"""

from __future__ import annotations

import json

from perfcast.core.plan import Plan
from perfcast.searches.handover.job import spoken
from perfcast.searches.handover.serving.job import Role, Servers, ServingJob, servers_of
from perfcast.searches.handover.serving.parallel import MADE_WHILE_LOADING, weights_note
from perfcast.searches.handover.serving.script import Arguments, write_script

_HEADLESS = 'HEADLESS=$([ "$NODE_RANK" = 0 ] || echo --headless)\n'
FIRST_PORT, _SIDE_PORT, _RPC_PORT = 8000, 5600, 13345
BLOCKS = (1, 8, 16, 32, 64, 128, 256)
CACHES = {"bf16": "auto", "fp16": "auto", "fp8": "fp8"}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
#: By what a pool does most: many tokens of prompts, or one of each sequence.
_DEEPEP: dict[Role, str] = {
    "both": "deepep_low_latency",
    "prefill": "deepep_high_throughput",
    "decode": "deepep_low_latency",
}


def find_obstacles(job: ServingJob, plan: Plan) -> tuple[str, ...]:
    """What of a job vLLM has no option for."""
    ranks, block = plan.tensor_parallel * plan.data_parallel, job.engine.block_tokens
    return spoken(
        [
            (
                plan.expert_parallel not in (1, ranks),
                f"ep={plan.expert_parallel}: experts lie on all tp · dp = {ranks} ranks, or are cut by all",
            ),
            (job.kv_cache_dtype not in CACHES, f"a cache in {job.kv_cache_dtype}"),
            (block is not None and block not in BLOCKS, f"blocks of {block} tokens"),
            (
                job.engine.chunks_prompts is False and job.longest_tokens is None,
                "whole prompts of no stated length: a step must hold the longest",
            ),
            *_step_obstacles(job),
        ]
    )


def _step_obstacles(job: ServingJob) -> tuple[tuple[bool, str], ...]:
    """What its scheduler refuses (vllm/config/scheduler.py, SchedulerConfig.verify_max_model_len)."""
    engine, tokens = job.engine, job.engine.max_step_tokens
    if tokens is None:
        return ()
    sequences, longest = engine.max_sequences or 0, job.longest_tokens or 0
    return (
        (sequences > tokens, f"{sequences} sequences in steps of {tokens} tokens"),
        (
            engine.chunks_prompts is False and longest > tokens,
            f"whole prompts, with requests of {longest} tokens, in steps of {tokens}",
        ),
    )


def write_files(job: ServingJob) -> dict[str, str]:
    """A script for each pool."""
    return {f"{servers.name}.sh": _script(job, servers) for servers in servers_of(job, FIRST_PORT)}


def engine_arguments(job: ServingJob, role: Role, plan: Plan) -> Arguments:
    """What every engine of a pool is told; Dynamo's workers of vLLM take the same."""
    return (*_parallel(job, role, plan), *_precision(job), *_scheduling(job, role), *_transfer(role))


def _parallel(job: ServingJob, role: Role, plan: Plan) -> Arguments:
    arguments: list[tuple[str, str | None]] = [("--tensor-parallel-size", str(plan.tensor_parallel))]
    if plan.pipeline_parallel > 1:
        arguments.append(("--pipeline-parallel-size", str(plan.pipeline_parallel)))
    if plan.data_parallel > 1:
        arguments.append(("--data-parallel-size", str(plan.data_parallel)))
    if job.has_experts and plan.expert_parallel > 1:
        arguments.append(("--enable-expert-parallel", None))
        if plan.dispatch in ("deepep", "deepep_fp8"):
            arguments.append(("--all2all-backend", _DEEPEP[role]))
        elif plan.dispatch == "allgather":
            arguments.append(("--all2all-backend", "allgather_reducescatter"))
    return tuple(arguments)


def _precision(job: ServingJob) -> Arguments:
    arguments = [("--kv-cache-dtype", CACHES[job.kv_cache_dtype])]
    if job.dtype in _DTYPES:
        arguments.append(("--dtype", _DTYPES[job.dtype]))
    if job.dtype in MADE_WHILE_LOADING:
        arguments.append(("--quantization", "fp8"))
    return tuple(arguments)


def _scheduling(job: ServingJob, role: Role) -> Arguments:
    engine, arguments = job.engine_of(role), list[tuple[str, str | None]]()
    if job.longest_tokens is not None:
        arguments.append(("--max-model-len", str(job.longest_tokens)))
    if engine.max_sequences is not None:
        arguments.append(("--max-num-seqs", str(engine.max_sequences)))
    if engine.max_step_tokens is not None:
        arguments.append(("--max-num-batched-tokens", str(engine.max_step_tokens)))
    if engine.chunks_prompts is not None:
        name = "--enable-chunked-prefill" if engine.chunks_prompts else "--no-enable-chunked-prefill"
        arguments.append((name, None))
    if engine.memory_fraction is not None:
        arguments.append(("--gpu-memory-utilization", f"{engine.memory_fraction:g}"))
    if engine.block_tokens is not None:
        arguments.append(("--block-size", str(engine.block_tokens)))
    if job.reuses_prefixes:
        arguments.append(("--enable-prefix-caching", None))
    if engine.cuda_graphs is False:
        arguments.append(("--compilation-config", json.dumps({"cudagraph_mode": "NONE"})))
    if engine.speculation is not None:
        config = {"method": "mtp", "num_speculative_tokens": engine.speculation.drafted_tokens}
        arguments.append(("--speculative-config", json.dumps(config)))
    return tuple(arguments)


def _transfer(role: Role) -> Arguments:
    """Keys and values through NIXL, which both sides may ask for (docs/features/nixl_connector_usage.md)."""
    if role == "both":
        return ()
    return (("--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})),)


def _script(job: ServingJob, servers: Servers) -> str:
    plan = servers.plan
    arguments: list[tuple[str, str | None]] = [
        ("--host", "0.0.0.0"),
        *engine_arguments(job, servers.role, plan),
    ]
    computed, notes = ['--port "$PORT"'], list(weights_note(job, MADE_WHILE_LOADING))
    before = ""
    if servers.nodes_per_replica > 1:
        spans_hosts = plan.world_size // plan.data_parallel > job.devices_per_node
        if plan.data_parallel == 1 or spans_hosts:
            arguments.append(("--distributed-executor-backend", "ray"))
            notes.append("Ranks of several hosts are started by Ray: start its cluster first (ray start)")
            if plan.data_parallel > 1:
                arguments.append(("--data-parallel-backend", "ray"))
            notes.append("Run this on place 0 alone")
        else:
            computed += _of_one_host(plan.data_parallel // servers.nodes_per_replica)
            before = _HEADLESS
    environment = {}
    if servers.role != "both":
        environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] = f"$(({_SIDE_PORT} + {plan.data_parallel} * REPLICA))"
        notes.append("Requests reach both pools through a proxy: dynamo.yaml starts these servers with one")
    elif servers.pool.replicas > 1:
        notes.append("Deal requests out to all ports of all hosts: dynamo.yaml does")
    return write_script(
        job,
        servers,
        f"vllm serve {job.model}",
        tuple(arguments),
        computed=computed,
        environment=environment,
        before=before,
        notes=notes,
    )


def _of_one_host(local: int) -> list[str]:
    """Data-parallel ranks of one host among several; all but the first have no door of their own."""
    return [
        f"--data-parallel-size-local {local}",
        f"--data-parallel-start-rank $((NODE_RANK * {local}))",
        '--data-parallel-address "$HEAD"',
        f"--data-parallel-rpc-port $(({_RPC_PORT} + REPLICA))",
        "$HEADLESS",
    ]
