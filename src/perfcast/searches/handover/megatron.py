"""A plan as arguments of Megatron-LM's pretrain_gpt.py.

Names, choices and checks after NVIDIA/Megatron-LM at commit 000c4ac24f61 (megatron/training/arguments.py:
add_megatron_arguments, validate_args) and megatron-core 0.16.1 (TransformerConfig, OptimizerConfig,
PipelineParallelLayerLayout).
"""

from __future__ import annotations

from itertools import groupby

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.searches.handover.job import Job, spoken
from perfcast.searches.handover.launch import write_launch_files
from perfcast.searches.handover.megatron_model import (
    Arguments,
    find_model_obstacles,
    left_to_you,
    model_arguments,
)

ARGUMENTS_FILE = "megatron_arguments.sh"
_CONTEXT = {"ring": "p2p", "ulysses": "a2a", "all_gather": "allgather"}
_OPTIMIZERS = {"adamw": "adam", "sgd": "sgd", "momentum": "sgd"}
_DTYPES: dict[str, Arguments] = {
    "bf16": (("--bf16", None),),
    "fp16": (("--fp16", None),),
    "fp32": (),
    "fp8": (("--bf16", None), ("--fp8-format", "hybrid")),
}
#: Order of ranks → the switch that asks for it.
_ORDERS: dict[str, Arguments] = {"tp-cp-dp-pp": (), "tp-cp-pp-dp": (("--use-tp-pp-dp-mapping", None),)}
#: ZeRO stage → what Megatron's own FSDP is told to shard.
_SHARDED = {2: "optim_grads", 3: "optim_grads_params"}
#: Gradients are summed in fp32, and buckets are counted in elements (DistributedDataParallelConfig).
_GRADIENT_BYTES = 4
_NUM_ITERATIONS, _LEARNING_RATE, _MOMENTUM = 100, "1.0e-4", "0.9"


def find_obstacles(job: Job) -> tuple[str, ...]:
    """What of the plan, the training and the model Megatron-LM has no argument for."""
    plan, training = job.plan, job.training
    return (
        *spoken(
            [
                (
                    plan.schedule == "interleaved" and plan.num_micro_batches % plan.pipeline_parallel != 0,
                    f"interleaved with {plan.num_micro_batches} micro-batches, no multiple of "
                    f"pp={plan.pipeline_parallel}",
                ),
                (
                    plan.context_parallel > 1 and job.sequence_length % (2 * plan.context_parallel) != 0,
                    f"a sequence of {job.sequence_length} tokens, no multiple of 2 · {plan.context_parallel}",
                ),
                (
                    plan.overlaps_tensor and not plan.sequence_parallel,
                    "overlapped tensor parallelism without sp",
                ),
                (training.optimizer not in _OPTIMIZERS, f"optimizer '{training.optimizer}'"),
                (training.dtype not in _DTYPES, f"dtype '{training.dtype}'"),
            ]
        ),
        *_sharding_obstacles(plan),
        *_offload_obstacles(plan, training),
        *find_model_obstacles(job.model, plan, training),
    )


def _sharding_obstacles(plan: Plan) -> tuple[str, ...]:
    zero = plan.zero_stage
    return spoken(
        [
            (
                zero > 0 and plan.overlaps_weights and not plan.overlaps_gradients,
                "weights gathered beside the compute while gradients are not reduced beside it",
            ),
        ]
    )


def _offload_obstacles(plan: Plan, training: Training) -> tuple[str, ...]:
    return spoken(
        [
            (
                plan.offload == "optimizer" and (plan.zero_stage != 1 or training.optimizer != "adamw"),
                "offload=optimizer without zero=1 and AdamW",
            ),
            (
                plan.offload == "activations" and (plan.pipeline_parallel > 1 or plan.recompute != "none"),
                "offload=activations with pp above 1 or recomputation",
            ),
        ]
    )


def write_files(job: Job) -> dict[str, str]:
    """The arguments as an array of the shell, and how to start Megatron-LM with them."""
    groups = {
        "The model.": model_arguments(job.model, job.plan, job.sequence_length, job.training),
        "The plan.": _plan_arguments(job),
        "Precision and optimizer.": _training_arguments(job.training),
        "Yours to change: learning rate, length of the run, data (--data-path in place of --mock-data).": (
            ("--lr", _LEARNING_RATE),
            ("--train-iters", str(_NUM_ITERATIONS)),
            ("--mock-data", None),
        ),
    }
    is_fsdp = job.plan.zero_stage in _SHARDED
    return {ARGUMENTS_FILE: _write_array(groups)} | write_launch_files(
        job,
        'pretrain_gpt.py "${ARGUMENTS[@]}"',
        environment={} if is_fsdp else {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        before=f"source {ARGUMENTS_FILE}\n",
        left_to_you=left_to_you(job.model),
    )


def _write_array(groups: dict[str, Arguments]) -> str:
    lines = ["# Arguments of Megatron-LM's pretrain_gpt.py.", "ARGUMENTS=("]
    for title, arguments in groups.items():
        lines.append(f"    # {title}")
        lines += [f"    {name}" if value is None else f"    {name} '{value}'" for name, value in arguments]
    return "\n".join([*lines, ")", ""])


def _plan_arguments(job: Job) -> Arguments:
    plan = job.plan
    arguments = [
        ("--tensor-model-parallel-size", str(plan.tensor_parallel)),
        ("--pipeline-model-parallel-size", str(plan.pipeline_parallel)),
        ("--context-parallel-size", str(plan.context_parallel)),
        ("--micro-batch-size", str(plan.micro_batch_size)),
        ("--global-batch-size", str(plan.global_batch_size)),
        *_stage_arguments(job),
        *_ORDERS.get(plan.order, ()),
        *_sharding_arguments(plan),
        *_recompute_arguments(plan),
    ]
    if job.model.experts is not None:
        arguments += [
            ("--expert-model-parallel-size", str(plan.expert_parallel)),
            ("--expert-tensor-parallel-size", str(plan.tensor_parallel_of_experts)),
        ]
    if plan.context_parallel > 1:
        arguments.append(("--cp-comm-type", _CONTEXT[plan.context_communication]))
    if plan.sequence_parallel and plan.tensor_parallel > 1:
        arguments.append(("--sequence-parallel", None))
    if plan.overlaps_tensor and plan.tensor_parallel > 1:
        arguments.append(("--tp-comm-overlap", None))
    if plan.offload == "optimizer":
        arguments += [("--optimizer-cpu-offload", None), ("--use-precision-aware-optimizer", None)]
    if plan.offload == "activations":
        arguments.append(("--cpu-offloading-num-layers", str(job.model.num_layers - 1)))
    return tuple(arguments)


def _stage_arguments(job: Job) -> Arguments:
    """Even stages by their number, others by a layout: 'E' embedding, 't' layer, 'm' prediction, 'L' loss."""
    plan, parts = job.plan, job.layers_of_parts
    if len(parts) == 1:
        return ()
    if len(set(parts)) == 1:
        if plan.virtual_stages_per_rank == 1:
            return ()
        return (("--num-layers-per-virtual-pipeline-stage", str(parts[0])),)
    stages = ["t" * count for count in parts]
    stages[0] = "E" + stages[0]
    stages[-1] += "m" * job.model.num_prediction_layers + "L"
    return (("--pipeline-model-parallel-layout", "|".join(_shortened(stage) for stage in stages)),)


def _shortened(stage: str) -> str:
    """Rows of one letter as a product: 'Ettt' → 'Et*3'."""
    runs = ((letter, len(list(run))) for letter, run in groupby(stage))
    return "".join(letter if count == 1 else f"{letter}*{count}" for letter, count in runs)


def _sharding_arguments(plan: Plan) -> Arguments:
    arguments: list[tuple[str, str | None]] = []
    if plan.zero_stage:
        arguments.append(("--use-distributed-optimizer", None))
    if plan.zero_stage in _SHARDED:
        arguments += [
            ("--use-megatron-fsdp", None),
            ("--data-parallel-sharding-strategy", _SHARDED[plan.zero_stage]),
            ("--no-gradient-accumulation-fusion", None),
            ("--ckpt-format", "fsdp_dtensor"),
        ]
    if plan.shard_size != plan.num_dense_replicas:
        copies = plan.num_dense_replicas // plan.shard_size
        arguments.append(("--num-distributed-optimizer-instances", str(copies)))
    if plan.overlaps_gradients:
        arguments.append(("--overlap-grad-reduce", None))
        if plan.zero_stage and plan.overlaps_weights:
            arguments.append(("--overlap-param-gather", None))
    if plan.bucket_bytes is not None:
        arguments.append(("--ddp-bucket-size", str(max(plan.bucket_bytes // _GRADIENT_BYTES, 1))))
    return tuple(arguments)


def _recompute_arguments(plan: Plan) -> Arguments:
    if plan.recompute == "none":
        return ()
    if plan.recompute == "selective":
        modules = plan.recompute_modules or ("core_attn",)
        return (("--recompute-granularity", "selective"), ("--recompute-modules", " ".join(modules)))
    method = ("uniform", 1) if plan.recompute_layers is None else ("block", plan.recompute_layers)
    return (
        ("--recompute-granularity", "full"),
        ("--recompute-method", method[0]),
        ("--recompute-num-layers", str(method[1])),
    )


def _training_arguments(training: Training) -> Arguments:
    arguments = [*_DTYPES[training.dtype], ("--optimizer", _OPTIMIZERS[training.optimizer])]
    if training.optimizer == "momentum":
        arguments.append(("--sgd-momentum", _MOMENTUM))
    if training.optimizer == "sgd":
        arguments.append(("--sgd-momentum", "0.0"))
    if training.fuses_cross_entropy:
        arguments.append(("--cross-entropy-loss-fusion", None))
    return (*arguments, ("--attention-backend", "flash" if training.attention == "flash" else "unfused"))
