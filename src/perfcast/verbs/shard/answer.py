"""What answers the question of ``perfcast shard``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.verbs.door import asks
from perfcast.verbs.result import shown
from perfcast.verbs.shard.question import ShardQuestion
from perfcast.verbs.shard.result import ShardResult

if TYPE_CHECKING:
    from perfcast.searches.sharding.request import ShardingRequest
    from perfcast.verbs.answer import OnProgress


def request_of(asked: ShardQuestion) -> ShardingRequest:
    """The tables, read, and where they go.

    Raises:
        InputError: A file that holds no tables, unknown names, values that no placement can have.
    """
    from perfcast.catalogs.clusters import load_cluster
    from perfcast.searches.sharding.inputs.index_samples import apply_samples, load_samples
    from perfcast.searches.sharding.inputs.tables import load_tables
    from perfcast.searches.sharding.on_cluster import parse_kinds
    from perfcast.searches.sharding.request import ShardingRequest

    loaded = load_tables(asked.tables)
    if asked.indices is not None:
        loaded = apply_samples(loaded, load_samples(asked.indices))
    return ShardingRequest(
        tables=tuple(loaded),
        cluster=load_cluster(asked.cluster),
        global_batch_size=asked.count("batch_size"),
        optimizer=asked.text("optimizer"),
        memory_share=asked.number("memory_share"),
        kinds=parse_kinds(asked.text("kinds")),
        cost_model=asked.cost_model,
        seed=asked.count("seed"),
    )


def answer(asked: ShardQuestion, *, on_progress: OnProgress | None = None) -> ShardResult:
    """The placement that is asked for.

    Raises:
        InputError: As of ``request_of``; tables that no placement fits.
    """
    from perfcast.searches.sharding.on_cluster import find_sharding

    if on_progress is not None:
        on_progress(None, "placing tables")
    return shown(ShardResult, find_sharding(request_of(asked)), asked)


shard = asks(ShardQuestion, answer, returns="Where every table lies, what its lookups take, and the gain.")
