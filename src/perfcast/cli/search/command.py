"""``perfcast search``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.given import is_given
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.search.baseline import find_baseline
from perfcast.cli.search.fleet import FleetOptions, fleet_options, refuse_served, search_fleet
from perfcast.cli.search.options import SearchOptions, search_options
from perfcast.cli.search.request import build_request, build_serving_request
from perfcast.core.plans.text import format_plan
from perfcast.errors import InputError, PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.plan import Plan
    from perfcast.searches.report.compose import SearchReport
    from perfcast.searches.resolve import Progress
    from perfcast.searches.serving.batches import ServingReport

#: By the names of the parameters: what only some searches have a use for.
_OF_TRAINING = {
    "min_mfu": "--min-mfu", "tokens": "--tokens", "deadline": "--deadline", "compared": "--compare",
    "sensitivity": "--sensitivity", "target": "--hand-over", "output": "--output",
    "any_framework": "--any-framework", "no_simulate": "--no-simulate", "num_simulated": "--num-simulated",
    "processes": "--processes", "compile": "--compile",
}  # fmt: skip
_OF_INFERENCE = {
    "max_ttft": "--max-ttft", "max_tpot": "--max-tpot", "kv_cache_dtype": "--kv-cache-dtype",
}  # fmt: skip
_NOT_OF_DEPLOYMENTS = {"batch_sizes": "--global-batch-size", "sequence_lengths": "--sequence-length"}
_NOT_OF_SWEEPS = {
    **_OF_INFERENCE, "compared": "--compare", "sensitivity": "--sensitivity", "target": "--hand-over",
    "output": "--output",
}  # fmt: skip

#: Fastest plans by formula that are offered to a framework beside the ranked ones.
_MOST_ASKED = 2000


@click.command()
@search_options
@fleet_options
@output_options(html=True, fit=True)
def search(own: SearchOptions, served: FleetOptions, outputs: Outputs) -> None:
    """Find the best plan of MODEL on a cluster, and say why it wins.

    \b
    perfcast search llama3-70b --cluster dgx-h100:512 --global-batch-size 1024
    perfcast search llama3-70b --cluster dgx-h100:16 --mode decode --max-tpot 50ms
    perfcast search llama3-70b --cluster dgx-h100:16 --mode serving --input-length 8192 --output-length 1024
    perfcast search gpt2 llama3-8b --cluster dgx-h100:64,mi300x:64 --global-batch-size 256,512 --backend ray

    MODEL is a catalog name, or a Hugging Face config.json or its folder. Several models, batches or sequence
    lengths, --backend ray and --store make a sweep: every cell's best plans, kept until the next run.
    """
    if own.is_sweep:
        _check_sweep(own, outputs)
        from perfcast.cli.search.sweep import run_search_sweep

        run_search_sweep(own, outputs)
        return
    if own.address:
        raise click.UsageError("--address is of --backend ray")
    if own.mode == "serving":
        _refuse(own, {**_OF_TRAINING, **_NOT_OF_DEPLOYMENTS}, "not of --mode serving")
        search_fleet(own, served, outputs, show_progress)
        return
    refuse_served(f"of --mode serving, not of {own.mode}")
    if own.mode == "train":
        _refuse(own, _OF_INFERENCE, "of inference (--mode decode)")
        _search_training(own, outputs)
    else:
        _refuse(own, _OF_TRAINING, "of training")
        given = [f"--{name}" for name in ("optimizer",) if is_given(name)]
        if given:
            raise click.UsageError(f"{', '.join(given)}: of training")
        if find_baseline(own.cost_model) is not None:
            raise click.UsageError(f"--cost-model {own.cost_model} is of training")
        _search_serving(own, outputs)


def _check_sweep(own: SearchOptions, outputs: Outputs) -> None:
    _refuse(own, _NOT_OF_SWEEPS, "of a single search, not of a sweep")
    if find_baseline(own.cost_model) is not None:
        raise click.UsageError(f"--cost-model {own.cost_model} is of a single search")
    if outputs.draws or own.mode != "train":
        raise click.UsageError("a sweep is of training, and written as a table or with --json")


def _refuse(own: SearchOptions, names: dict[str, str], reason: str) -> None:
    given = [option for name, option in names.items() if getattr(own, name) not in (None, False, ())]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {reason}")


@contextmanager
def show_progress() -> Iterator[Progress]:
    """What is being done, on standard error where that is a terminal."""
    from rich import progress
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
    with progress.Progress(
        *columns, TextColumn("{task.fields[count]}"), TimeElapsedColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task("loading", total=None, count="")

        def watch(part: str, done: int, total: int) -> None:
            count = f"{done:,} of {total:,}" if total else ""
            bar.update(task, description=part, completed=done, total=total or None, count=count)

        yield watch


def _search_training(own: SearchOptions, outputs: Outputs) -> None:
    from perfcast.searches.report.compose import compose_report

    _check_hand_over(own.target, own.output)
    request = build_request(own)
    with show_progress() as watch:
        found = compose_report(request, watch)
    said = _hand_over(found, own.target, own.output) if own.target and own.output else ()
    _write_training(found, said, outputs)


def _check_hand_over(target: str | None, output: str | None) -> None:
    """Say before the search what its end could not do."""
    if (target is None) != (output is None):
        raise click.UsageError("--hand-over NAME and --output DIR go together")
    if target is None or output is None:
        return
    from perfcast.searches.handover import TARGETS

    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS, f"Known: {', '.join(TARGETS)}.")
    if Path(output).exists() and not Path(output).is_dir():
        raise InputError(f"--output {output}: not a folder")


def _hand_over(found: SearchReport, target: str, folder: str) -> tuple[str, ...]:
    """Write the files of the first plan that the target can run.

    Returns:
        Lines to be said: which plan, where it is not the winner, and the files.

    Raises:
        PlanError: It can run none of them; says what is in the winner's way.
    """
    from perfcast.files import write_text_atomically
    from perfcast.units import format_seconds

    plan, files, obstacle = _first_files(found, target)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {folder}: {error.strerror}") from error
    lines = []
    if obstacle:
        lines = [
            f"plan 1 is not handed over: {obstacle}",
            f"handed over is the next that {target} can run: {format_plan(plan, ' ')}; "
            f"{format_seconds(found.best.formula_seconds(plan))} a step by formula",
        ]
    for name, text in files.items():
        write_text_atomically(Path(folder) / name, text)
        lines.append(f"wrote {Path(folder) / name}")
    return tuple(lines)


def _first_files(found: SearchReport, target: str) -> tuple[Plan, Mapping[str, str], str]:
    """The first plan that a target can run, its files, and what is in the way of the winner ('' if nothing).

    The ranked plans are asked first, then the fastest others by formula.
    """
    from perfcast.searches.handover import hand_over
    from perfcast.searches.report.compose import best_cluster

    result, cluster, obstacle = found.best, best_cluster(found.comparison), ""
    for plan in result.best_plans(_MOST_ASKED):
        try:
            files = hand_over(
                plan, found.request.model, result.training, result.sequence_length, cluster, target
            )
        except PlanError as error:
            obstacle = obstacle or str(error)
            continue
        return plan, files, obstacle
    raise PlanError(
        f"none of the {len(result.ranked)} ranked plans nor of the {_MOST_ASKED:,} fastest by formula can be "
        f"handed over: {obstacle} A choice may be fixed, as with --fix schedule=1f1b."
    )


def _write_training(found: SearchReport, said: Sequence[str], outputs: Outputs) -> None:
    from perfcast.report.data.search.training import data_of
    from perfcast.report.documents.search.training import document_of

    write_answer(outputs, lambda: document_of(found), lambda: data_of(found), said=said, fits=found.fits)


def _search_serving(own: SearchOptions, outputs: Outputs) -> None:
    """Inference on each cluster, the best first."""
    from perfcast.searches.serving.batches import report_serving

    request = build_serving_request(own)
    with show_progress() as watch:
        found = report_serving(request, watch)
    _write_serving(found, outputs)


def _write_serving(found: ServingReport, outputs: Outputs) -> None:
    from perfcast.report.data.search.serving import data_of
    from perfcast.report.documents.search.serving import document_of

    write_answer(outputs, lambda: document_of(found), lambda: data_of(found))
