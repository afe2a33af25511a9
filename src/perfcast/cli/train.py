"""``perfcast train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfcast.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.train.loop import Progress


@click.command()
@click.argument("predictor")
@click.option(
    "--data", "folders", required=True, multiple=True, metavar="DIR",
    help="Folder of measured tables; for learned, may be repeated.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same weights.")
@click.option("--leave-out", multiple=True, metavar="DEVICE", help="Do not learn from it; may be repeated.")
@click.option("--vendor", default="nvidia", show_default=True, type=click.Choice(["nvidia", "amd"]))
@click.option("--output", metavar="DIR", help="Folder of the result; in the user's data folder by default.")
@click.option("--epochs", type=click.IntRange(1), help="As published by default.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="Processor threads.")
def train(
    predictor: str,
    folders: tuple[str, ...],
    seed: int,
    leave_out: tuple[str, ...],
    vendor: str,
    output: str | None,
    epochs: int | None,
    threads: int,
) -> None:
    """Train PREDICTOR (learned, or a published one: neusight, habitat, …) from measured kernels.

    Ctrl-C loses at most one epoch, or one model of learned: the same command goes on where it stopped.
    """
    if predictor == "learned":
        _train_learned(folders, leave_out, output, threads)
        return
    if len(folders) != 1:
        raise InputError(f"{predictor} is trained on one folder; --data is given {len(folders)} times")
    (data,) = folders
    from rich.console import Console

    from perfcast.catalog.devices import load_device
    from perfcast.published.registry import find_entry, load_trainer
    from perfcast.published.store import predictor_folder

    trainer = load_trainer(predictor)
    left_out = tuple(load_device(name).name for name in leave_out)
    folder = Path(output) if output else predictor_folder(predictor, seed, vendor, left_out)
    console = Console(highlight=False)
    try:
        with _Reporter(Console(stderr=True, highlight=False), threads) as progress:
            record = trainer(
                Path(data),
                folder,
                seed=seed,
                vendor=vendor,
                left_out=left_out,
                num_epochs=epochs or find_entry(predictor).num_epochs,
                progress=progress,
            )
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command goes on from {folder}", err=True)
        raise
    _print_record(console, record)
    console.print(f"wrote {folder}", markup=False, soft_wrap=True)


def _train_learned(
    folders: tuple[str, ...], leave_out: tuple[str, ...], output: str | None, threads: int
) -> None:
    from rich.console import Console

    from perfcast.catalog.devices import load_device
    from perfcast.published.store import predictor_folder
    from perfcast.train.learned import ModelRecord, train_all

    left_out = tuple(load_device(name).name for name in leave_out)
    folder = Path(output) if output else predictor_folder("learned", 0, "nvidia", left_out)
    console = Console(highlight=False)

    def report(model: str, record: ModelRecord | None) -> None:
        if record is None:
            click.echo(f"{model}: training", err=True)
        else:
            text = f"{model}: {record.num_rows} rows of {len(record.devices)} devices, {record.seconds:.0f} s"
            console.print(text, markup=False)

    console.print("reading tables", markup=False)
    try:
        train_all([Path(name) for name in folders], folder, left_out, threads, report=report)
    except KeyboardInterrupt:
        click.echo(f"stopped; the same command goes on from {folder}", err=True)
        raise
    console.print(f"wrote {folder}", markup=False, soft_wrap=True)


class _Reporter:
    """Progress of each net: bars on a terminal, a line per epoch elsewhere."""

    def __init__(self, console: Console, threads: int) -> None:
        import torch
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        torch.set_num_threads(threads)
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description:10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._rows: dict[str, Any] = {}

    def __enter__(self) -> Progress:
        self._bars.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _report(self, name: str, done: int, wanted: int, error: float, best: float) -> None:
        note = f"validation {error:.2%}, best {best:.2%}"
        if not self._console.is_terminal:
            click.echo(f"{name}: epoch {done}/{wanted}, {note}", err=True)
            return
        if name not in self._rows:
            self._rows[name] = self._bars.add_task(name, total=wanted, note=note)
        self._bars.update(self._rows[name], completed=done, note=note)


def _print_record(console: Console, record: dict[str, Any]) -> None:
    """One line per net."""
    for name, net in record["nets"].items():
        lost = f"; died in epoch {net['died_at']}" if net["died_at"] else ""
        if net["deaths"]:
            lost += f"; {len(net['deaths'])} earlier attempts died"
        console.print(
            f"{name}: validation error {net['validation_mape']:.2%} in epoch {net['best_epoch']} of "
            f"{net['num_epochs']}, {net['num_train']} rows{lost}",
            markup=False,
        )
