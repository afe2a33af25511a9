"""What serves: replicas that read prompts and write answers, or one pool for each."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.plan import Plan
from perfcast.errors import PlanError


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal replicas of one model.

    Attributes:
        plan: Of one replica. ``tp`` cuts attention; ``dp`` counts its attention data-parallel ranks, each of
            which has requests, scheduler and cache of its own, while their experts (``ep`` over tp · dp) are
            shared and all step together; a dense model has dp = 1 and replicas instead.
        replicas: Of that.
    """

    plan: Plan
    replicas: int = 1

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise PlanError(f"{self.replicas} replicas: at least one")

    @property
    def num_devices(self) -> int:
        """Of all replicas."""
        return self.plan.world_size * self.replicas

    @property
    def engines_per_replica(self) -> int:
        """Schedulers with a cache of their own."""
        return self.plan.data_parallel


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Every replica reads prompts and writes answers."""

    pool: Pool

    @property
    def num_devices(self) -> int:
        """Of all replicas."""
        return self.pool.num_devices


@dataclass(frozen=True, slots=True)
class Disaggregated:
    """Prompts are read in one pool; their keys and values go to the other, which writes the answers."""

    prefill: Pool
    decode: Pool

    @property
    def num_devices(self) -> int:
        """Of both pools."""
        return self.prefill.num_devices + self.decode.num_devices


Deployment = Aggregated | Disaggregated
