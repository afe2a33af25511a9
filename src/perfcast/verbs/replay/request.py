"""From the question of ``perfcast replay`` to the request that it asks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from perfcast.core.embedding.lookup import NUM_REUSE_BINS
from perfcast.core.words import known_word
from perfcast.errors import QuestionError
from perfcast.files.limits import parse_size
from perfcast.verbs.question import each
from perfcast.verbs.replay.question import BackendWord, GapsWord, Only, PrepareWord, ReplayQuestion
from perfcast.verbs.shared.recordings import parse_steps

if TYPE_CHECKING:
    from perfcast.replays.request import PlayOptions, RankOptions, ReplayRequest

#: Measured repetitions where none are asked for, and when no other is begun.
_REPEATS, _MAX_SECONDS = 30, 60.0


def request_of(asked: ReplayQuestion) -> ReplayRequest:
    """What is asked.

    Raises:
        QuestionError: Texts that say no such thing, options that do not go together.
        UnknownNameError: No such cluster.
    """
    from perfcast.replays.build.select import Selection
    from perfcast.replays.fill.fill import FillOptions
    from perfcast.replays.play.limits import DEFAULT_LIMITS
    from perfcast.replays.request import ReplayRequest

    traces = each(asked.traces)
    if asked.values and not Path(asked.values).is_dir():
        raise QuestionError(f"--values: '{asked.values}' is no folder")
    if asked.timeline and len(traces) > 1:
        raise QuestionError("--timeline is of one TRACE, not of several")
    steps = parse_steps("--steps", asked.steps)
    most_bytes = parse_size("--max-tensor-bytes", asked.text("max_tensor_bytes"))
    return ReplayRequest(
        traces=traces,
        timeline=asked.timeline,
        max_bytes=parse_size("--max-bytes", asked.text("max_bytes")),
        selection=Selection(
            steps=None if steps is None else (steps[0], steps[-1]),
            module=asked.text("subtree"),
            mode="all" if asked.only is None else known_word("part", asked.only, get_args(Only)),
            allow=_patterns(each(asked.allow)),
            skip=_patterns(each(asked.skip)),
        ),
        fills=FillOptions(
            reuse_fractions=_shares(asked.text("reuse")), folder=Path(asked.values) if asked.values else None
        ),
        batch=_batches(asked.batch_size),
        limits=replace(DEFAULT_LIMITS, max_tensor_bytes=most_bytes),
        device=asked.device,
        module=asked.text("module"),
        runs_kernels=asked.run_triton,
        num_ranks=asked.ranks,
        ranks=_rank_options(asked),
        play=_play_options(asked),
        host_gaps=known_word("host gaps", asked.text("host_gaps"), get_args(GapsWord)),
    )


def _batches(text: str | None) -> tuple[int, int] | None:
    """'FROM:TO'."""
    match = re.fullmatch(r"([1-9]\d{0,8}):([1-9]\d{0,8})", text or "")
    if text is not None and match is None:
        raise QuestionError(f"--batch-size: '{text}': the recorded and the wanted batch size, such as 32:64")
    return (int(match[1]), int(match[2])) if match else None


def _patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns of operators; commas part several."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


def _shares(text: str) -> tuple[float, ...]:
    """'5,2,1' as parts of a whole."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > NUM_REUSE_BINS or not all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", word) for word in words):
        raise QuestionError(
            f"--reuse: '{text}': up to {NUM_REUSE_BINS} numbers with commas between, as 5,2,1"
        )
    total = sum(map(float, words))
    if words and not total:
        raise QuestionError("--reuse: the shares are all 0")
    missing = (0.0,) * (NUM_REUSE_BINS - len(words))
    return (*(float(word) / total for word in words), *missing) if words else ()


def _play_options(asked: ReplayQuestion) -> PlayOptions:
    from perfcast.replays.play.played import Preparation
    from perfcast.replays.request import PlayOptions

    return PlayOptions(
        repeats=_REPEATS if asked.repeat is None else asked.repeat,
        max_seconds=_MAX_SECONDS if asked.repeat is None else math.inf,
        warm_up=asked.count("warm_up"),
        preparation=Preparation(known_word("way to prepare", asked.text("prepare"), get_args(PrepareWord))),
        threads=asked.count("threads"),
        profile_path=asked.profile or "",
    )


def _rank_options(asked: ReplayQuestion) -> RankOptions:
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.replays.request import RankOptions

    cluster, world_size = None, asked.world_size
    if asked.emulate:
        name, _, count = asked.emulate.rpartition(":")
        if not re.fullmatch(r"\d{1,7}", count):
            raise QuestionError("--emulate: '[CLUSTER]:RANKS', such as dgx-h100:64 or :64")
        cluster, world_size = (cluster_by_name(asked.emulate, None) if name else None), int(count)
    return RankOptions(
        backend=known_word("backend", asked.text("backend"), get_args(BackendWord)),
        is_blocking=asked.blocking,
        world_size=world_size,
        cluster=cluster,
        is_emulated=bool(asked.emulate),
        is_rebalanced=asked.rebalance,
    )
