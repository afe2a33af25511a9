"""``perfcast train``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.numbers import Whole
from perfcast.cli.options.places import OUTPUT_FOLDER
from perfcast.errors import InputError
from perfcast.printer.streams import say
from perfcast.ranges import COUNT, SEED, THREADS, Range

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.evidence.train.loop import Progress


@click.command()
@click.argument("predictor")
@click.option(
    "--data", "folders", multiple=True, metavar="DIR",
    help="Folder of measured tables; for learned, may be repeated. For embedding, where measured lookups "
    "are; default: the user's data folder.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=Whole(SEED), help="Same seed, same weights.")
@click.option("--leave-out", multiple=True, metavar="DEVICE", help="Do not learn from it; may be repeated.")
@click.option("--vendor", default="nvidia", show_default=True, type=click.Choice(["nvidia", "amd"]))
@click.option(
    "--output",
    type=OUTPUT_FOLDER,
    metavar="DIR",
    help="Folder (embedding: file) of the result; default: in the user's data folder.",
)
@click.option(
    "--epochs", type=Whole(Range(1, 1_000_000, "passes over the data")), help="As published by default."
)
@click.option(
    "--passes",
    type=Whole(Range(0, 100_000, "passes over the lookups")),
    help="embedding: measure each lookup so often on this machine before; default: 0.",
)
@click.option(
    "--max-rows",
    type=Whole(COUNT),
    help="vision: of measured steps, one model of each family after the other; serving: of points; default: "
    "all.",
)
@click.option("--threads", default=1, show_default=True, type=Whole(THREADS), help="Processor threads.")
def train(
    predictor: str,
    folders: tuple[str, ...],
    seed: int,
    leave_out: tuple[str, ...],
    vendor: str,
    output: str | None,
    epochs: int | None,
    passes: int | None,
    max_rows: int | None,
    threads: int,
) -> None:
    """Train PREDICTOR (learned, or a published one: neusight, habitat, …) from measured kernels.

    PREDICTOR vision is learned's constants of convolutions and of the kernels around them, fitted to measured
    steps of timm's models, with errors of families and devices left out.

    PREDICTOR processor fits the constants of processors as devices to measured steps of image models, host
    those of the host to operators on an idle device and to steps of one image, serving those of requests and
    the spreads of serving to measured points under load, to one half of their configurations, inference what
    a step of inference adds to the interval of its prices to published prompts, tokens and requests,
    recorded-kernels what kernels launched one by one take beyond their prices, by vendor, to recordings.

    PREDICTOR embedding is the cost of embedding lookups on this processor, fitted to lookups that --passes
    measures. Ctrl-C loses at most one epoch, one model of learned or one measured lookup: the same command
    goes on where it stopped.
    """
    _check_options(predictor, leave_out, epochs, passes, max_rows)
    if predictor == "embedding":
        _train_embedding(folders, output, passes or 0)
        return
    if predictor in _OF_STEPS:
        _OF_STEPS[predictor](folders, output, max_rows)
        return
    if not folders:
        raise InputError(f"{predictor} is trained on measured tables: --data DIR")
    if predictor == "learned":
        _train_learned(folders, leave_out, output, threads)
        return
    if len(folders) != 1:
        raise InputError(f"{predictor} is trained on one folder; --data is given {len(folders)} times")
    (data,) = folders
    from perfcast.catalogs.devices import load_device
    from perfcast.evidence.train.published.registry import find_training, load_trainer
    from perfcast.evidence.train.published.request import TrainingRequest
    from perfcast.printer.boxes import visible_console
    from perfcast.published.nets.store import predictor_folder

    trainer = load_trainer(predictor)
    left_out = tuple(load_device(name).name for name in leave_out)
    folder = Path(output) if output else predictor_folder(predictor, seed, vendor, left_out)
    console = visible_console()
    try:
        with _Reporter(visible_console(is_error=True), threads) as progress:
            record = trainer(
                TrainingRequest(
                    data=Path(data),
                    folder=folder,
                    seed=seed,
                    vendor=vendor,
                    left_out=left_out,
                    num_epochs=epochs or find_training(predictor).num_epochs,
                    progress=progress,
                )
            )
    except KeyboardInterrupt:
        say(f"stopped; the same command goes on from {folder}", is_error=True)
        raise
    _print_record(console, record)
    console.print(f"wrote {folder}", soft_wrap=True)


def _check_options(
    predictor: str, leave_out: tuple[str, ...], epochs: int | None, passes: int | None, max_rows: int | None
) -> None:
    if predictor == "embedding" and (leave_out or epochs):
        raise InputError("embedding is trained on all of its cases: no --leave-out, no --epochs")
    if predictor in _OF_STEPS and (leave_out or epochs or passes):
        raise InputError(f"{predictor} leaves families out by itself: no --leave-out, no --epochs")
    if predictor != "embedding" and passes is not None:
        raise InputError(f"--passes measures embedding lookups; {predictor} is trained on measured tables")
    if predictor not in ("vision", "serving") and max_rows is not None:
        raise InputError(
            f"--max-rows draws steps of vision, points of serving; {predictor} takes all of its measurements"
        )


def _train_learned(
    folders: tuple[str, ...], leave_out: tuple[str, ...], output: str | None, threads: int
) -> None:
    from perfcast.catalogs.devices import load_device
    from perfcast.evidence.train.learned.train import ModelRecord, train_all
    from perfcast.printer.boxes import visible_console
    from perfcast.published.nets.store import predictor_folder

    left_out = tuple(load_device(name).name for name in leave_out)
    folder = Path(output) if output else predictor_folder("learned", 0, "nvidia", left_out)
    console = visible_console()

    def report(model: str, record: ModelRecord | None) -> None:
        if record is None:
            say(f"{model}: training", is_error=True)
        else:
            text = f"{model}: {record.num_rows} rows of {len(record.devices)} devices, {record.seconds:.0f} s"
            console.print(text)

    console.print("reading tables")
    try:
        train_all([Path(name) for name in folders], folder, left_out, threads, report=report)
    except KeyboardInterrupt:
        say(f"stopped; the same command goes on from {folder}", is_error=True)
        raise
    console.print(f"wrote {folder}", soft_wrap=True)


def _train_vision(folders: tuple[str, ...], output: str | None, max_rows: int | None) -> None:
    from perfcast.evidence.train.vision.train import train_vision
    from perfcast.printer.boxes import visible_console
    from perfcast.published.nets.store import predictor_folder

    if len(folders) != 1:
        raise InputError("vision is fitted to one folder with vision/timm.csv.gz: --data DIR")
    folder = Path(output) if output else predictor_folder("vision", 0, "nvidia", ())
    record = train_vision(Path(folders[0]), folder, lambda line: say(line, is_error=True), max_rows=max_rows)
    console = visible_console(soft_wrap=True)
    for left_out, errors in (("family", record.by_family), ("device", record.by_device)):
        console.print(f"each step's {left_out} left out: steps, median and mean error, bias in percent")
        for group in errors:
            figures = f"{100 * group.median:5.1f} {100 * group.mean:5.1f} {100 * group.bias:+5.1f}"
            console.print(f"  {group.name:52s} {group.count:5d} {figures}")
    for name, widths in (("measured devices", record.known), ("devices never measured", record.unseen)):
        console.print(
            f"90 % of {name}: inference {_percent(widths.forward)}, gradients {_percent(widths.gradient)}"
        )
    console.print(f"wrote {folder}")


def _percent(span: tuple[float, float]) -> str:
    """Of logarithms, such as '−12 to +19 %'."""
    low, high = (100 * math.expm1(end) for end in span)
    return f"{low:+.0f} to {high:+.0f} %"


def _train_processor(folders: tuple[str, ...], output: str | None, _: int | None) -> None:
    from perfcast.evidence.train.processor.train import describe, train_processor
    from perfcast.files.writing import check_writable

    if len(folders) != 1 or output is None:
        raise InputError("processor is trained on one folder: --data DIR --output FILE")
    check_writable(output)
    fitted = train_processor(Path(folders[0]), Path(output), lambda text: say(text, is_error=True))
    for line in describe(fitted):
        say(line)


def _train_host(folders: tuple[str, ...], output: str | None, _: int | None) -> None:
    from perfcast.evidence.train.host.fit import describe, fit_host, format_costs
    from perfcast.files.writing import check_writable, write_fitted_text

    if len(folders) != 1 or output is None:
        raise InputError("host is fitted to one folder: --data DIR --output FILE")
    check_writable(output)
    fitted = fit_host(Path(folders[0]), lambda text: say(text, is_error=True))
    write_fitted_text(output, format_costs(fitted))
    for line in describe(fitted):
        say(line)


def _train_serving(folders: tuple[str, ...], output: str | None, max_rows: int | None) -> None:
    from perfcast.evidence.train.serving.fit import fit_serving, format_constants
    from perfcast.files.writing import check_writable, write_fitted_text

    if not folders or output is None:
        raise InputError("serving is fitted to measured points under load: --data DIR --output FILE")
    places = [Path(folder) for folder in folders]
    check_writable(output)
    fitted = fit_serving(places, lambda text: say(text, is_error=True), max_rows=max_rows)
    write_fitted_text(output, format_constants(fitted))
    say(format_constants(fitted))


def _train_inference(folders: tuple[str, ...], output: str | None, _: int | None) -> None:
    from perfcast.evidence.train.inference.fit import fit_inference
    from perfcast.files.writing import check_writable, write_fitted_text

    if not folders or output is None:
        raise InputError(
            "inference is fitted to published prompts, tokens and requests: --data DIR --output FILE"
        )
    check_writable(output)
    found = fit_inference([Path(folder) for folder in folders], lambda text: say(text, is_error=True))
    write_fitted_text(output, found)
    say(found)


def _train_recorded_kernels(folders: tuple[str, ...], output: str | None, _: int | None) -> None:
    from perfcast.evidence.train.recorded_kernels.fit import fit_kernels, format_kernels
    from perfcast.evidence.train.recorded_kernels.observe import find_recordings, observe
    from perfcast.files.writing import check_writable, write_fitted_text

    if not folders or output is None:
        raise InputError("recorded-kernels is fitted to recordings: --data DIR --output FILE")
    check_writable(output)
    paths = [path for folder in folders for path in find_recordings(Path(folder))]
    observed = list(observe(paths, lambda text: say(text, is_error=True)))
    if not observed:
        raise InputError("no recording there has shapes of operators on a device of the catalog")
    found = format_kernels(fit_kernels(observed), observed)
    write_fitted_text(output, found)
    say(found)


#: By folders, output and most rows: what is fitted to steps and operators of whole models, not to kernels.
_OF_STEPS: Mapping[str, Callable[[tuple[str, ...], str | None, int | None], None]] = {
    "vision": _train_vision,
    "processor": _train_processor,
    "host": _train_host,
    "serving": _train_serving,
    "inference": _train_inference,
    "recorded-kernels": _train_recorded_kernels,
}


def _train_embedding(files: tuple[str, ...], output: str | None, passes: int) -> None:
    from perfcast.evidence.train.embedding.train import train_embedding
    from perfcast.files.writing import check_writable
    from perfcast.printer.boxes import visible_console

    check_writable(output)
    if len(files) > 1:
        raise InputError(f"embedding is trained on one file; --data is given {len(files)} times")
    console = visible_console()
    with _measuring(visible_console(is_error=True)) as report:
        target, record = train_embedding(
            Path(files[0]) if files else None, Path(output) if output else None, passes, report
        )
    for optimizer, num_cases in record.num_cases.items():
        spread = ", ".join(f"{phase} {value:.1%}" for phase, value in record.spread[optimizer].items())
        console.print(f"{optimizer}: fitted to {num_cases} cases; spread on cases left out: {spread}")
    console.print(f"measured on {record.machine}", soft_wrap=True)
    console.print(f"wrote {target}", soft_wrap=True)


@contextmanager
def _measuring(console: Console) -> Iterator[Callable[[int, int], None]]:
    """What is told after each measured case: a bar on a terminal, a line per hundred elsewhere."""
    from rich.progress import Progress as Bars

    with Bars(console=console, disable=not console.is_terminal, transient=True) as bars:
        bar = bars.add_task("measuring lookups", total=None)

        def report(done: int, wanted: int) -> None:
            bars.update(bar, completed=done, total=wanted)
            if not console.is_terminal and (done % 100 == 0 or done == wanted):
                say(f"measured {done} of {wanted} lookups", is_error=True)

        yield report


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
            say(f"{name}: epoch {done}/{wanted}, {note}", is_error=True)
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
