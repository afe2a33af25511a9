"""What ``perfcast replay`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from perfcast.ranges import DEVICES, PROCESSES, REPEATS, THREADS_OR_ALL
from perfcast.verbs.question import PLACE, Question, usually, within

Only = Literal["compute", "communication"]
PrepareWord = Literal["auto", "ahead", "lazily"]
GapsWord = Literal["off", "recorded", "scaled"]
BackendWord = Literal["gloo", "nccl"]


@dataclass(frozen=True, kw_only=True)
class ReplayQuestion(Question):
    """A recorded step run again, and how well it behaves like the original.

    Attributes:
        traces: Execution traces, archives of several, or folders that 'perfcast trace record' wrote.
        timeline: The profiler's timeline of the same run.
        steps: Places of marked steps, from 0; default: all.
        subtree: Only what ran under labels that hold NAME, and the backward of it.
        only: Default: both.
        allow: Only these: 'aten::*mm'.
        skip: Not these.
        batch_size: Play another batch size: the recorded and the wanted one.
        values: Recorded tensors (nid_*_tid_*.dat); default: NAME_resources beside TRACE, if there.
        reuse: Of the rows that embeddings look up: shares looked up 1, 2, 3-4, 5-8, … times, as 5,2,1.
        module: Of yours: registers custom operators.
        run_triton: Run the saved sources of Triton kernels: code that lies beside TRACE, in NAME_resources.
        max_bytes: Unpacked bytes of one file beyond which reading is given up.
        max_tensor_bytes: Largest tensor that a trace may ask for.
        device: 'cpu' or 'cuda:0'; default: where it was recorded.
        repeat: Measured repetitions; default: 30, fewer where they take over a minute; 0 with --generate only
            generates.
        warm_up: Before those.
        host_gaps: Keep the host busy between calls: as long as recorded, or in proportion to the calls.
        prepare: Given tensors: all ahead, or each when first needed and only until its last use.
        threads: Of operators; default: PyTorch's.
        ranks: Processes here; default: one a trace.
        backend: Of collectives.
        blocking: Wait for every collective at once.
        world_size: Recompute splits and sizes for so many ranks.
        rebalance: All ranks send the same in all-to-alls.
        emulate: Ranks that are not there only take their time.
        profile: Timeline of the replay (JSON).
    """

    verb: ClassVar[str] = "replay"
    arguments: ClassVar[tuple[str, ...]] = ("traces",)
    written: ClassVar[tuple[str, ...]] = ("profile",)
    is_measured: ClassVar[bool] = True

    traces: tuple[str, ...] | str = field(metadata=PLACE, kw_only=False)
    timeline: str | None = field(default=None, metadata=PLACE)
    steps: str | None = None
    subtree: str | None = field(default=None, metadata=usually(""))
    only: Only | None = None
    allow: tuple[str, ...] | str = ()
    skip: tuple[str, ...] | str = ()
    batch_size: str | None = None
    values: str | None = field(default=None, metadata=PLACE)
    reuse: str | None = field(default=None, metadata=usually(""))
    module: str | None = field(default=None, metadata=usually("", is_place=True))
    run_triton: bool = False
    max_bytes: str | None = field(default=None, metadata=usually("2GiB"))
    max_tensor_bytes: str | None = field(default=None, metadata=usually("16GiB"))
    device: str | None = None
    repeat: int | None = field(default=None, metadata=within(REPEATS))
    warm_up: int | None = field(default=None, metadata=usually(5, within=REPEATS))
    host_gaps: GapsWord | None = field(default=None, metadata=usually("off"))
    prepare: PrepareWord | None = field(default=None, metadata=usually("auto"))
    threads: int | None = field(default=None, metadata=usually(0, within=THREADS_OR_ALL))
    ranks: int | None = field(default=None, metadata=within(PROCESSES))
    backend: BackendWord | None = field(default=None, metadata=usually("gloo"))
    blocking: bool = False
    world_size: int | None = field(default=None, metadata=within(DEVICES))
    rebalance: bool = False
    emulate: str | None = None
    profile: str | None = field(default=None, metadata=PLACE)
