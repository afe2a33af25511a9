"""From the options of ``perfcast replay`` to a request."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from perfcast.cli.replay.options import ReplayOptions
    from perfcast.replays.request import PlayOptions, RankOptions, ReplayRequest

#: Measured repetitions where none are asked for, and when no other is begun.
_REPEATS, _MAX_SECONDS = 30, 60.0


def build_request(options: ReplayOptions) -> ReplayRequest:
    """What the options ask for.

    Raises:
        BadParameter: Emulated ranks that are not said as they have to be.
        UnknownNameError: No such cluster.
    """
    from perfcast.replays.build.select import Selection
    from perfcast.replays.fill.fill import FillOptions
    from perfcast.replays.play.limits import DEFAULT_LIMITS
    from perfcast.replays.request import ReplayRequest

    return ReplayRequest(
        traces=options.traces,
        timeline=options.timeline,
        max_bytes=options.max_bytes,
        selection=Selection(
            steps=options.steps,
            module=options.subtree,
            mode=options.only or "all",
            allow=options.allow,
            skip=options.skip,
        ),
        fills=FillOptions(
            reuse_fractions=options.reuse, folder=Path(options.values) if options.values else None
        ),
        batch=options.batch,
        limits=replace(DEFAULT_LIMITS, max_tensor_bytes=options.max_tensor_bytes),
        device=options.device,
        module=options.module,
        num_ranks=options.num_ranks,
        ranks=_rank_options(options),
        play=_play_options(options),
        host_gaps=options.host_gaps,
    )


def _play_options(options: ReplayOptions) -> PlayOptions:
    from perfcast.replays.play.player import Preparation
    from perfcast.replays.request import PlayOptions

    return PlayOptions(
        repeats=_REPEATS if options.repeat is None else options.repeat,
        max_seconds=_MAX_SECONDS if options.repeat is None else math.inf,
        warm_up=options.warm_up,
        preparation=Preparation(options.prepare),
        threads=options.threads,
        profile_path=options.profile_path or "",
    )


def _rank_options(options: ReplayOptions) -> RankOptions:
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.replays.request import RankOptions

    cluster, world_size = None, options.world_size
    if options.emulate:
        name, _, count = options.emulate.rpartition(":")
        if not re.fullmatch(r"\d{1,7}", count):
            raise click.BadParameter("'[CLUSTER]:RANKS', such as dgx-h100:64 or :64", param_hint="--emulate")
        cluster, world_size = (cluster_by_name(options.emulate, None) if name else None), int(count)
    return RankOptions(
        backend=options.backend,
        is_blocking=options.blocking,
        world_size=world_size,
        cluster=cluster,
        is_emulated=bool(options.emulate),
        is_rebalanced=options.rebalance,
    )
