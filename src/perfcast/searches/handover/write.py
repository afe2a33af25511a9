"""The targets by name, and the refusal of what one cannot run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.tuning.text import describe_tuning
from perfcast.errors import PlanError, UnknownNameError
from perfcast.frameworks.choice import default_framework
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.obstacles import plan_obstacles
from perfcast.prediction.model import Model, read_model
from perfcast.searches.handover import deepspeed, fsdp2, megatron, torchtitan
from perfcast.searches.handover.job import Job, check_job, count_devices_per_node


@dataclass(frozen=True)
class Target:
    """A framework by the name of its profile: what else of a job it cannot do, and the files that tell it."""

    title: str
    framework: str
    find_obstacles: Callable[[Job], tuple[str, ...]]
    write_files: Callable[[Job], dict[str, str]]


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "torchtitan": Target("torchtitan", "torchtitan", torchtitan.find_obstacles, torchtitan.write_files),
        "megatron": Target("Megatron-LM", "megatron", megatron.find_obstacles, megatron.write_files),
        "deepspeed": Target("DeepSpeed", "deepspeed", deepspeed.find_obstacles, deepspeed.write_files),
        "fsdp2": Target("FSDP2", "fsdp", fsdp2.find_obstacles, fsdp2.write_files),
    }
)


def hand_over(
    plan: Plan,
    model: Model,
    training: Training | None,
    sequence_length: int | None,
    cluster: Cluster,
    target: str,
    *,
    devices_per_node: int | None = None,
) -> Mapping[str, str]:
    """What a framework needs to run a plan.

    Args:
        model: Catalog name, a Hugging Face config.json or its folder, or the sizes.
        training: None takes AdamW in bf16 by the plan's default framework.
        sequence_length: None takes the model's own.
        target: One of ``TARGETS``.
        devices_per_node: Devices of one host; None takes the cluster's.

    Returns:
        Names of files → their texts; 'launch.sh' and 'job.sbatch' start the rest.

    Raises:
        UnknownNameError: No such target.
        PlanError: The target cannot run the plan, or the plan does not fill the cluster's hosts; the message
            says what is in the way, and which targets can.
    """
    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS, f"Known: {', '.join(TARGETS)}.")
    job = make_job(plan, model, training, sequence_length, cluster, devices_per_node)
    obstacles = find_obstacles(job, target)
    if obstacles:
        others = [name for name in TARGETS if not find_obstacles(job, name)]
        way_out = f"Targets that can: {', '.join(others)}." if others else "No other target can either."
        raise PlanError(f"{TARGETS[target].title} cannot run this plan: {'; '.join(obstacles)}. {way_out}")
    return MappingProxyType(TARGETS[target].write_files(job))


def find_targets(
    plan: Plan,
    model: Model,
    training: Training | None,
    sequence_length: int | None,
    cluster: Cluster,
    *,
    devices_per_node: int | None = None,
) -> Mapping[str, tuple[str, ...]]:
    """What is in the way of each target; empty where it can run the plan.

    Raises:
        PlanError: See ``hand_over``.
    """
    job = make_job(plan, model, training, sequence_length, cluster, devices_per_node)
    return MappingProxyType({name: find_obstacles(job, name) for name in TARGETS})


def make_job(
    plan: Plan,
    model: Model,
    training: Training | None,
    sequence_length: int | None,
    cluster: Cluster,
    devices_per_node: int | None = None,
) -> Job:
    """The job, with all names resolved.

    Raises:
        InputError: Unknown names; a plan that does not fill the cluster or its hosts.
    """
    known = read_model(model)
    job = Job(
        plan=plan,
        name=_short_name(known.name),
        model=known.sizes,
        training=training or Training(framework=default_framework(plan)),
        sequence_length=known.sequence_length(sequence_length),
        cluster=cluster,
        devices_per_node=count_devices_per_node(cluster) if devices_per_node is None else devices_per_node,
    )
    check_job(job)
    return job


def _short_name(name: str) -> str:
    """A name that files and Slurm take, of a catalog name or a path.

    >>> _short_name("models/My Llama/config.json")
    'My-Llama'
    """
    path = Path(name)
    stem = path.parent.name if path.name == "config.json" and path.parent.name else path.name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem.removesuffix(".json")) or "model"


def find_obstacles(job: Job, target: str) -> tuple[str, ...]:
    """What of a job a target cannot do: what its profile does not have, then what its files cannot say."""
    support = load_training_profile(TARGETS[target].framework).support
    tuned = describe_tuning(job.training.tuning)
    partly = (f"{tuned}: the files that are written train everything",) if tuned else ()
    return (*plan_obstacles(support, job.plan), *TARGETS[target].find_obstacles(job), *partly)
