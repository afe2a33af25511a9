"""Where a verb's answer goes: the terminal, and the files that were asked for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.pack import Command
from perfcast.cli.options.places import OUTPUT_DOCUMENT, OUTPUT_PICTURE
from perfcast.errors import DoesNotFitError
from perfcast.files.places import STANDARD_OUTPUT
from perfcast.printer.streams import say, write_document

if TYPE_CHECKING:
    from perfcast.core.forecast.fit import Fit
    from perfcast.report.document import Document
    from perfcast.report.pictures import PicturePlace
    from perfcast.verbs.result import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Files to write, None for those that nobody asked for.

    Attributes:
        json, html, timeline: One of them may be '-', standard output, on which nothing else is then written.
        picture: Ends in .svg or .png, then perhaps :FIGURE.
        brief: Whether the terminal shows a few lines of the answer.
        require_fit: Whether an answer that does not fit ends with exit code 3.
    """

    json: str | None = None
    html: str | None = None
    picture: str | None = None
    timeline: str | None = None
    brief: bool = False
    require_fit: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Those that are asked for."""
        picture = self.picture_place.path if self.picture_place is not None else None
        return tuple(path for path in (self.json, self.html, picture, self.timeline) if path is not None)

    @property
    def takes_terminal(self) -> bool:
        """Whether a document goes to standard output, and no text."""
        return STANDARD_OUTPUT in self.paths

    @property
    def draws(self) -> bool:
        """Whether figures are asked for."""
        return self.html is not None or self.picture is not None

    @property
    def picture_place(self) -> PicturePlace | None:
        """Where the picture goes.

        Raises:
            InputError: It is no picture's name.
        """
        from perfcast.report.pictures import parse_picture

        return None if self.picture is None else parse_picture(self.picture)

    def check(self) -> None:
        """Say before the work, not after it, that a file cannot be written.

        Raises:
            InputError: One of them cannot be.
        """
        from perfcast.files.writing import check_writable

        for path in self.paths:
            check_writable(path)


def output_options(
    *, html: bool = False, timeline: bool = False, fit: bool = False
) -> Callable[[Command], Command]:
    """--json; --html with --picture and --brief, --timeline, --require-fit where the verb has them.

    Files are checked to be writable.
    """
    options = {
        "json": click.option(
            "--json", type=OUTPUT_DOCUMENT, metavar="FILE", help="JSON; '-' is standard output."
        )
    }
    if html:
        options["html"] = click.option(
            "--html", type=OUTPUT_DOCUMENT, metavar="FILE", help="One self-contained page."
        )
        options["picture"] = click.option(
            "--picture",
            type=OUTPUT_PICTURE,
            metavar="FILE",
            help="The page's figures as .svg or .png; FILE:NAME is one of them.",
        )
        options["brief"] = click.option("--brief", is_flag=True, help="The answer in a few lines.")
    if timeline:
        options["timeline"] = click.option(
            "--timeline", type=OUTPUT_DOCUMENT, metavar="FILE", help="Trace events; opens in Perfetto."
        )

    if fit:
        options["require_fit"] = click.option(
            "--require-fit", is_flag=True, help="Exit code 3 where the devices' memory does not hold it."
        )

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(**given: Any) -> Any:
            outputs = Outputs(**{name: given.pop(name) for name in options})
            outputs.check()
            if outputs.brief and outputs.takes_terminal:
                raise click.UsageError(
                    "--brief: nothing else is written beside a document on standard output"
                )
            return function(**given, outputs=outputs)

        decorated: Command = command
        for option in options.values():
            decorated = option(decorated)
        return decorated

    return decorate


def write_answer(
    outputs: Outputs,
    document: Callable[[], Document],
    data: Callable[[], object] | None = None,
    timeline: Callable[[], dict[str, Any]] | None = None,
    *,
    written: Sequence[str] = (),
    said: Sequence[str] = (),
    is_exact: bool = False,
    fits: Iterable[Fit | None] = (),
    command: str | None = None,
) -> None:
    """Write what was asked for; on the terminal the document, unless JSON goes there.

    Args:
        document, data, timeline: Make the answer as text and page, as JSON, and as trace events; only what is
            needed is made.
        written: Other files that hold a part of the answer.
        said: Lines that follow on the terminal.
        is_exact: Whether the JSON keeps every digit, since a program reads it back.
        fits: What --require-fit asks of.
        command: That asks the same; None: the one that runs.

    Raises:
        InputError: A file cannot be written.
        DoesNotFitError: With --require-fit, once everything is written.
        ValueError: A number is not finite; the file it belongs to is not written.
    """
    if outputs.json is not None and data is not None:
        write_json(with_origin(data(), command), outputs.json, is_exact=is_exact)
    is_shown = outputs.draws or not outputs.takes_terminal
    shown = document() if is_shown else None
    if shown is not None:
        write_pages(outputs, shown, command)
    if outputs.timeline is not None and timeline is not None:
        write_json(timeline(), outputs.timeline, indent=None, is_exact=True)
    if not outputs.takes_terminal and shown is not None:
        lines = (*said, *(f"wrote {path}" for path in (*outputs.paths, *written)))
        show = print_brief if outputs.brief else print_answer
        show(shown, lines)
    if outputs.require_fit:
        _require_fit(tuple(fits))


def write_pages(outputs: Outputs, document: Document, command: str | None = None) -> None:
    """The page and the picture of a document, as far as they are asked for.

    Args:
        command: As of ``write_answer``.

    Raises:
        InputError: A file cannot be written, or there is nothing to draw.
    """
    if outputs.html is not None:
        from perfcast.report.page import render_page
        from perfcast.verbs.origin import origin_line

        said = _command() if command is None else command
        provenance = replace(document.provenance, command=said, origin=origin_line())
        _write_text(outputs.html, render_page(replace(document, provenance=provenance)))
    if outputs.picture_place is not None:
        from perfcast.files.writing import write_bytes_atomically
        from perfcast.report.pictures import draw_picture

        write_bytes_atomically(outputs.picture_place.path, draw_picture(document, outputs.picture_place))


def write_result(
    outputs: Outputs, result: Shown, *, written: Sequence[str] = (), said: Sequence[str] = ()
) -> None:
    """Write a result where ``write_answer`` writes.

    Raises:
        InputError, DoesNotFitError, ValueError: As of ``write_answer``.
    """
    write_answer(
        outputs,
        result.document,
        result.whole,
        lambda: result.timeline() or {},
        written=written,
        said=said,
        fits=result.fit_verdicts,
        command=result.command,
    )


def _require_fit(fits: Sequence[Fit | None]) -> None:
    """Raises DoesNotFitError where something does not fit by the best estimate, or that is not known."""
    from perfcast.core.forecast.fit import all_fit, first_said

    verdict = all_fit(fits)
    if verdict is False:
        raise DoesNotFitError(first_said(fit for fit in fits if fit is not None and not fit.fits))
    if verdict is None:
        raise DoesNotFitError("whether it fits is not known: no closed form of its memory exists")


def print_brief(document: Document, said: Sequence[str] = ()) -> None:
    """A document in a few lines, then some more."""
    from perfcast.report.brief import brief_of

    for line in (brief_of(document), *said):
        say(line)


def print_answer(document: Document, said: Sequence[str] = ()) -> None:
    """A document on the terminal, then some lines."""
    from perfcast.printer.boxes import visible_console
    from perfcast.report.terminal import print_document

    console = visible_console()
    print_document(document, console)
    for line in said:
        console.print(line, soft_wrap=True)


def write_json(data: object, path: str | Path, *, indent: int | None = 2, is_exact: bool = False) -> None:
    """Write an answer or plain data as JSON, to standard output alone where ``path`` is '-'.

    Args:
        indent, is_exact: As of ``report.answers.write_plain``.

    Raises:
        InputError: The place cannot be written.
        ValueError: A number is not finite; nothing is written.
    """
    from perfcast.report.answers import to_plain, write_plain

    _write_text(path, write_plain(to_plain(data), indent=indent, is_exact=is_exact))


def _write_text(path: str | Path, text: str) -> None:
    from perfcast.files.writing import write_text_atomically

    if str(path) == STANDARD_OUTPUT:
        write_document(text)
    else:
        write_text_atomically(path, text)


def with_origin(data: object, command: str | None) -> Any:
    """An answer in the types of JSON that says where it comes from: the question, or the command line."""
    from perfcast.report.answers import Answer, to_plain, versioned
    from perfcast.verbs.origin import origin_of

    if isinstance(data, Answer) and data.origin is not None:
        return to_plain(data)
    verb = " ".join(click.get_current_context().command_path.split()[1:])
    origin = origin_of(verb, None, _command() if command is None else command)
    if isinstance(data, Answer):
        return to_plain(replace(data, origin=origin))
    return versioned(to_plain(data), origin)


def _command() -> str:
    """The command line, where perfcast is run by one."""
    program = Path(sys.argv[0])
    is_own = program.name == "perfcast" or program.parent.name == "perfcast"
    return shlex.join(["perfcast", *sys.argv[1:]]) if is_own else ""
