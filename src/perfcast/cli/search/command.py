"""``perfcast search``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.cli.search.hand_over import check_hand_over, write_hand_over
from perfcast.cli.search.launch import check_search_launch, write_launch
from perfcast.cli.search.options import search_options
from perfcast.verbs.search.question import SearchQuestion

if TYPE_CHECKING:
    from perfcast.verbs.search.answer import SearchFound


@click.command()
@search_options
@output_options(html=True, fit=True)
def search(
    asked: SearchQuestion,
    output: str | None,
    launch: str | None,
    launch_model: str | None,
    outputs: Outputs,
) -> None:
    """Find the best plan of MODEL on a cluster, and say why it wins.

    \b
    perfcast search llama3-70b --cluster dgx-h100:512 --global-batch-size 1024
    perfcast search llama3-70b --cluster dgx-h100:16 --mode decode --max-tpot 50ms
    perfcast search llama3-70b --cluster dgx-h100:16 --mode serving --input-length 8192 --output-length 1024
    perfcast search gpt2 llama3-8b --cluster dgx-h100:64,mi300x:64 --global-batch-size 256,512 --backend ray

    MODEL is a catalog name, or a Hugging Face config.json or its folder. Several models, batches or sequence
    lengths, --backend ray and --store make a sweep: every cell's best plans, kept until the next run.
    """
    from perfcast.verbs.search.answer import answer, check_search

    check_search(asked)
    if asked.is_sweep and outputs.draws:
        raise click.UsageError("a sweep is of training, and written as a table or with --json")
    if output is not None and (asked.is_sweep or asked.search_mode != "train"):
        raise click.UsageError("--output: of --hand-over, of a single search for training")
    check_search_launch(asked, launch, launch_model)
    check_hand_over(asked.hand_over, output)
    with status("searching") as on_progress:
        found = answer(asked, on_progress=on_progress)
    write_result(outputs, found, said=_write_further(found, output, launch, launch_model))


def _write_further(
    found: SearchFound, output: str | None, launch: str | None, launch_model: str | None
) -> tuple[str, ...]:
    """Files for those who run what was found; lines that say so."""
    from perfcast.verbs.search.result import DeploymentsFound, PlansFound

    if isinstance(found, PlansFound) and isinstance(found.question, SearchQuestion):
        target = found.question.hand_over
        return write_hand_over(found, target, output) if target and output else ()
    if isinstance(found, DeploymentsFound) and launch is not None:
        return write_launch(found, launch, launch_model)
    return ()
