"""``perfcast shard``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.verbs.shard.question import ShardQuestion


@click.command()
@asking(
    ShardQuestion,
    click.argument("tables", metavar="TABLES"),
    click.option("--cluster", required=True, metavar="NAME:N"),
    click.option("--batch-size", type=int, default=65_536, show_default=True),
    click.option("--indices", metavar="FILE"),
    click.option("--optimizer", default="rowwise_adagrad", show_default=True),
    click.option("--kinds", default="row_wise,column_wise,data_parallel", show_default=True),
    click.option("--memory-share", type=float, default=0.8, show_default=True),
    click.option("--cost-model"),
    click.option("--seed", type=int, default=0, show_default=True),
)
@output_options(html=True)
def shard(asked: ShardQuestion, outputs: Outputs) -> None:
    """Place the embedding tables of a recommendation model on a cluster.

    \b
    perfcast shard tables.csv --cluster dgx-h100:16 --html plan.html
    perfcast shard tables.toml --cluster dgx-a100:8 --batch-size 32768 --indices day.npz --json plan.json

    TABLES is a .csv, .json or .toml file with name, num_rows, dim and pooling (mean lookups a sample) of each
    table; dtype, pooling_deviation, reuse_rows and reuse_lookups are optional. An .npz of samples has arrays
    NAME.indices and NAME.offsets, a .parquet columns table, bag and index.
    """
    from perfcast.verbs.shard.answer import answer

    with status("placing tables") as on_progress:
        found = answer(asked, on_progress=on_progress)
    write_result(outputs, found)
