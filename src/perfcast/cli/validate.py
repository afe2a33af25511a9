"""``perfcast validate``: measured against predicted, one suite at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.numbers import Whole
from perfcast.cli.options.places import OUTPUT_DOCUMENT, OUTPUT_FOLDER, OUTPUT_PICTURE
from perfcast.cli.validated import finish, finish_study, finish_suite, outputs
from perfcast.errors import InputError, UnknownNameError
from perfcast.printer.streams import say
from perfcast.ranges import COUNT, THREADS, Range

if TYPE_CHECKING:
    from perfcast.evidence.validate.kernels.leave_out import By, LeaveOut


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says, whatever the suite."""

    data: tuple[str, ...]
    max_rows: int
    predictors: tuple[str, ...]
    subjects: tuple[str, ...]
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
@click.option("--max-rows", type=Whole(COUNT), default=100_000, show_default=True)
@click.option("--predictor", "predictors", multiple=True, help="May be repeated; default: all.")
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    metavar="NAME",
    help="coverage: of what; may be repeated; default: all.",
)
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
    "--html",
    "html_path",
    type=OUTPUT_DOCUMENT,
    metavar="FILE",
    help="One self-contained page: errors by what they are of.",
)
@click.option(
    "--picture",
    type=OUTPUT_PICTURE,
    metavar="FILE",
    help="The page's figures as .svg or .png; FILE:NAME is one of them.",
)
@click.option("--threads", type=Whole(THREADS), default=1, show_default=True, help="With --leave-out.")
@click.option(
    "--measurements",
    multiple=True,
    type=Whole(Range(0, COUNT.largest)),
    metavar="N",
    help="kernels: errors once N kernels of each device are measured; may be repeated.",
)
@click.option(
    "--write-spread",
    type=OUTPUT_FOLDER,
    metavar="PATH",
    help="Fit what is shipped anew: local into a file, memory and published into a folder.",
)
@click.option(
    "--json", "json_path", type=OUTPUT_DOCUMENT, metavar="FILE", help="JSON; '-' is standard output."
)
def validate(suite: str, **options: object) -> None:
    """Compare forecasts with measurements.

    SUITE is 'local' (small models, predicted and really run here), 'kernels' (measured kernels of many
    collections), 'neusight' (kernels and whole-model steps of the NeuSight study), 'memory' (measured
    peaks of training runs, and which runs fitted), 'collectives' (measured collectives of many systems),
    'published' (step times of published training runs), 'vision' (measured steps of image and other models),
    'serving' (measured times to the first and of further tokens under load),
    'embedding' (embedding lookups measured here by 'perfcast train embedding --passes'), 'traces' (eight
    models recorded here, forecast at other batches and really run; --data DIR keeps finished parts, so that a
    stopped run goes on), 'recordings' (recorded steps forecast from the same model's recording on another
    device, and from other steps; --data DIR has them) or 'coverage' (how often the truth lies in the 90 %
    intervals of forecasts, and how wide those are, on devices, sources and programs left out; --data DIR
    holds tables or folders of them).
    """
    from perfcast.evidence.dataset.shipped import places_of
    from perfcast.files.writing import check_writable

    if suite not in _SUITES:
        raise UnknownNameError("suite", suite, _SUITES, f"Known: {', '.join(_SUITES)}.")
    chosen = Options(**options)  # type: ignore[arg-type]
    if chosen.measurements and suite != "kernels":
        raise InputError(f"--measurements is for suite 'kernels', not for '{suite}'")
    _check_study(suite, chosen)
    if chosen.subjects and suite != "coverage":
        raise InputError(f"--subject is for suite 'coverage', not for '{suite}'")
    outputs(chosen).check()
    into_folder = chosen.write_spread is not None and suite in _SPREAD_FOLDERS
    check_writable(f"{chosen.write_spread}/{suite}" if into_folder else chosen.write_spread)
    if suite not in _MEASURED_HERE:
        fits = suite in _FITTED_ANEW or bool(chosen.leave_out or chosen.write_spread or chosen.measurements)
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
    from perfcast.cost.profile import load_local_profile
    from perfcast.evidence.validate.local import suite as local
    from perfcast.printer.boxes import visible_console
    from perfcast.report.documents.evidence.validation import describe_row, summary_document

    console = visible_console(is_error=outputs(options).takes_terminal)
    result = local.validate_local(
        options.predictors or local.PREDICTORS,
        max_rows=options.max_rows,
        on_row=lambda row: console.print(describe_row(row.to_json()), soft_wrap=True),
    )
    finish(summary_document(result.summary), result, options)
    if options.write_spread:
        machine = local.describe_machine(load_local_profile())
        local.write_spread(Path(options.write_spread), result, machine)
        console.print(f"wrote {options.write_spread}")


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
    finish_suite(result, options)


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
    finish(document_of(result.summary), result, options)


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
        finish_study(result, options)
    else:
        finish_suite(result, options)


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
    finish(collectives_document(result.summary), result, options)


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
    finish(memory_document(result.to_json_rows(), result.summary), result, options)


def _published(options: Options) -> None:
    if options.train_data or options.weights:
        raise InputError("suite 'published' trains nothing; it takes no --train-data and no --weights")
    from rich.progress import track

    from perfcast.evidence.validate.published import suite as published
    from perfcast.printer.boxes import visible_console
    from perfcast.report.documents.evidence.validation import published_document

    places, quiet = [Path(place) for place in options.data], visible_console(is_error=True)
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
    finish(published_document(result.summary), result, options)


def _vision(options: Options) -> None:
    from perfcast.evidence.validate.vision.suite import validate_vision

    finish_suite(
        validate_vision(*_of_tables("vision", options), max_rows=options.max_rows, say=_say), options
    )


def _serving(options: Options) -> None:
    from perfcast.evidence.validate.serving.suite import validate_serving

    finish_suite(
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
    finish(embedding_document(scores), result, options)


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
    finish(trace_document(result.rows, scores), result, options)


def _recordings(options: Options) -> None:
    from perfcast.evidence.validate.recordings.suite import validate_recordings
    from perfcast.printer.boxes import visible_console
    from perfcast.report.documents.evidence.validation import describe_row

    places, predictors = _of_tables("recordings", options)
    if not options.data:
        raise InputError("suite 'recordings' reads recordings of PyTorch's profiler: --data DIR")
    console = visible_console(is_error=outputs(options).takes_terminal)
    result = validate_recordings(
        places,
        predictors,
        max_rows=options.max_rows,
        say=_say,
        on_row=lambda row: console.print(describe_row(row.to_json()), soft_wrap=True),
    )
    finish_suite(result, options)


def _coverage(options: Options) -> None:
    if options.predictors:
        raise InputError("suite 'coverage' judges the shipped forecasts: no --predictor; --subject chooses")
    from perfcast.evidence.validate.coverage.suite import validate_coverage
    from perfcast.report.documents.evidence.coverage import coverage_document

    places, _ = _of_tables("coverage", options)
    result = validate_coverage(places, options.subjects, max_rows=options.max_rows, say=_say)
    finish(coverage_document(result.summary, result.protocol), result, options)


#: Suites that fit several files.
_SPREAD_FOLDERS = ("memory", "published")
#: Suites that take no measured tables: what they measure here, or what was recorded.
_MEASURED_HERE = ("local", "embedding", "traces", "recordings")
#: Suites that fit anew without what they score; the shipped rows are too few for that.
_FITTED_ANEW = ("coverage",)
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
    "recordings": _recordings,
    "coverage": _coverage,
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
    say(text, is_error=True)


def _say_written(paths: Sequence[Path]) -> None:
    for path in paths:
        say(f"wrote {path}")
