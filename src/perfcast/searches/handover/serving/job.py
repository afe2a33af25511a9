"""What is handed over: a deployment, and what its engines are told."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from perfcast.catalogs.models import load_models
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Deployment, Pool
from perfcast.errors import InputError, PlanError
from perfcast.prediction.request.serving import EngineOptions

#: Programs that deployments are handed over to.
ServingFramework = Literal["vllm", "sglang", "trtllm"]
#: What a server does: whole requests, or one half of them.
Role = Literal["both", "prefill", "decode"]
_HUB_NAMES = Path(__file__).with_name("hub_names.toml")


@dataclass(frozen=True, kw_only=True)
class ServingJob:
    """One deployment of one model.

    Attributes:
        model: Its name on Hugging Face, or the folder of its weights.
        framework: That serves it.
        engine: What is set of every engine; what is None is left to the framework.
        decode_engine: What is set of those that write, where pools differ; None: the same.
        dtype, kv_cache_dtype: Of weights, and of keys and values, by the names of ``core.formats``.
        has_experts: Whether the model is a mixture of experts.
        longest_tokens: Of a prompt with its answer; None: as many as the model takes.
        reuses_prefixes: Whether keys and values of equal beginnings must be found again.
        devices_per_node: Devices of one host.
    """

    model: str
    deployment: Deployment
    framework: ServingFramework
    engine: EngineOptions = field(default_factory=EngineOptions)
    decode_engine: EngineOptions | None = None
    dtype: str = "bf16"
    kv_cache_dtype: str = "bf16"
    has_experts: bool = False
    longest_tokens: int | None = None
    reuses_prefixes: bool = False
    devices_per_node: int = 8

    def engine_of(self, role: Role) -> EngineOptions:
        """What is set of the engines of a pool."""
        return self.decode_engine if role == "decode" and self.decode_engine is not None else self.engine


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The equal servers of one pool: a replica each, started by one script.

    Attributes:
        role: Of them.
        first_port: Of the first on a host; the others' follow.
        replicas_per_node: On one host; 1 where a replica spans several.
        nodes_per_replica: Hosts of one.
    """

    role: Role
    pool: Pool
    first_port: int
    replicas_per_node: int
    nodes_per_replica: int

    @property
    def plan(self) -> Plan:
        """Of one replica."""
        return self.pool.plan

    @property
    def num_nodes(self) -> int:
        """Hosts of the pool."""
        return -(-self.pool.replicas // self.replicas_per_node) * self.nodes_per_replica

    @property
    def name(self) -> str:
        """Of its files: 'serve', 'prefill' or 'decode'."""
        return "serve" if self.role == "both" else self.role


def servers_of(job: ServingJob, first_port: int) -> tuple[Servers, ...]:
    """The pools of a job, dealt out to hosts.

    Raises:
        PlanError: A replica fills no whole hosts.
    """
    deployment = job.deployment
    pools: dict[Role, Pool] = (
        {"both": deployment.pool}
        if isinstance(deployment, Aggregated)
        else {"prefill": deployment.prefill, "decode": deployment.decode}
    )
    return tuple(_place(role, pool, job.devices_per_node, first_port) for role, pool in pools.items())


def _place(role: Role, pool: Pool, devices_per_node: int, first_port: int) -> Servers:
    devices = pool.plan.world_size
    if devices > devices_per_node and devices % devices_per_node:
        raise PlanError(f"a replica of {devices} devices does not fill hosts of {devices_per_node}")
    return Servers(
        role=role,
        pool=pool,
        first_port=first_port,
        replicas_per_node=min(max(devices_per_node // devices, 1), pool.replicas),
        nodes_per_replica=max(devices // devices_per_node, 1),
    )


@lru_cache(maxsize=1)
def _hub_names() -> Mapping[str, str]:
    names: dict[str, str] = tomllib.loads(_HUB_NAMES.read_text(encoding="utf-8"))["models"]
    return names


def find_hub_name(model: str) -> str:
    """A model's name on Hugging Face, of its name in the catalog, or of the folder of its config.json.

    Raises:
        InputError: None is known.

    >>> find_hub_name("llama3.1-70b")
    'meta-llama/Llama-3.1-70B-Instruct'
    """
    known, models = _hub_names(), load_models()
    entries = (entry.name for entry in models.values() if model in entry.aliases)
    for name in (model, *entries):
        if name in known:
            return known[name]
    path = Path(model)
    if path.name == "config.json":
        return str(path.parent)
    if path.is_dir():
        return str(path)
    raise InputError(
        f"the weights of '{model}' have no known name on Hugging Face: give it with --launch-model, as in "
        "--launch-model meta-llama/Llama-3.1-70B-Instruct"
    )
