"""Ranks that a launcher has started: torchrun's variables, or Slurm's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.errors import InputError
from perfcast.ranges import excerpt

_DEFAULT_PORT = 29400
_FIRST_SLURM_PORT, _SLURM_PORTS = 20_000, 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """This process among those that a launcher started.

    Attributes:
        init_method: Where the ranks meet, as ``torch.distributed`` takes it.
        launcher: 'torchrun' or 'Slurm'.
    """

    rank: int
    world_size: int
    local_rank: int
    init_method: str
    launcher: str


def find_place(environment: Mapping[str, str]) -> Place | None:
    """This process's place; None where no launcher is at work.

    Slurm's variables count within a step (``srun``) alone: a batch script has them too, but is one process.

    Raises:
        InputError: Variables that are missing or contradict each other.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        host = environment.get("MASTER_ADDR", "127.0.0.1")
        port = _count(environment, "MASTER_PORT", _DEFAULT_PORT)
        return _checked(environment, "RANK", "WORLD_SIZE", "LOCAL_RANK", f"tcp://{host}:{port}", "torchrun")
    if "SLURM_PROCID" in environment and "SLURM_STEP_NODELIST" in environment:
        host = environment.get("MASTER_ADDR") or first_host(environment["SLURM_STEP_NODELIST"])
        job = _count(environment, "SLURM_JOB_ID", 0)
        port = _count(environment, "MASTER_PORT", _FIRST_SLURM_PORT + job % _SLURM_PORTS)
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
        return _checked(environment, *names, f"tcp://{host}:{port}", "Slurm")
    return None


def first_host(node_list: str) -> str:
    """``'gpu[007-010,12],login1'`` → ``'gpu007'``.

    Raises:
        InputError: Not a node list.
    """
    match = re.match(r"^([\w.-]+)(?:\[(\d+)[^\]]*\]([\w.-]*))?", node_list)
    if match is None:
        raise InputError(f"SLURM_STEP_NODELIST: '{node_list}' is not a list of nodes; set MASTER_ADDR")
    return match[1] + (match[2] or "") + (match[3] or "")


def _checked(
    environment: Mapping[str, str], rank: str, world: str, local: str, method: str, launcher: str
) -> Place:
    place = Place(
        rank=_count(environment, rank),
        world_size=_count(environment, world),
        local_rank=_count(environment, local, 0),
        init_method=method,
        launcher=launcher,
    )
    if place.rank >= place.world_size:
        raise InputError(f"{rank}={place.rank} is not below {world}={place.world_size}")
    return place


def _count(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name)
    if text is None and default is not None:
        return default
    if text is None or not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"{name} is {excerpt(text)}; expected a count, as the launcher sets it")
    return int(text)
