"""What ``perfcast trace forecast`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfcast.ranges import BATCH, DEVICES
from perfcast.verbs.question import FILE, PLACE, Question, usually, within


@dataclass(frozen=True, kw_only=True)
class TraceForecastQuestion(Question):
    """Recorded steps elsewhere, or changed.

    Attributes:
        traces: Recordings of PyTorch's profiler, one for each rank, or an archive of all ranks.
        device: Another device; see 'perfcast catalog devices'.
        recorded_device: Where it was recorded, if the file does not say.
        cost_model: What prices devices: learned (default), roofline, linear (cpu).
        dtype: tf32: products of fp32 tensors run in TF32.
        batch_size: Another batch, of one rank; needs --recorded-batch-size.
        recorded_batch_size: First dim of the recorded inputs.
        second: The same program recorded with another batch (repeat for every rank), on a processor: each
            operator on a line through both; needs --second-batch-size.
        second_batch_size: Of --second.
        cluster: Price collectives on this cluster.
        world_size: Ranks of its collectives; default: as recorded.
        host: Processor of the machine with --device: fast, slow, or one such as epyc-9654; default: what
            machines with the device usually have.
        recorded_host: That of the recorded machine.
        overheads: Host overheads of another host, or of other steps, from 'trace overheads'.
        what_if: speed:NAME=K (operators, kernels K times faster), host=K, communication=K, overlap, graphs;
            repeatable.
        steps: Numbers of marked steps, such as 3:5 (both included); default: all.
        max_bytes: Unpacked bytes of one file beyond which reading is given up.
    """

    verb: ClassVar[str] = "trace forecast"
    arguments: ClassVar[tuple[str, ...]] = ("traces",)

    traces: tuple[str, ...] = field(metadata=PLACE, kw_only=False)
    device: str | None = field(default=None, metadata=FILE)
    recorded_device: str | None = field(default=None, metadata=FILE)
    cost_model: str | None = field(default=None, metadata=FILE)
    dtype: str | None = None
    batch_size: int | None = field(default=None, metadata=within(BATCH))
    recorded_batch_size: int | None = field(default=None, metadata=within(BATCH))
    second: tuple[str, ...] = field(default=(), metadata=PLACE)
    second_batch_size: int | None = field(default=None, metadata=within(BATCH))
    cluster: str | None = field(default=None, metadata=FILE)
    world_size: int | None = field(default=None, metadata=within(DEVICES))
    host: str | None = None
    recorded_host: str | None = None
    overheads: str | None = field(default=None, metadata=PLACE)
    what_if: tuple[str, ...] = ()
    steps: str | None = None
    max_bytes: str | None = field(default=None, metadata=usually("2GiB"))
