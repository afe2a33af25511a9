"""A plan as a program for PyTorch's FSDP2, which shards a module of the user's.

``fsdp2_program`` is the program; what is handed over is its text with the plan's settings. The API is that of
PyTorch 2.6 and newer: torch/distributed/fsdp/_fully_shard (fully_shard, FSDPModule).
"""

from __future__ import annotations

from pathlib import Path

from perfcast.core.plan import Plan
from perfcast.searches.handover.job import Job, spoken
from perfcast.searches.handover.launch import write_launch_files

PROGRAM_FILE = "fsdp2_train.py"
_SOURCE = "fsdp2_program.py"
_PLACE = "SETTINGS = Settings()\n"
_OPTIMIZERS = ("adamw", "adam", "sgd", "momentum", "adafactor")
_DTYPES = ("bf16", "fp32", "tf32")


def find_obstacles(job: Job) -> tuple[str, ...]:
    """What of the plan data parallelism of a module cannot do."""
    plan, training = job.plan, job.training
    degrees = {
        "tp": plan.tensor_parallel,
        "pp": plan.pipeline_parallel,
        "cp": plan.context_parallel,
        "ep": plan.expert_parallel,
    }
    return spoken(
        [
            *((size > 1, f"{key}={size}: it shards data alone") for key, size in degrees.items()),
            (plan.offload == "parameters" and plan.zero_stage < 2, "offload=parameters without ZeRO 2 or 3"),
            (training.optimizer not in _OPTIMIZERS, f"optimizer '{training.optimizer}'"),
            (training.dtype not in _DTYPES, f"dtype '{training.dtype}'"),
        ]
    )


def write_files(job: Job) -> dict[str, str]:
    """The program, and how to start it."""
    source = Path(__file__).with_name(_SOURCE).read_text(encoding="utf-8")
    if source.count(_PLACE) != 1:
        raise AssertionError(f"{_SOURCE} has no single place for the settings")
    program = f"{PROGRAM_FILE} --model YOUR_FILE.py:FUNCTION"
    files = {PROGRAM_FILE: source.replace(_PLACE, _write_settings(job))}
    return files | write_launch_files(job, program)


def _write_settings(job: Job) -> str:
    plan = job.plan
    shards = _count_shards(plan)
    settings = {
        "micro_batch_size": plan.micro_batch_size,
        "num_micro_batches": plan.num_micro_batches,
        "replicas": plan.data_parallel // shards,
        "shards": shards,
        "reshards": plan.zero_stage == 3 and plan.reshard_after_forward,
        "reduces_always": plan.zero_stage >= 2,
        "num_prefetched": plan.num_prefetched,
        "recompute": plan.recompute,
        "recompute_layers": plan.recompute_layers,
        "offload": plan.offload,
        "dtype": job.training.dtype,
        "optimizer": job.training.optimizer,
    }
    lines = "".join(f"    {name}={value!r},\n" for name, value in settings.items())
    return f"SETTINGS = Settings(\n{lines})\n"


def _count_shards(plan: Plan) -> int:
    """Without ZeRO every rank is a replica of one shard."""
    return plan.shard_size if plan.zero_stage >= 2 else 1
