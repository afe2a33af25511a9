"""``perfcast measure kernels``."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfcast.measure.few.run import Progress


@click.command()
@click.option(
    "--device",
    metavar="NAME",
    default="cuda",
    show_default=True,
    help="cuda, cuda:N; or how the GPU here is described: a catalog name or FILE.toml.",
)
@click.option("--quick", is_flag=True, help="The forty that tell most, in five minutes; else all.")
@click.option(
    "--restart", is_flag=True, help="Begin anew; what was measured of this device stays beside (.old)."
)
@click.option("--from", "source", metavar="FILE", help="Take over kernels measured elsewhere (its --json).")
@output_options(html=True)
def kernels(device: str, quick: bool, restart: bool, source: str | None, outputs: Outputs) -> None:
    """Measure kernels of a GPU, and move what 'learned' forecasts for it.

    Each measured kernel tells of those like it: the same operation, format or size, and what this device has
    in common with those that were measured before. Every later forecast for the device takes them into
    account and says so. Ctrl-C loses nothing: the next run measures what is missing.

    For a machine that you cannot sit at: --json FILE there, --from FILE here. 'perfcast calibrate' measures a
    processor, for --device cpu and --cost-model linear; on a GPU its kernels are taken into account here too.
    """
    from perfcast.errors import InputError
    from perfcast.measure.few.answer import MeasureRequest, answer_measurement
    from perfcast.report.documents.measured_kernels import document_of

    if source is not None and (quick or restart):
        raise InputError(
            "--from takes over what was measured elsewhere; it takes no --quick and no --restart"
        )
    place = Path(source) if source is not None else None
    request = MeasureRequest(device=device, quick=quick, restart=restart, source=place)
    with _progress() as progress:
        answer = answer_measurement(request, progress)
    write_answer(
        outputs,
        lambda: document_of(answer),
        answer.to_json,
        written=[str(answer.path)],
        is_exact=True,
    )


def _progress() -> AbstractContextManager[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from perfcast.printer.boxes import visible_console

    @contextmanager
    def shown() -> Iterator[Progress]:
        columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bar(*columns, console=visible_console(is_error=True), transient=True) as bar:
            task = bar.add_task("measuring", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    return shown()
