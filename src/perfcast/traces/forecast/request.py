"""What is asked of recorded steps: elsewhere, of another batch, changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfcast.core.machine.cluster import Cluster
from perfcast.traces.events import Trace
from perfcast.traces.forecast.eager_kernels import VendorKernels
from perfcast.traces.forecast.ratios import Side
from perfcast.traces.forecast.what_if import Changes
from perfcast.traces.overheads.profile import OverheadProfile
from perfcast.traces.scaling.recorded.read import RecordedCalls


@dataclass(frozen=True)
class SecondRecording:
    """All ranks of the same program with another batch.

    Attributes:
        plain_seconds: As in ``TraceForecastRequest``.
    """

    traces: Sequence[Trace]
    batch: int
    plain_seconds: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TraceForecastRequest:
    """What is asked.

    Attributes:
        before, after: Recorded and wanted device with what prices them; None: devices stay.
        batch: (recorded, wanted) batch; None: as recorded.
        cluster: Links that collectives run over; None: collectives stay as recorded.
        world_size: Ranks of collectives on it; None: as recorded.
        kernels: Constants of eager kernels by vendor, for another device; None: the shipped ones.
        host, recorded_host: Processors of the wanted and the recorded machine beside another device, as
            ``cost.host.processors`` names them; None: what machines with the device usually have.
        profile: Another host's overheads; None: the recorded ones.
        changes: See ``what_if``.
        plain_seconds: Rank → step without recording, where that was timed: steps are forecast without what
            recording costs a processor.
        plain_steps: Rank → each of those steps: how far steps differ.
        calls: Rank → what was called with which tensors, where an execution trace stands beside the
            recording; other ranks' tensors are told from each other by their sizes.
        second: The same program on a processor with another batch: no prices, but lines through both.
        steps: Numbers of the marked steps to take, which follow each other; None: all.
    """

    before: Side | None = None
    after: Side | None = None
    batch: tuple[int, int] | None = None
    cluster: Cluster | None = None
    world_size: int | None = None
    kernels: Mapping[str, VendorKernels] | None = None
    host: str | None = None
    recorded_host: str | None = None
    profile: OverheadProfile | None = None
    changes: Changes = field(default_factory=Changes)
    plain_seconds: Mapping[int, float] = field(default_factory=dict)
    plain_steps: Mapping[int, Sequence[float]] = field(default_factory=dict)
    calls: Mapping[int, RecordedCalls] = field(default_factory=dict)
    second: SecondRecording | None = None
    steps: Sequence[int] | None = None
