"""What ``perfcast mesh cost`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfcast.ranges import DEVICES
from perfcast.verbs.question import FILE, PLACE, Question, usually, within


@dataclass(frozen=True, kw_only=True)
class MeshCostQuestion(Question):
    """A collective on axes of a mesh, from the cluster's datasheet.

    Attributes:
        cluster: Name, NAME:N or file.toml:N; see catalog clusters.
        mesh: Axes, the slowest first, as in dp=8,tp=8; default: one, world.
        collective: all_reduce, all_gather, all_to_all, send …
        bytes: 1GB, 512MiB, or a range by powers of two.
        axes: Comma-separated axes that form the group; default: all.
        algorithm: nccl (its choice), best, or one by name.
        groups: Groups at once; default: all groups of the axes.
        profile: A measured profile to draw beside the forecast.
        network: Simulate flows too: star, fat-tree:radix=64,oversubscription=2, …
        fail: With --network: a link that is down.
    """

    verb: ClassVar[str] = "mesh cost"

    cluster: str = field(metadata=FILE)
    mesh: str | None = field(default=None, metadata=usually(""))
    collective: str
    bytes: str | None = field(default=None, metadata=usually("1KB..1GB"))
    axes: str | None = field(default=None, metadata=usually(""))
    algorithm: str | None = field(default=None, metadata=usually("nccl"))
    groups: int | None = field(default=None, metadata=within(DEVICES))
    profile: str | None = field(default=None, metadata=PLACE)
    network: str | None = None
    fail: tuple[str, ...] | str = ()
