"""``perfcast shard``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_answer

if TYPE_CHECKING:
    from perfcast.searches.sharding.on_cluster import ShardingReport


@click.command()
@click.argument("tables", metavar="TABLES")
@click.option("--cluster", "cluster_name", required=True, metavar="NAME:N", help="And how many devices.")
@click.option(
    "--batch-size", type=int, default=65_536, show_default=True, help="Samples of a step, over all devices."
)
@click.option("--indices", metavar="FILE", help="Samples of indices (.npz, .parquet): pooling and reuse.")
@click.option(
    "--optimizer", default="rowwise_adagrad", show_default=True, help="sgd, adagrad or rowwise_adagrad."
)
@click.option(
    "--kinds",
    default="row_wise,column_wise,data_parallel",
    show_default=True,
    help="Ways of sharding that are allowed; table_wise always is.",
)
@click.option(
    "--memory-share", type=float, default=0.8, show_default=True, help="Of a device, that tables may fill."
)
@click.option(
    "--cost-model", help="heuristic (GPUs) or learned (processors); default: what suits the device."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random baseline and intervals.")
@output_options(html=True)
def shard(
    tables: str,
    cluster_name: str,
    batch_size: int,
    indices: str | None,
    optimizer: str,
    kinds: str,
    memory_share: float,
    cost_model: str | None,
    seed: int,
    outputs: Outputs,
) -> None:
    """Place the embedding tables of a recommendation model on a cluster.

    \b
    perfcast shard tables.csv --cluster dgx-h100:16 --html plan.html
    perfcast shard tables.toml --cluster dgx-a100:8 --batch-size 32768 --indices day.npz --json plan.json

    TABLES is a .csv, .json or .toml file with name, num_rows, dim and pooling (mean lookups a sample) of each
    table; dtype, pooling_deviation, reuse_rows and reuse_lookups are optional. An .npz of samples has arrays
    NAME.indices and NAME.offsets, a .parquet columns table, bag and index.
    """
    from perfcast.catalog.clusters import load_cluster
    from perfcast.searches.sharding.inputs.index_samples import apply_samples, load_samples
    from perfcast.searches.sharding.inputs.tables import load_tables
    from perfcast.searches.sharding.on_cluster import find_sharding, parse_kinds
    from perfcast.searches.sharding.request import ShardingRequest

    loaded = load_tables(tables)
    if indices is not None:
        loaded = apply_samples(loaded, load_samples(indices))
    request = ShardingRequest(
        tables=tuple(loaded),
        cluster=load_cluster(cluster_name),
        global_batch_size=batch_size,
        optimizer=optimizer,
        memory_share=memory_share,
        kinds=parse_kinds(kinds),
        cost_model=cost_model,
        seed=seed,
    )
    _write(find_sharding(request), outputs)


def _write(found: ShardingReport, outputs: Outputs) -> None:
    from perfcast.report.data.shard import data_of
    from perfcast.report.documents.shard import document_of

    write_answer(outputs, lambda: document_of(found), lambda: data_of(found))
