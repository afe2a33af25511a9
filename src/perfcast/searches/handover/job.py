"""What is handed over: a plan, and all that it was made for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import layers_of_parts
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.frameworks.load import load_training_profile

#: Level of a cluster whose members share a host, and one launcher.
_HOST_LEVEL = "node"
#: Devices of one host where the catalog's levels are racks. NVIDIA, GB200 NVL72 datasheet (2024) and GB300
#: NVL72 datasheet (2025): 18 compute trays of two boards, each with two GPUs. Others: catalogs/data/clusters.
_DEVICES_PER_HOST = {"gb200": 4, "gb300": 4, "rubin": 4, "mi455x": 4, "trainium3": 4}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training.

    Attributes:
        name: Of the model.
        devices_per_node: Devices that one launcher starts ranks for.
    """

    plan: Plan
    name: str
    model: Transformer
    training: Training
    sequence_length: int
    cluster: Cluster
    devices_per_node: int

    @property
    def num_nodes(self) -> int:
        """Hosts of the job."""
        return self.plan.world_size // self.devices_per_node

    @property
    def layers_of_parts(self) -> tuple[int, ...]:
        """Layers of each part of the model, as they were forecast: part c · pp + s is chunk c of stage s."""
        profile = load_training_profile(self.training.framework)
        return layers_of_parts(self.model, self.plan, balances_head=profile.balances_stages)


def count_devices_per_node(cluster: Cluster) -> int:
    """Devices of one host of a cluster.

    Raises:
        PlanError: The cluster does not say which devices share a host.

    >>> from perfcast.catalogs.clusters import load_cluster
    >>> count_devices_per_node(load_cluster("dgx-h100:64"))
    8
    """
    count = 1
    for level in cluster.levels:
        count *= level.size
        if level.name == _HOST_LEVEL:
            return count
    if cluster.device in _DEVICES_PER_HOST:
        return min(_DEVICES_PER_HOST[cluster.device], cluster.num_devices)
    raise PlanError(
        f"cluster '{cluster.name}' has no level named '{_HOST_LEVEL}': say how many devices a host has"
    )


def check_job(job: Job) -> None:
    """Whether the plan takes the whole cluster, in whole hosts.

    Raises:
        PlanError: It does not; the message states the equation.
    """
    world, devices = job.plan.world_size, job.cluster.num_devices
    if world != devices:
        raise PlanError(f"a plan for {world} devices, but {job.cluster.name} has {devices}")
    if job.devices_per_node < 1 or world % job.devices_per_node:
        raise PlanError(f"{world} devices do not fill hosts of {job.devices_per_node}")


def spoken(checks: Iterable[tuple[bool, str]]) -> tuple[str, ...]:
    """What holds, of (whether it holds, what it says).

    >>> spoken([(True, "a"), (False, "b")])
    ('a',)
    """
    return tuple(text for holds, text in checks if holds)
