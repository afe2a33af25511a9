"""``perfcast calibrate``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.places import OUTPUT_DOCUMENT
from perfcast.cli.output import Outputs, write_answer
from perfcast.cli.progress import status

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--quick", is_flag=True, help="A third of the measurements; a coarser fit.")
@click.option("--restart", is_flag=True, help="Begin anew; what was measured stays beside (.old).")
@click.option(
    "--html", type=OUTPUT_DOCUMENT, metavar="FILE", help="Every measured point and fitted line, as one page."
)
def calibrate(device: str, quick: bool, restart: bool, html: str | None) -> None:
    """Measure this machine's kernels and fit a profile of it, for --device cpu and --cost-model linear.

    Takes some minutes. Whatever ends it loses nothing: the next run measures what is missing, and families
    whose measurements made no line.
    """
    from perfcast.measure.calibrate import calibrate as run_calibration
    from perfcast.measure.calibrate import load_measurements
    from perfcast.measure.store import profile_path
    from perfcast.printer.boxes import visible_console
    from perfcast.report.documents.calibration import document_of

    outputs = Outputs(html=html)
    outputs.check()
    console = visible_console(is_error=True)
    with nullcontext() if console.is_terminal else status("measuring this machine's kernels"):
        profile = run_calibration(
            device, progress=console if console.is_terminal else None, quick=quick, restart=restart
        )
    said = [f"wrote {profile_path(device)}"]
    if device != "cpu":
        said.append(f"wrote {_correct(device)}: the learned forecaster on this device")
    write_answer(outputs, lambda: document_of(profile, load_measurements(device)), said=said)


def _correct(kind: str) -> Path:
    """Corrections of the learned forecaster, which knows GPUs, from the measurements just made."""
    import torch

    from perfcast.measure.calibrate import load_seconds
    from perfcast.measure.correct import correct_learned
    from perfcast.prediction import resolve_device

    return correct_learned(resolve_device(torch.cuda.get_device_name()), load_seconds(kind), kind)
