"""What is asked of a replay: which recordings, what of them, and how it is played."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfcast.core.machine.cluster import Cluster
from perfcast.measure.collectives.plan import Backend
from perfcast.replays.build.select import Selection
from perfcast.replays.fill.fill import FillOptions
from perfcast.replays.judge.host_gaps import HostGaps
from perfcast.replays.play.limits import DEFAULT_LIMITS, ReplayLimits
from perfcast.replays.play.played import Preparation
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """How a rank's program is played.

    Attributes:
        repeats: Measured repetitions.
        warm_up: Repetitions before those.
        max_seconds: No repetition begins later, but for a few; ranks that play together ignore it, since
            they have to play equally often.
        threads: Threads of operators; 0 leaves it to PyTorch.
        profile_path: Where the timeline of the replay is written; '' nowhere.
    """

    repeats: int = 30
    warm_up: int = 5
    preparation: Preparation = Preparation.AUTO
    max_seconds: float = math.inf
    threads: int = 0
    profile_path: str = ""


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """How a program fits the ranks that are there, and how these meet in collectives.

    Attributes:
        is_blocking: Every collective is waited for at once.
        world_size: Ranks of what is played; ``None``: as many as there are, or as recorded where a rank is
            alone or others are emulated.
        cluster: Whose forecast emulated collectives take; ``None`` takes the recorded times.
        is_emulated: Collectives with ranks that are not there only take time; otherwise they are an error.
            A process that is alone, without asking for it, takes no time for those whose own is not known.
        is_rebalanced: Every rank sends and receives the same in all-to-alls.
    """

    backend: Backend = "gloo"
    is_blocking: bool = False
    world_size: int | None = None
    cluster: Cluster | None = None
    is_emulated: bool = False
    is_rebalanced: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """A replay as it was asked for; built once, passed whole.

    Attributes:
        traces: Execution traces, archives of several, or folders that a recording wrote: played one after
            the other, or each by a rank of its own where ``num_ranks`` says as many.
        timeline: The timeline recorded with the only trace; ``None``: there is none, or it lies in a folder.
        max_bytes: Unpacked bytes of one file beyond which reading is given up.
        selection: What of the traces is played.
        fills: What given tensors hold; without a folder, values that were recorded beside a trace.
        batch: Recorded and wanted batch size; ``None``: as recorded.
        limits: Bounds on memory, and the namespaces whose operators are called beside those of ``module``.
        device: 'cpu', 'cuda:0'; ``None``: where it was recorded.
        module: A Python file of the user's that registers operators; '' for none.
        runs_kernels: Whether saved sources of generated kernels, code that lies beside a trace, may be run.
        num_ranks: Processes that play together; ``None``: one for each recorded rank.
        host_gaps: What is done with the host's own time between calls.
    """

    traces: tuple[str, ...]
    timeline: str | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    selection: Selection = Selection()  # noqa: RUF009 (frozen)
    fills: FillOptions = FillOptions()  # noqa: RUF009 (frozen)
    batch: tuple[int, int] | None = None
    limits: ReplayLimits = DEFAULT_LIMITS
    device: str | None = None
    module: str = ""
    runs_kernels: bool = False
    num_ranks: int | None = None
    ranks: RankOptions = RankOptions()
    play: PlayOptions = PlayOptions()
    host_gaps: HostGaps = "off"
