"""``perfcast calibrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--quick", is_flag=True, help="A third of the measurements; a coarser fit.")
@click.option("--restart", is_flag=True, help="Forget what was measured before.")
@click.option("--html", metavar="FILE", help="Every measured point and fitted line, as one page.")
def calibrate(device: str, quick: bool, restart: bool, html: str | None) -> None:
    """Measure this machine's kernels and fit a profile of it, for --device cpu and --cost-model linear.

    Takes some minutes. Ctrl-C loses nothing: the next run measures what is missing.
    """
    from rich.console import Console

    from perfcast.files import check_writable, write_text_atomically
    from perfcast.measure.calibrate import calibrate as run_calibration
    from perfcast.measure.calibrate import load_measurements
    from perfcast.measure.store import profile_path
    from perfcast.report.calibration import print_calibration

    check_writable(html)
    console = Console(highlight=False)
    profile = run_calibration(device, progress=Console(stderr=True), quick=quick, restart=restart)
    print_calibration(profile, console)
    console.print(f"wrote {profile_path(device)}", markup=False, soft_wrap=True)
    if device != "cpu":
        path = _correct(device)
        console.print(f"wrote {path}: the learned forecaster on this device", markup=False, soft_wrap=True)
    if html:
        from perfcast.report.calibration import render_calibration_html

        write_text_atomically(html, render_calibration_html(profile, load_measurements(device)))
        console.print(f"wrote {html}", markup=False)


def _correct(kind: str) -> Path:
    """Corrections of the learned forecaster, which knows GPUs, from the measurements just made."""
    import torch

    from perfcast.measure.calibrate import load_seconds
    from perfcast.measure.correct import correct_learned
    from perfcast.prediction import resolve_device

    return correct_learned(resolve_device(torch.cuda.get_device_name()), load_seconds(kind), kind)
