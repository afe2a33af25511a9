"""Servers of SGLang: ``python -m sglang.launch_server``, and its router.

Names and choices after SGLang 0.5.5 (python/sglang/srt/server_args.py) and sglang-router 0.2.2
(sglang_router/router_args.py). --tp-size counts all ranks of a stage; with --enable-dp-attention, --dp-size
groups of them have engines of their own, and the limits of requests and of a chunk are divided by it
(ServerArgs._handle_data_parallelism, managers/tp_worker.py).
"""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated
from perfcast.prediction.request.serving import EngineOptions
from perfcast.searches.handover.job import spoken
from perfcast.searches.handover.serving.job import Role, Servers, ServingJob, servers_of
from perfcast.searches.handover.serving.parallel import MADE_WHILE_LOADING, weights_note
from perfcast.searches.handover.serving.script import PORT_STRIDE, Arguments, write_script

FIRST_PORT, _BOOTSTRAP_PORT, _RENDEZVOUS_PORT, _ROUTER_PORT = 30000, 8998, 20000, 8000
CACHES = {"bf16": "bf16", "fp16": "auto", "fp8": "fp8_e4m3"}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
#: Formats that --quantization makes while weights are loaded, or runs experts in.
_QUANTIZATIONS = {"fp8": "fp8", "fp8_token": "fp8", "w4afp8": "w4afp8"}
ROUTER_FILE = "router.sh"


def find_obstacles(job: ServingJob, plan: Plan) -> tuple[str, ...]:
    """What of a job SGLang has no option for."""
    engine, deepep = job.engine, plan.dispatch in ("deepep", "deepep_fp8")
    page, chunk = engine.block_tokens or 1, engine.max_step_tokens
    is_cut = chunk is not None and engine.chunks_prompts is not False
    return spoken(
        [
            (job.kv_cache_dtype not in CACHES, f"a cache in {job.kv_cache_dtype}"),
            (
                deepep and plan.expert_parallel != plan.ranks_per_stage,
                f"DeepEP with ep={plan.expert_parallel} on {plan.ranks_per_stage} ranks: its experts lie "
                "on all",
            ),
            (
                engine.speculation is not None and plan.pipeline_parallel > 1,
                f"drafted tokens with pp={plan.pipeline_parallel}",
            ),
            (
                is_cut and chunk is not None and chunk % page != 0,
                f"chunks of {chunk} tokens, no multiple of blocks of {page}",
            ),
        ]
    )


def write_files(job: ServingJob) -> dict[str, str]:
    """A script for each pool, and the router before them where there are several servers."""
    pools = servers_of(job, FIRST_PORT)
    files = {f"{servers.name}.sh": _script(job, servers) for servers in pools}
    if len(pools) > 1 or pools[0].pool.replicas > 1:
        files[ROUTER_FILE] = _router(pools)
    return files


def engine_arguments(job: ServingJob, role: Role, plan: Plan) -> Arguments:
    """What every engine of a pool is told; Dynamo's workers of SGLang take the same."""
    return (*_parallel(job, plan), *_precision(job), *_scheduling(job, role, plan), *_transfer(job, role))


def _parallel(job: ServingJob, plan: Plan) -> Arguments:
    arguments: list[tuple[str, str | None]] = [("--tp-size", str(plan.ranks_per_stage))]
    if plan.pipeline_parallel > 1:
        arguments.append(("--pp-size", str(plan.pipeline_parallel)))
    if plan.data_parallel > 1:
        arguments += [("--dp-size", str(plan.data_parallel)), ("--enable-dp-attention", None)]
    if job.has_experts and plan.expert_parallel > 1:
        arguments.append(("--ep-size", str(plan.expert_parallel)))
        if plan.dispatch in ("deepep", "deepep_fp8"):
            arguments.append(("--moe-a2a-backend", "deepep"))
    return tuple(arguments)


def _precision(job: ServingJob) -> Arguments:
    arguments = [("--kv-cache-dtype", CACHES[job.kv_cache_dtype])]
    if job.dtype in _DTYPES:
        arguments.append(("--dtype", _DTYPES[job.dtype]))
    if job.dtype in _QUANTIZATIONS:
        arguments.append(("--quantization", _QUANTIZATIONS[job.dtype]))
    return tuple(arguments)


def _scheduling(job: ServingJob, role: Role, plan: Plan) -> Arguments:
    engine, arguments = job.engine_of(role), list[tuple[str, str | None]]()
    if job.longest_tokens is not None:
        arguments.append(("--context-length", str(job.longest_tokens)))
    if engine.max_sequences is not None:
        arguments.append(("--max-running-requests", str(engine.max_sequences * plan.data_parallel)))
    if engine.chunks_prompts is False:
        arguments.append(("--chunked-prefill-size", "-1"))
        if engine.max_step_tokens is not None:
            arguments.append(("--max-prefill-tokens", str(engine.max_step_tokens)))
    elif engine.max_step_tokens is not None:
        arguments.append(("--chunked-prefill-size", str(engine.max_step_tokens * plan.data_parallel)))
    if engine.memory_fraction is not None:
        arguments.append(("--mem-fraction-static", f"{engine.memory_fraction:g}"))
    if engine.block_tokens is not None:
        arguments.append(("--page-size", str(engine.block_tokens)))
    if engine.polls_every_steps is not None and engine.polls_every_steps > 1:
        arguments.append(("--scheduler-recv-interval", str(engine.polls_every_steps)))
    if engine.cuda_graphs is False:
        arguments.append(("--disable-cuda-graph", None))
    return (*arguments, *_speculation(engine))


def _speculation(engine: EngineOptions) -> Arguments:
    """Drafts of the model's own prediction layers, one after the other."""
    if engine.speculation is None:
        return ()
    drafted = engine.speculation.drafted_tokens
    return (
        ("--speculative-algorithm", "NEXTN"),
        ("--speculative-num-steps", str(drafted)),
        ("--speculative-eagle-topk", "1"),
        ("--speculative-num-draft-tokens", str(drafted + 1)),
    )


def _transfer(job: ServingJob, role: Role) -> Arguments:
    """What either pool must know of the other (ServerArgs._handle_disaggregation)."""
    deployment = job.deployment
    if role == "both" or isinstance(deployment, Aggregated):
        return ()
    read, write = deployment.prefill.plan, deployment.decode.plan
    arguments: list[tuple[str, str | None]] = [
        ("--disaggregation-mode", role),
        ("--disaggregation-transfer-backend", "nixl"),
    ]
    if role == "prefill":
        arguments += [
            ("--disaggregation-decode-tp", str(write.ranks_per_stage)),
            ("--disaggregation-decode-dp", str(write.data_parallel)),
        ]
        if write.data_parallel > 1:
            arguments.append(("--load-balance-method", "round_robin"))
    else:
        arguments.append(("--disaggregation-prefill-pp", str(read.pipeline_parallel)))
        if write.data_parallel > 1:
            arguments.append(("--prefill-round-robin-balance", None))
    return tuple(arguments)


def _script(job: ServingJob, servers: Servers) -> str:
    arguments: list[tuple[str, str | None]] = [
        ("--model-path", job.model),
        ("--host", "0.0.0.0"),
        *engine_arguments(job, servers.role, servers.plan),
    ]
    computed = ['--port "$PORT"']
    if servers.nodes_per_replica > 1:
        arguments.append(("--nnodes", str(servers.nodes_per_replica)))
        computed += ['--node-rank "$NODE_RANK"', f'--dist-init-addr "$HEAD:{_RENDEZVOUS_PORT}"']
    if servers.role == "prefill":
        computed.append(f"--disaggregation-bootstrap-port $(({_BOOTSTRAP_PORT} + REPLICA))")
    return write_script(
        job,
        servers,
        "python -m sglang.launch_server",
        tuple(arguments),
        computed=computed,
        notes=weights_note(job, (*MADE_WHILE_LOADING, "w4afp8")),
    )


def _router(pools: tuple[Servers, ...]) -> str:
    if len(pools) == 1:
        words = ["--worker-urls", *_urls(pools[0], "SERVE")]
    else:
        prefill, decode = pools
        words = ["--pd-disaggregation"]
        for number, url in enumerate(_urls(prefill, "PREFILL")):
            words += ["--prefill", url, str(_BOOTSTRAP_PORT + number % prefill.replicas_per_node)]
        for url in _urls(decode, "DECODE"):
            words += ["--decode", url]
    hosts = "".join(f'{name}="${{{name}:-localhost}}"\n' for name in _hosts_of(pools))
    return _ROUTER.format(hosts=hosts, port=_ROUTER_PORT, words=" ".join(words))


def _urls(servers: Servers, name: str) -> list[str]:
    """Of the replicas, host by host; the names of hosts (of a replica's several, the first) are variables."""
    each = servers.replicas_per_node
    return [
        f'"http://$HOST_{name}_{number // each}:{servers.first_port + PORT_STRIDE * (number % each)}"'
        for number in range(servers.pool.replicas)
    ]


def _hosts_of(pools: tuple[Servers, ...]) -> list[str]:
    return [
        f"HOST_{servers.name.upper()}_{host}"
        for servers in pools
        for host in range(servers.num_nodes // servers.nodes_per_replica)
    ]


_ROUTER = """\
#!/usr/bin/env bash
# Deals requests out to all servers (pip install sglang-router). Yours to set: the hosts' names.
set -euo pipefail
{hosts}python -m sglang_router.launch_router --host 0.0.0.0 --port {port} \\
    {words}
"""
