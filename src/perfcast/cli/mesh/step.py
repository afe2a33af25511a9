"""``perfcast mesh step``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.options.numbers import Whole
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.progress import status
from perfcast.ranges import BATCH, LAUNCHED, TOKENS_OF_SEQUENCE

if TYPE_CHECKING:
    from perfcast.core.mode import Mode


@click.command(name="step")
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--ranks", type=Whole(LAUNCHED), default=2, show_default=True, help="Processes to launch here.")
@click.option("--mesh", default="", help="Axes, the slowest first, as in dp=2,tp=2; default: one, world.")
@click.option("--discover", is_flag=True, help="Find the mesh from pairs of ranks instead.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--mode", type=click.Choice(["train", "prefill"]), default="train", show_default=True)
@click.option("--batch-size", type=Whole(BATCH), help="Of each rank; default: 1, of the own models 8.")
@click.option("--sequence-length", type=Whole(TOKENS_OF_SEQUENCE), help="Default: the model's own.")
@click.option("--forecast-only", is_flag=True, help="Do not run the steps.")
@click.option("--quick", is_flag=True, help="A third of the kernels; coarser lines.")
@click.option("--restart", is_flag=True, help="Begin anew; what was measured stays beside (.old).")
@output_options(html=True)
def step(
    models: tuple[str, ...],
    ranks: int,
    mesh: str,
    discover: bool,
    device: str,
    mode: Mode,
    batch_size: int | None,
    sequence_length: int | None,
    forecast_only: bool,
    quick: bool,
    restart: bool,
    outputs: Outputs,
) -> None:
    """Forecast steps on processes of this machine by measured lines, and measure them beside it.

    The whole of the published cost model of automatic parallelism: kernels are measured while all ranks are
    at work and fitted by lines, collectives along each axis of the mesh too, memory is counted operator by
    operator, and the sum is held against the same step, really run.

    MODEL is a catalog name, a config.json, timm:NAME or FILE.py:FUNCTION; a program that is not parallel
    itself is wrapped in DistributedDataParallel. Without any, four small programs are tried: perceptron,
    convolutions, decoder, tensor_parallel. Whatever ends it loses nothing: the next run measures what is
    missing.
    """
    from perfcast.measure.collectives.plan import parse_mesh
    from perfcast.published.mesh_cost_model.here import MeshStepRequest, forecast_here
    from perfcast.report.documents.mesh.step import document_of

    request = MeshStepRequest(
        models=models, num_ranks=ranks, mesh=parse_mesh(mesh), discovers=discover, device=device, mode=mode,
        batch_size=batch_size, sequence_length=sequence_length, measures=not forecast_only, quick=quick,
        restart=restart,
    )  # fmt: skip
    with status("measuring this machine") as on_progress:
        answer = forecast_here(request, on_progress)
    write_answer(outputs, lambda: document_of(answer), answer.to_json)
