"""``perfcast validate``: measured against predicted, one suite at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.cli.output import Outputs
    from perfcast.evidence.validate.kernels.leave_out import By, LeaveOut
    from perfcast.evidence.validate.result import Result
    from perfcast.report.document import Document


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says, whatever the suite."""

    data: tuple[str, ...]
    max_rows: int
    predictors: tuple[str, ...]
    leave_out: tuple[str, ...]
    by: By
    train_data: tuple[str, ...]
    weights: str | None
    all_tables: bool
    study: bool
    html_path: str | None
    picture: str | None
    threads: int
    measurements: tuple[int, ...]
    write_spread: str | None
    json_path: str | None


@click.command()
@click.argument("suite")
@click.option("--data", multiple=True, metavar="DIR", help="Measured data; may be repeated; default: sample.")
@click.option("--max-rows", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--predictor", "predictors", multiple=True, help="May be repeated; default: all.")
@click.option(
    "--leave-out",
    multiple=True,
    metavar="NAME",
    help="Train 'learned' without its die, score only that; may be repeated, each in turn; 'each': all. "
    "published: choose constants without a source.",
)
@click.option(
    "--by",
    type=click.Choice(["die", "architecture", "family", "vendor"]),
    default="die",
    show_default=True,
    help="With --leave-out: what leaves with a device (its family: all that take its matrix instructions).",
)
@click.option("--train-data", multiple=True, metavar="DIR", help="With --leave-out: more to train on.")
@click.option("--weights", metavar="DIR", help="Trained models of 'learned'; default: the shipped ones.")
@click.option("--all-tables", is_flag=True, help="neusight: the study's training tables too.")
@click.option(
    "--study",
    is_flag=True,
    help="neusight: the study's own table: whole steps, its four predictors and ours.",
)
@click.option(
    "--html", "html_path", metavar="FILE", help="One self-contained page: errors by what they are of."
)
@click.option(
    "--picture", metavar="FILE", help="The page's figures as .svg or .png; FILE:NAME is one of them."
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="With --leave-out.")
@click.option(
    "--measurements",
    multiple=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="kernels: errors once N kernels of each device are measured; may be repeated.",
)
@click.option(
    "--write-spread",
    metavar="PATH",
    help="Fit what is shipped anew: local into a file, memory and published into a folder.",
)
@click.option("--json", "json_path", metavar="FILE", help="JSON; '-' is standard output.")
def validate(suite: str, **options: object) -> None:
    """Compare forecasts with measurements.

    SUITE is 'local' (small models, predicted and really run here), 'kernels' (measured kernels of many
    collections), 'neusight' (kernels and whole-model steps of the NeuSight study), 'memory' (measured
    peaks of training runs, and which runs fitted), 'collectives' (measured collectives of many systems),
    'published' (step times of published training runs), 'vision' (measured steps of image and other models),
    'serving' (measured times to the first and of further tokens under load),
    'embedding' (embedding lookups measured here by 'perfcast train embedding --passes') or 'traces' (eight
    models recorded here, forecast at other batches and really run; --data DIR keeps finished parts, so that a
    stopped run goes on).
    """
    from perfcast.evidence.dataset.shipped import places_of
    from perfcast.files.writing import check_writable

    if suite not in _SUITES:
        raise UnknownNameError("suite", suite, _SUITES, f"Known: {', '.join(_SUITES)}.")
    chosen = Options(**options)  # type: ignore[arg-type]
    if chosen.measurements and suite != "kernels":
        raise InputError(f"--measurements is for suite 'kernels', not for '{suite}'")
    _check_study(suite, chosen)
    _outputs(chosen).check()
    into_folder = chosen.write_spread is not None and suite in _SPREAD_FOLDERS
    check_writable(f"{chosen.write_spread}/{suite}" if into_folder else chosen.write_spread)
    if suite not in _MEASURED_HERE:
        fits = bool(chosen.leave_out or chosen.write_spread or chosen.measurements)
        chosen = replace(chosen, data=places_of(chosen.data, fits, _say))
    _SUITES[suite](chosen)


def _check_study(suite: str, options: Options) -> None:
    if options.study and suite != "neusight":
        raise InputError(f"--study is a table of the suite 'neusight', not of '{suite}'")
    if options.study and options.all_tables:
        raise InputError("--study scores whole steps; --all-tables adds tables of kernels")


def _local(options: Options) -> None:
    if options.data or options.leave_out:
        raise InputError("suite 'local' measures this machine; it takes no --data and no --leave-out")
    from rich.console import Console

    from perfcast.cost.profile import load_local_profile
    from perfcast.evidence.validate.local import suite as local
    from perfcast.report.documents.evidence.validation import describe_row, summary_document

    console = Console(highlight=False, stderr=options.json_path == "-")
    result = local.validate_local(
        options.predictors or local.PREDICTORS,
        max_rows=options.max_rows,
        on_row=lambda row: console.print(describe_row(row.to_json()), markup=False, soft_wrap=True),
    )
    _finish(summary_document(result.summary), result, options)
    if options.write_spread:
        machine = local.describe_machine(load_local_profile())
        local.write_spread(Path(options.write_spread), result, machine)
        console.print(f"wrote {options.write_spread}", markup=False)


def _kernels(options: Options) -> None:
    if options.measurements:
        _few_measurements(options)
        return
    from perfcast.evidence.validate.kernels.suite import validate_kernels

    result = validate_kernels(
        [Path(place) for place in options.data],
        options.predictors,
        max_rows=options.max_rows,
        weights=Path(options.weights) if options.weights else None,
        leave_out=_leave_out(options),
        say=_say,
    )
    _finish_suite(result, options)


def _few_measurements(options: Options) -> None:
    if options.predictors and options.predictors != ("learned",):
        raise InputError("--measurements moves 'learned'; it takes no other --predictor")

    from perfcast.evidence.validate.kernels.suite import validate_few_measurements
    from perfcast.report.documents.evidence.few_measurements import document_of

    result = validate_few_measurements(
        [Path(place) for place in options.data],
        options.measurements,
        max_rows=options.max_rows,
        weights=Path(options.weights) if options.weights else None,
        leave_out=_leave_out(options),
        say=_say,
    )
    _finish(document_of(result.summary), result, options)


def _neusight(options: Options) -> None:
    from perfcast.evidence.validate.steps.suite import validate_neusight

    result = validate_neusight(
        [Path(place) for place in options.data],
        options.predictors,
        max_rows=options.max_rows,
        all_tables=options.all_tables,
        study=options.study,
        weights=Path(options.weights) if options.weights else None,
        leave_out=_leave_out(options),
        say=_say,
    )
    if options.study:
        _finish_study(result, options)
    else:
        _finish_suite(result, options)


def _collectives(options: Options) -> None:

    from perfcast.evidence.validate.collectives.suite import validate_collectives
    from perfcast.report.documents.evidence.validation import collectives_document

    result = validate_collectives(
        [Path(place) for place in options.data],
        options.predictors,
        max_rows=options.max_rows,
        leave_out=options.leave_out,
        say=_say,
    )
    _finish(collectives_document(result.summary), result, options)


def _memory(options: Options) -> None:
    if options.leave_out or options.train_data:
        raise InputError("suite 'memory' trains nothing; it takes no --leave-out and no --train-data")
    if options.write_spread:
        from perfcast.evidence.validate.memory.fit import fit_memory

        fit = fit_memory([Path(place) for place in options.data], _say)
        _say_written(fit.write(Path(options.write_spread)))
        return

    from perfcast.evidence.validate.memory.suite import load_predictors, validate_memory
    from perfcast.report.documents.evidence.validation import memory_document

    predictors = load_predictors(options.predictors)
    result = validate_memory(
        [Path(place) for place in options.data], predictors, max_rows=options.max_rows, say=_say
    )
    _finish(memory_document(result.to_json_rows(), result.summary), result, options)


def _published(options: Options) -> None:
    if options.train_data or options.weights:
        raise InputError("suite 'published' trains nothing; it takes no --train-data and no --weights")
    from rich.console import Console
    from rich.progress import track

    from perfcast.evidence.validate.published import suite as published
    from perfcast.report.documents.evidence.validation import published_document

    places, quiet = [Path(place) for place in options.data], Console(stderr=True)
    if options.write_spread:
        _say_written(published.write_constants(places, Path(options.write_spread), _say))
        return
    result = published.validate_published(
        places,
        options.predictors,
        max_rows=options.max_rows,
        leave_out=options.leave_out,
        say=_say,
        track=lambda items, words: track(items, description=words, console=quiet, transient=True),
    )
    _finish(published_document(result.summary), result, options)


def _vision(options: Options) -> None:
    from perfcast.evidence.validate.vision.suite import validate_vision

    _finish_suite(
        validate_vision(*_of_tables("vision", options), max_rows=options.max_rows, say=_say), options
    )


def _serving(options: Options) -> None:
    from perfcast.evidence.validate.serving.suite import validate_serving

    _finish_suite(
        validate_serving(*_of_tables("serving", options), max_rows=options.max_rows, say=_say), options
    )


def _of_tables(suite: str, options: Options) -> tuple[list[Path], tuple[str, ...]]:
    """Places and predictors of a suite that fits nothing."""
    if options.leave_out or options.train_data or options.weights or options.write_spread:
        raise InputError(
            f"suite '{suite}' trains nothing: no --leave-out, --train-data, --weights, --write-spread"
        )
    return [Path(place) for place in options.data], options.predictors


def _embedding(options: Options) -> None:
    if options.leave_out or options.train_data or options.weights or options.write_spread:
        raise InputError(
            "suite 'embedding' fits to one part of its cases and is scored on the others: no --leave-out, "
            "--train-data, --weights, --write-spread"
        )
    if len(options.data) > 1:
        raise InputError(f"suite 'embedding' reads one file; --data is given {len(options.data)} times")

    from perfcast.evidence.validate.embedding import validate_embedding
    from perfcast.report.documents.evidence.scores import embedding_document

    place = Path(options.data[0]) if options.data else None
    result, scores = validate_embedding(place, options.predictors, _say)
    _finish(embedding_document(scores), result, options)


def _traces(options: Options) -> None:
    if options.leave_out or options.train_data or options.weights or options.write_spread:
        raise InputError(
            "suite 'traces' fits nothing: no --leave-out, --train-data, --weights, --write-spread"
        )
    if len(options.data) != 1:
        raise InputError("suite 'traces' records and runs models here: --data DIR, once, keeps what is done")

    from perfcast.evidence.validate.traces.suite import validate_traces
    from perfcast.report.documents.evidence.scores import trace_document

    result, scores = validate_traces(
        Path(options.data[0]), options.predictors, max_rows=options.max_rows, say=_say
    )
    _finish(trace_document(result.rows, scores), result, options)


#: Suites that fit several files.
_SPREAD_FOLDERS = ("memory", "published")
#: Suites whose measurements are made on this machine; they need no --data.
_MEASURED_HERE = ("local", "embedding", "traces")
_SUITES: Mapping[str, Callable[[Options], None]] = {
    "local": _local,
    "kernels": _kernels,
    "neusight": _neusight,
    "collectives": _collectives,
    "memory": _memory,
    "published": _published,
    "vision": _vision,
    "serving": _serving,
    "embedding": _embedding,
    "traces": _traces,
}


def _leave_out(options: Options) -> LeaveOut | None:
    """What to leave out, checked before anything is read."""
    if not options.leave_out:
        if options.train_data:
            raise InputError("--train-data is what --leave-out trains on; without that nothing is trained")
        return None
    from perfcast.evidence.validate.kernels.leave_out import LeaveOut

    folders = tuple(Path(place) for place in (*options.data, *options.train_data) if Path(place).is_dir())
    if not folders:
        raise InputError("--leave-out trains on folders: --data DIR or --train-data DIR")
    chosen = LeaveOut(options.leave_out, folders, options.by, options.threads)
    if "each" not in options.leave_out:
        chosen.groups(())
    return chosen


def _say(text: str) -> None:
    click.echo(text, err=True)


def _say_written(paths: Sequence[Path]) -> None:
    for path in paths:
        click.echo(f"wrote {path}")


def _finish_suite(result: Result, options: Options) -> None:
    """Tables of a suite whose predictors stand side by side."""
    from perfcast.report.documents.evidence.validation import suite_document

    _finish(suite_document(result.summary), result, options)


def _finish(document: Document, result: Result, options: Options) -> None:
    """Tables to the terminal, errors as figures to the page, JSON to where it is wanted, row by row."""
    from rich.console import Console

    from perfcast.cli.output import write_pages
    from perfcast.report.documents.evidence.errors import with_error_figures
    from perfcast.report.terminal import print_document

    console = Console(highlight=False, stderr=options.json_path == "-")
    print_document(document, console)
    outputs = _outputs(options)
    if outputs.draws:
        write_pages(outputs, with_error_figures(document, result.summary))
        for path in replace(outputs, json=None).paths:
            console.print(f"wrote {path}", markup=False)
    _write(result, options, console)


def _outputs(options: Options) -> Outputs:
    from perfcast.cli.output import Outputs

    return Outputs(json=options.json_path, html=options.html_path, picture=options.picture)


def _finish_study(result: Result, options: Options) -> None:
    """The study's table to the terminal and its page, JSON to where it is wanted."""
    from rich.console import Console

    from perfcast.cli.output import write_answer
    from perfcast.report.documents.evidence.study import study_document

    outputs = replace(_outputs(options), json="-" if options.json_path == "-" else None)
    write_answer(outputs, lambda: study_document(result.summary, result.protocol))
    _write(result, options, Console(highlight=False))


def _write(result: Result, options: Options, console: Console) -> None:
    from perfcast.evidence.validate.result import write_result

    if options.json_path == "-":
        write_result(result, sys.stdout)
    elif options.json_path:
        with Path(options.json_path).open("w", encoding="utf-8") as file:
            write_result(result, file)
        console.print(f"wrote {options.json_path}", markup=False)
