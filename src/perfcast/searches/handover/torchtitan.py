"""A plan as the TOML file that torchtitan 0.1 and 0.2 read (0.3 replaced it by Python registries).

Names and checks after torchtitan 0.2.2: torchtitan/config/job_config.py, distributed/parallel_dims.py,
distributed/pipeline_parallel.py, train.py; schedules after PyTorch's distributed/pipelining/schedules.py. Its
tensor parallelism always cuts norms along the sequence; sharded data parallelism is FSDP2 over dp and cp.
"""

from __future__ import annotations

import json

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.searches.handover.job import Job, spoken
from perfcast.searches.handover.launch import write_launch_files
from perfcast.searches.handover.torchtitan_model import MODEL_MODULE, Flavor, find_flavor

CONFIG_FILE = "torchtitan.toml"
_SCHEDULES = {
    "1f1b": "1F1B",
    "gpipe": "GPipe",
    "interleaved": "Interleaved1F1B",
    "zero_bubble": "InterleavedZeroBubble",
}
#: Schedules that deal micro-batches out in rounds of about one for each stage.
_IN_ROUNDS = ("interleaved", "zero_bubble")
_COLLECTIVES = {"all_gather": "allgather", "ring": "alltoall"}
_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam"}
_PRECISIONS = {"bf16": "bfloat16", "fp8": "bfloat16", "fp32": "float32"}
_NUM_STEPS, _LEARNING_RATE = 100, 1.0e-4

Value = str | int | float | bool | list[str] | list[list[str]]


def find_obstacles(job: Job) -> tuple[str, ...]:
    """What of the plan, the training and the model torchtitan has no setting for."""
    plan, training, flavor = job.plan, job.training, find_flavor(job.name, job.model)
    return (
        *spoken(
            [
                (flavor is None, f"the architecture of {job.name}: it has Llama 3, Qwen 3 and DeepSeek-V3"),
                (
                    plan.tensor_parallel > 1 and not plan.sequence_parallel,
                    f"tp={plan.tensor_parallel} without sp",
                ),
                (plan.offload == "parameters" and plan.zero_stage < 2, "offload=parameters without FSDP"),
                (
                    training.optimizer not in _OPTIMIZERS,
                    f"optimizer '{training.optimizer}'",
                ),
                (training.dtype not in _PRECISIONS, f"dtype '{training.dtype}'"),
            ]
        ),
        *(_flavor_obstacles(flavor, plan, training) if flavor else ()),
        *_sharding_obstacles(plan, training),
        *_pipeline_obstacles(plan),
        *_context_obstacles(plan, job.sequence_length),
        *_expert_obstacles(plan),
    )


def _flavor_obstacles(flavor: Flavor, plan: Plan, training: Training) -> tuple[str, ...]:
    pp, cp, tp = plan.pipeline_parallel, plan.context_parallel, plan.tensor_parallel
    return spoken(
        [
            (pp > 1 and not flavor.has_pipeline, f"pp={pp} for its {flavor.name}"),
            (cp > 1 and not flavor.has_context, f"cp={cp} for its {flavor.name} (flex attention)"),
            (
                tp > 1 and training.dtype == "fp8" and flavor.name == "deepseek_v3",
                f"fp8 with tp={tp} for its {flavor.name}",
            ),
        ]
    )


def _sharding_obstacles(plan: Plan, training: Training) -> tuple[str, ...]:
    replicas, zero = plan.num_dense_replicas, plan.zero_stage
    is_alone = plan.data_parallel == plan.world_size
    is_cut = zero >= 2 and plan.shard_size > 1
    return spoken(
        [
            (zero == 0 and replicas > 1 and not is_alone, "zero=0 beside another parallelism"),
            (
                not is_cut and not is_alone and training.dtype != "fp32",
                f"{training.dtype} without sharded data parallelism, beside another parallelism",
            ),
            (
                is_cut and plan.shard_size % plan.context_parallel != 0,
                f"shards={plan.shard_size}, no multiple of cp={plan.context_parallel}",
            ),
        ]
    )


def _pipeline_obstacles(plan: Plan) -> tuple[str, ...]:
    stages, micro_batches = plan.pipeline_parallel, plan.num_micro_batches
    rounds = max(micro_batches // stages, 1)
    return spoken(
        [
            (
                plan.schedule in _IN_ROUNDS and stages > 1 and micro_batches % rounds != 0,
                f"{plan.schedule} with {micro_batches} micro-batches: not {rounds} equal rounds",
            ),
        ]
    )


def _context_obstacles(plan: Plan, sequence_length: int) -> tuple[str, ...]:
    divisor = plan.tensor_parallel * 2 * plan.context_parallel
    return spoken(
        [
            (
                plan.context_parallel > 1 and plan.context_communication not in _COLLECTIVES,
                f"cp_type={plan.context_communication}: it has {' and '.join(_COLLECTIVES)}",
            ),
            (
                sequence_length % divisor != 0,
                f"a sequence of {sequence_length} tokens, no multiple of tp · 2 cp = {divisor}",
            ),
        ]
    )


def _expert_obstacles(plan: Plan) -> tuple[str, ...]:
    tp, ep, etp = plan.tensor_parallel, plan.expert_parallel, plan.tensor_parallel_of_experts
    shards = plan.shard_size if plan.zero_stage >= 2 else 1
    return spoken(
        [
            (etp not in (1, tp) or (ep == 1 and etp != tp), f"etp={etp} with ep={ep} and tp={tp}"),
            (
                ep > 1 and (shards * tp % (ep * etp) != 0 or (etp == 1 and ep % tp != 0)),
                f"ep={ep} · etp={etp} over {shards} shards · tp={tp}",
            ),
        ]
    )


def write_files(job: Job) -> dict[str, str]:
    """The TOML file, a module with the model's sizes where torchtitan has none, and how to start it."""
    flavor = find_flavor(job.name, job.model)
    if flavor is None:
        raise AssertionError(f"{job.name}: obstacles are asked first")
    files = {CONFIG_FILE: _write_toml(_sections(job, flavor))}
    if flavor.module:
        files[f"{MODEL_MODULE}.py"] = flavor.module
    environment = {"PYTHONPATH": '"$PWD${PYTHONPATH:+:$PYTHONPATH}"'} if flavor.module else {}
    program = f"--module torchtitan.train --job.config_file {CONFIG_FILE}"
    return files | write_launch_files(job, program, environment)


def _sections(job: Job, flavor: Flavor) -> dict[str, dict[str, Value]]:
    plan, training = job.plan, job.training
    stages = plan.pipeline_parallel > 1
    local = plan.micro_batch_size * (plan.num_micro_batches if stages else 1)
    model: dict[str, Value] = {
        "name": flavor.name,
        "flavor": flavor.flavor,
        "hf_assets_path": f"./assets/hf/{job.name}",
    }
    if training.dtype == "fp8":
        model["converters"] = ["float8"]
    sections: dict[str, dict[str, Value]] = {
        "job": {"dump_folder": "./outputs", "description": f"{job.name} on {job.cluster.name}"},
        "model": model,
        "optimizer": {"name": _OPTIMIZERS[training.optimizer], "lr": _LEARNING_RATE},
        "training": {
            "local_batch_size": local,
            "global_batch_size": plan.global_batch_size,
            "seq_len": job.sequence_length,
            "steps": _NUM_STEPS,
            "dataset": "c4",
            "mixed_precision_param": _PRECISIONS[training.dtype],
            "mixed_precision_reduce": "float32",
            "enable_cpu_offload": plan.offload == "parameters",
        },
        "parallelism": _parallelism(job),
        "activation_checkpoint": _recomputation(plan),
        "compile": {"enable": plan.overlaps_tensor or training.compiles},
    }
    if flavor.module:
        sections["experimental"] = {"custom_import": MODEL_MODULE}
    return sections


def _recomputation(plan: Plan) -> dict[str, Value]:
    """Its 'selective' is of every second layer unless operators are asked for."""
    option: dict[str, Value] = {"selective_ac_option": "op"} if plan.recompute == "selective" else {}
    return {"mode": plan.recompute, **option}


def _parallelism(job: Job) -> dict[str, Value]:
    plan = job.plan
    shard = plan.shard_size // plan.context_parallel if plan.zero_stage >= 2 else 1
    keeps = plan.zero_stage == 2 or not plan.reshard_after_forward
    settings: dict[str, Value] = {
        "data_parallel_replicate_degree": plan.data_parallel // shard,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": "never" if keeps else "always",
        "tensor_parallel_degree": plan.tensor_parallel,
        "enable_async_tensor_parallel": plan.overlaps_tensor and plan.tensor_parallel > 1,
        "pipeline_parallel_degree": plan.pipeline_parallel,
        "context_parallel_degree": plan.context_parallel,
    }
    if plan.context_parallel > 1:
        settings["context_parallel_rotate_method"] = _COLLECTIVES[plan.context_communication]
    if job.model.experts is not None:
        settings["expert_parallel_degree"] = plan.expert_parallel
        settings["expert_tensor_parallel_degree"] = (
            plan.tensor_parallel_of_experts if plan.expert_parallel > 1 else 1
        )
    if plan.pipeline_parallel > 1:
        settings["pipeline_parallel_schedule"] = _SCHEDULES[plan.schedule]
        settings["pipeline_parallel_microbatch_size"] = plan.micro_batch_size
        settings["module_fqns_per_model_part"] = _name_modules(job.layers_of_parts)
    return settings


def _name_modules(parts: tuple[int, ...]) -> list[list[str]]:
    """Modules of each part of the model, by torchtitan's names."""
    named, first = [], 0
    for count in parts:
        named.append([f"layers.{layer}" for layer in range(first, first + count)])
        first += count
    named[0].insert(0, "tok_embeddings")
    named[-1] += ["norm", "output"]
    return named


def _write_toml(sections: dict[str, dict[str, Value]]) -> str:
    """Strings, numbers and lists are written in TOML as in JSON (toml.io, version 1.0.0)."""
    lines = [
        "# For torchtitan 0.2 (pip install 'torchtitan<0.3').",
        "# Yours to change: hf_assets_path, dataset, lr, steps.",
    ]
    for title, settings in sections.items():
        lines += ["", f"[{title}]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    return "\n".join([*lines, ""])
