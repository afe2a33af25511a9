"""What ``perfcast validate`` says of a suite when it is done: tables, a page, JSON row by row."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from perfcast.files.places import STANDARD_OUTPUT
from perfcast.files.writing import written_atomically
from perfcast.printer.streams import write_document

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.cli.output import Outputs
    from perfcast.evidence.validate.result import Result
    from perfcast.report.document import Document


class Asked(Protocol):
    """Where answers go."""

    @property
    def json_path(self) -> str | None:
        """A file, '-' for standard output."""

    @property
    def html_path(self) -> str | None:
        """A page."""

    @property
    def picture(self) -> str | None:
        """The page's figures."""


def finish_suite(result: Result, options: Asked) -> None:
    """Tables of a suite whose predictors stand side by side."""
    from perfcast.report.documents.evidence.validation import suite_document

    finish(suite_document(result.summary), result, options)


def finish(document: Document, result: Result, options: Asked) -> None:
    """Tables to the terminal, errors as figures to the page, JSON to where it is wanted, row by row."""
    from perfcast.cli.output import write_pages
    from perfcast.printer.boxes import visible_console
    from perfcast.report.documents.evidence.errors import with_error_figures
    from perfcast.report.terminal import print_document

    files = outputs(options)
    console = visible_console(is_error=files.takes_terminal)
    print_document(document, console)
    if files.draws:
        write_pages(files, with_error_figures(document, result.summary))
        for path in replace(files, json=None).paths:
            if path != STANDARD_OUTPUT:
                console.print(f"wrote {path}")
    _write(result, options, console)


def outputs(options: Asked) -> Outputs:
    """Files to be written."""
    from perfcast.cli.output import Outputs

    return Outputs(json=options.json_path, html=options.html_path, picture=options.picture)


def finish_study(result: Result, options: Asked) -> None:
    """The study's table to the terminal and its page, JSON to where it is wanted."""
    from perfcast.cli.output import write_answer
    from perfcast.printer.boxes import visible_console
    from perfcast.report.documents.evidence.study import study_document

    files = replace(outputs(options), json="-" if options.json_path == "-" else None)
    write_answer(files, lambda: study_document(result.summary, result.protocol))
    _write(result, options, visible_console())


def _write(result: Result, options: Asked, console: Console) -> None:
    from perfcast.cli.output import with_origin
    from perfcast.evidence.validate.result import write_result

    head = with_origin({}, None)
    if options.json_path == "-":
        written = io.StringIO()
        write_result(result, written, head)
        write_document(written.getvalue())
    elif options.json_path:
        with written_atomically(options.json_path) as file:
            text = io.TextIOWrapper(file, "utf-8")
            write_result(result, text, head)
            text.detach()
        console.print(f"wrote {options.json_path}")
