"""A plan as DeepSpeed's configuration.

Keys and batch arithmetic after DeepSpeed 0.19.8: deepspeed/runtime/config.py (DeepSpeedConfig),
runtime/zero/config.py (DeepSpeedZeroConfig), runtime/activation_checkpointing/config.py. The configuration
shards data parallelism and nothing else: other degrees are the model's own code there.
"""

from __future__ import annotations

import json
from typing import Any

from perfcast.core.plan import Plan
from perfcast.searches.handover.job import Job, spoken
from perfcast.searches.handover.launch import write_launch_files

CONFIG_FILE = "deepspeed.json"
_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "momentum": "SGD", "muon": "Muon"}
#: A gradient is kept for communication in two bytes, or four in fp32 training.
_GRADIENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4}
_LEARNING_RATE = 1.0e-4
_MOMENTUM = 0.9


def find_obstacles(job: Job) -> tuple[str, ...]:
    """What of the plan the configuration cannot say."""
    plan, training = job.plan, job.training
    return spoken(
        [
            (plan.tensor_parallel > 1, f"tp={plan.tensor_parallel}: its configuration shards data alone"),
            (
                plan.pipeline_parallel > 1,
                f"pp={plan.pipeline_parallel}: a pipeline is a PipelineModule of your own there",
            ),
            (
                plan.context_parallel > 1,
                f"cp={plan.context_parallel}: sequences are cut by the model's own code there",
            ),
            (
                plan.expert_parallel > 1,
                f"ep={plan.expert_parallel}: experts are MoE layers of the model's own code there",
            ),
            (plan.offload == "activations" and plan.recompute != "full", _ACTIVATIONS),
            (plan.offload == "parameters" and plan.zero_stage != 3, "offload=parameters without zero=3"),
            (plan.offload == "optimizer" and plan.zero_stage == 0, "offload=optimizer without ZeRO"),
            (training.optimizer not in _OPTIMIZERS, f"optimizer '{training.optimizer}'"),
            (training.dtype not in _GRADIENT_BYTES, f"dtype '{training.dtype}'"),
        ]
    )


_ACTIVATIONS = "offload=activations without recompute=full: it moves inputs of checkpointed layers alone"


def write_files(job: Job) -> dict[str, str]:
    """The configuration, and how to start a program with it."""
    program = f"YOUR_PROGRAM.py --deepspeed --deepspeed_config {CONFIG_FILE}"
    files = {CONFIG_FILE: json.dumps(_config(job), indent=2) + "\n"}
    return files | write_launch_files(job, program, left_to_you=_left_to_you(job.plan))


def _left_to_you(plan: Plan) -> tuple[str, ...]:
    """The configuration says how layers are checkpointed; the model's code, which."""
    count = plan.recompute_layers
    which = "each layer" if count is None else f"each of the first {count} layers"
    return spoken(
        [
            (
                plan.recompute == "full",
                f"recompute=full: call deepspeed.checkpointing.checkpoint on {which} in the model's code",
            )
        ]
    )


def _config(job: Job) -> dict[str, Any]:
    plan, dtype = job.plan, job.training.dtype
    config: dict[str, Any] = {
        "train_batch_size": plan.global_batch_size,
        "train_micro_batch_size_per_gpu": plan.micro_batch_size,
        "gradient_accumulation_steps": plan.num_micro_batches,
        "gradient_clipping": 1.0,
        "optimizer": _optimizer(job.training.optimizer),
        "zero_optimization": _zero(job),
    }
    if dtype in ("bf16", "fp16"):
        config[dtype] = {"enabled": True}
    if plan.recompute == "full":
        config["activation_checkpointing"] = {
            "partition_activations": False,
            "cpu_checkpointing": plan.offload == "activations",
        }
    return config


def _optimizer(name: str) -> dict[str, Any]:
    params: dict[str, Any] = {"lr": _LEARNING_RATE}
    if name == "momentum":
        params["momentum"] = _MOMENTUM
    return {"type": _OPTIMIZERS[name], "params": params}


def _zero(job: Job) -> dict[str, Any]:
    plan = job.plan
    zero: dict[str, Any] = {"stage": plan.zero_stage, "overlap_comm": plan.overlaps_gradients}
    if plan.bucket_bytes is not None:
        zero["reduce_bucket_size"] = max(plan.bucket_bytes // _GRADIENT_BYTES[job.training.dtype], 1)
    if plan.zero_stage in (1, 2):
        zero["reduce_scatter"] = True
    if plan.zero_stage == 3 and not (plan.overlaps_weights and plan.num_prefetched):
        zero["stage3_prefetch_bucket_size"] = 0
    host = {"device": "cpu", "pin_memory": True}
    if plan.offload in ("optimizer", "parameters"):
        zero["offload_optimizer"] = host
    if plan.offload == "parameters":
        zero["offload_param"] = host
    return zero
