"""One deployment under one load: a row of the columns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, SaturatedLoad
from perfcast.core.serving.steady import EngineColumns, LoadColumns, SteadyState
from perfcast.errors import InputError
from perfcast.simulate.closed_form.serving.ranks import alone_share
from perfcast.simulate.closed_form.serving.steady import steady_columns
from perfcast.simulate.closed_form.serving.tandem import tandem_columns
from perfcast.simulate.closed_form.serving.work import RequestWork, work_of
from perfcast.simulate.serving.play import Engines, KVTransfer


def steady_state(
    load: Load,
    prompts: Lengths,
    answers: Lengths,
    engines: Engines | tuple[Engines, Engines],
    *,
    transfer: KVTransfer | None = None,
    request_seconds: float = 0.0,
    prefix_hit_share: float = 0.0,
    num_requests: float = math.inf,
) -> SteadyState:
    """The steady state of one deployment, columns of one row.

    Args:
        transfer: Between two pools; None: at once.
        request_seconds: From a client to an engine's queue.
        prefix_hit_share: Of a prompt's tokens, those whose keys and values are there already.
        num_requests: That a benchmark sends, its first wave included; infinite: what lasts.

    Raises:
        InputError: A recorded load (take the mean rate of its requests); prompts that are never cut and
            longer than a step; a transfer with one pool.
    """
    columns = _load_of(load, num_requests)
    one = engines[-1] if isinstance(engines, tuple) else engines
    work = work_of(
        prompts,
        answers,
        prefix_hit_share=prefix_hit_share,
        tokens_per_step=1.0 if one.speculation is None else one.speculation.tokens_per_step,
    )
    if isinstance(engines, tuple):
        seconds = (transfer or KVTransfer()).seconds(round(prompts.mean_tokens))
        return tandem_columns(
            columns, prompts, answers, columns_of(engines[0]), columns_of(engines[1]),
            transfer_seconds=seconds, request_seconds=request_seconds, prefix_hit_share=prefix_hit_share,
        )  # fmt: skip
    if transfer is not None:
        raise InputError("keys and values are transferred between two pools; there is one")
    return steady_columns(
        columns,
        prompts,
        answers,
        _shared(work, columns_of(engines)),
        request_seconds=request_seconds,
        prefix_hit_share=prefix_hit_share,
    )


def _shared(work: RequestWork, columns: EngineColumns) -> EngineColumns:
    """With what is left of a longer step where one rank reads alone."""
    most = float(columns.max_step_tokens[0] / work.new_tokens)
    return replace(columns, alone_share=alone_share(work, columns.times, int(columns.ranks), most))


def _load_of(load: Load, num_requests: float) -> LoadColumns:
    several = _column(num_requests)
    if isinstance(load, ClosedLoad):
        return LoadColumns("closed", _column(load.concurrency), several)
    if isinstance(load, OpenLoad):
        return LoadColumns("open", _column(load.requests_per_second), several, load.burstiness)
    if isinstance(load, SaturatedLoad):
        return LoadColumns("saturated", _column(1.0), several)
    raise InputError("a recorded load has no steady state: give the mean rate of its requests")


def columns_of(engines: Engines) -> EngineColumns:
    """A pool as one row."""
    pool, scheduling = engines.pool, engines.scheduling
    ranks = pool.engines_per_replica
    return EngineColumns(
        times=engines.times,
        policy=scheduling.policy,
        engines=_column(pool.replicas * ranks),
        max_sequences=_column(scheduling.max_sequences),
        max_step_tokens=_column(scheduling.max_step_tokens),
        kv_tokens=_column(scheduling.kv_tokens),
        ranks=ranks,
        chunks_prompts=scheduling.chunks_prompts,
        block_tokens=scheduling.block_tokens,
        schedules_ahead=scheduling.schedules_ahead,
        polls_every_steps=scheduling.polls_every_steps,
        speculation=engines.speculation,
    )


def _column(value: float) -> Floats:
    return np.array([float(value)])
